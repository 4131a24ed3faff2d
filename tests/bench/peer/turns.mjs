// The pi harness on its faux provider and its JSONL repo, a chunk of prompts at a time.
//
// stdin: a number of prompts a line. stdout: a line of JSON for each, a pair for every prompt:
// its milliseconds, and those that the CPU worked. An empty line asks for the provider's own
// share: milliseconds of one request with the whole history, without the harness.

import { createInterface } from "node:readline";

import { fauxAssistantMessage, fauxProvider } from "@earendil-works/pi-ai/providers/faux";
import { createModels } from "@earendil-works/pi-ai";
import { AgentHarness, JsonlSessionRepo, NodeExecutionEnv } from "@earendil-works/pi-agent-core/node";

const [folder, question, answer] = process.argv.slice(2);
const SHARE_OF = 20; // requests

const faux = fauxProvider();
const models = createModels();
models.setProvider(faux.provider);
const fs = new NodeExecutionEnv({ cwd: folder });
const session = await new JsonlSessionRepo({ fs, sessionsRoot: folder }).create({ cwd: folder });
// Without prompt caching: the provider would compare the whole prompt, character by character.
const streamOptions = { cacheRetention: "none" };
const harness = new AgentHarness({ session, models, model: faux.getModel(), streamOptions });

async function prompts(count) {
  const costs = [];
  for (let i = 0; i < count; i++) {
    faux.appendResponses([fauxAssistantMessage(answer)]);
    const start = performance.now();
    const before = process.cpuUsage();
    const reply = await harness.prompt(question);
    const { user, system } = process.cpuUsage(before); // microseconds
    costs.push([performance.now() - start, (user + system) / 1000]);
    if (reply.stopReason !== "stop") throw new Error(reply.errorMessage ?? reply.stopReason);
  }
  return costs;
}

async function share() {
  const { messages } = await session.buildContext();
  const start = performance.now();
  for (let i = 0; i < SHARE_OF; i++) {
    faux.appendResponses([fauxAssistantMessage(answer)]);
    const stream = faux.provider.stream(faux.getModel(), { messages }, streamOptions);
    await stream.result();
  }
  return (performance.now() - start) / SHARE_OF;
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = line.trim();
  console.log(JSON.stringify(asked ? await prompts(Number(asked)) : await share()));
}
