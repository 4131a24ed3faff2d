// pi's side of `sessions.py`: one question to a fresh process, one line of JSON back.
//
//     node sessions.mjs open FILE TIMES        {ms: [...], mb}
//     node sessions.mjs context FILE TIMES     {context_ms: [...], ..., messages}
//     node sessions.mjs list FOLDER TIMES      {ms: [...], found}
//
// What is asked and how it is measured stands in `sessions_ours.py`, its other half.

import { readFileSync, writeFileSync } from "node:fs";

const { SessionManager } = await import(
  new URL(
    "../interop/node_modules/@earendil-works/pi-coding-agent/dist/core/session-manager.js",
    import.meta.url,
  ).href
);

function timed(action) {
  const start = performance.now();
  const value = action();
  return [performance.now() - start, value];
}

function memory(field) {
  const status = readFileSync("/proc/self/status", "utf8");
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(status)[1]) / 1024;
}

const questions = {
  open(path, times) {
    writeFileSync("/proc/self/clear_refs", "5");
    const bare = memory("VmRSS");
    const first = SessionManager.open(path);
    const mb = memory("VmHWM") - bare;
    const ms = [];
    for (let i = 0; i < times; i++) ms.push(timed(() => SessionManager.open(path))[0]);
    return { ms, mb, entries: first.getEntryCount() };
  },

  context(path, times) {
    const session = SessionManager.open(path);
    session.buildSessionContext();
    const context_ms = [];
    const turn_ms = [];
    let messages = 0;
    for (let i = 0; i < times; i++) {
      const said = { role: "user", content: "And then?", timestamp: i };
      const [append] = timed(() => session.appendMessage(said));
      const [build, context] = timed(() => session.buildSessionContext());
      context_ms.push(build);
      turn_ms.push(append + build);
      messages = context.messages.length;
    }
    return { context_ms, copied_ms: context_ms, turn_ms, messages };
  },

  async list(folder, times) {
    const ms = [];
    let found = [];
    for (let i = 0; i <= times; i++) {
      const start = performance.now();
      found = await SessionManager.listAll(folder);
      if (i) ms.push(performance.now() - start);
    }
    return { ms, found: found.length };
  },
};

const [what, path, times] = process.argv.slice(2);
console.log(JSON.stringify(await questions[what](path, Number(times))));
