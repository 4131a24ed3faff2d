// The session manager of pi 1.6.0, asked a question a line.
//
// stdin: a line of JSON {do, ...}, see `questions`. stdout: for each a line, {answer} or
// {error}. A file is opened for one question and not kept: whoever asks next finds on the disk
// all that there is. What an operation speaks of is chosen by number, among what is there when
// its turn comes; `interop/ours.py` has the same operations and chooses alike.

import { createInterface } from "node:readline";

// By its path: the package's index does not export `buildSessionContext`.
const { SessionManager, buildSessionContext } = await import(
  new URL(
    "./node_modules/@earendil-works/pi-coding-agent/dist/core/session-manager.js",
    import.meta.url,
  ).href
);

const EDITABLE = ["user", "assistant", "toolResult"];

function chosen(items, which) {
  return items[which % items.length];
}

/** An entry's id, or null for the place before every root. */
function place(session, which) {
  return chosen([null, ...session.getEntries().map((entry) => entry.id)], which);
}

/** The entries of the branch whose content pi lets anybody edit. */
function editable(session) {
  return session
    .getBranch()
    .filter((entry) => entry.type === "custom_message" || EDITABLE.includes(entry.message?.role));
}

const operations = {
  message: (session, { message }) => session.appendMessage(message),
  custom_message: (session, { customType, content, display }) =>
    session.appendCustomMessageEntry(customType, content, display),
  custom: (session, { customType, data }) => session.appendCustomEntry(customType, data),
  model: (session, { provider, modelId }) => session.appendModelChange(provider, modelId),
  thinking: (session, { level }) => session.appendThinkingLevelChange(level),
  usage: (session, { kind, provider, model, usage }) =>
    session.appendUsage(kind, provider, model, usage),
  name: (session, { name }) => session.appendSessionInfo(name),
  label: (session, { which, label }) => {
    const entries = session.getEntries();
    if (entries.length) session.appendLabelChange(chosen(entries, which).id, label ?? undefined);
  },
  branch: (session, { which }) => {
    const id = place(session, which);
    if (id === null) session.resetLeaf();
    else session.branch(id);
  },
  branch_summary: (session, { which, summary }) =>
    session.branchWithSummary(place(session, which), summary),
  compaction: (session, { which, summary, tokensBefore, details, usage, fromHook }) => {
    const kept = chosen([null, ...session.getBranch().map((entry) => entry.id)], which);
    session.appendCompaction(summary, kept, tokensBefore, details, fromHook, usage);
  },
  context_edit: (session, { which, replacement }) => {
    const targets = editable(session);
    if (targets.length) session.appendContextEdit(chosen(targets, which).id, replacement);
  },
};

/** Prompt and tools in force: what a compaction would restate, in a copy that is not kept. */
function declared(session) {
  const entries = [session.getHeader(), ...session.getEntries()];
  const copy = SessionManager.inMemory(session.getCwd(), undefined, structuredClone(entries));
  const { content, sections, toolsAdded } =
    copy.getEntry(copy.appendCompaction("", null, 0)).systemMessage ?? {};
  return { content: content ?? "", sections: sections ?? {}, tools: toolsAdded ?? [] };
}

function write(session, asked) {
  for (const { op, ...fields } of asked) operations[op](session, fields);
}

const questions = {
  /** A new session; the path of its file. pi makes the file with the first thing said. */
  create({ folder, ops }) {
    const session = SessionManager.create(folder, folder);
    write(session, ops);
    return session.getSessionFile();
  },

  write({ path, ops }) {
    write(SessionManager.open(path), ops);
    return null;
  },

  /** Everything that both sides have to see alike. */
  look({ path }) {
    const session = SessionManager.open(path);
    const entries = session.getEntries();
    const labels = entries.map(({ id }) => [id, session.getLabel(id)]).filter(([, label]) => label);
    return {
      entries,
      leaf: session.getLeafId(),
      labels: Object.fromEntries(labels),
      name: session.getSessionName() ?? null,
      context: session.buildSessionContext(),
      declared: declared(session),
    };
  },

  /** The context at every entry, by its id. */
  contexts({ path }) {
    const entries = SessionManager.open(path).getEntries();
    return Object.fromEntries(entries.map(({ id }) => [id, buildSessionContext(entries, id)]));
  },
};

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  let answer;
  try {
    const asked = JSON.parse(line);
    answer = { answer: questions[asked.do](asked) };
  } catch (error) {
    answer = { error: error.message };
  }
  console.log(JSON.stringify(answer));
}
