// pi's side of `compaction.py`: one question to a fresh process, one line of JSON back.
//
//     node compaction.mjs plan FILE TIMES KEEP       {ms: [...], ..., kept, tokens}
//     node compaction.mjs sweep FILE TIMES KEEPS     {ms: [...], kept: [...]}
//
// What is asked and how it is measured stands in `compaction_ours.py`, its other half.

const core = new URL(
  "../interop/node_modules/@earendil-works/pi-coding-agent/dist/core/",
  import.meta.url,
).href;
const { SessionManager } = await import(`${core}session-manager.js`);
// By its path: the package's index does not export it.
const { prepareCompaction } = await import(`${core}compaction/compaction.js`);

function settings(keepRecentTokens) {
  return { enabled: true, reserveTokens: 16_384, keepRecentTokens };
}

function timed(action) {
  const start = performance.now();
  const value = action();
  return [performance.now() - start, value];
}

const questions = {
  plan(path, times, keep) {
    const [opening, session] = timed(() => SessionManager.open(path));
    const branch = session.getBranch();
    const ms = [];
    const plan = () => timed(() => prepareCompaction(branch, settings(Number(keep))));
    const [first, found] = plan();
    for (let i = 0; i < times; i++) ms.push(plan()[0]);
    return {
      ms,
      // It lists the files as well, each time.
      files_ms: ms,
      first_ms: [opening + first],
      kept: found.firstKeptEntryId,
      tokens: found.tokensBefore,
    };
  },

  sweep(path, times, keeps) {
    const branch = SessionManager.open(path).getBranch();
    const ms = [];
    let kept;
    for (let i = 0; i <= times; i++) {
      const [took, found] = timed(() =>
        JSON.parse(keeps).map((keep) => prepareCompaction(branch, settings(keep))),
      );
      if (i) ms.push(took);
      kept = found.map((prepared) => prepared?.firstKeptEntryId ?? null);
    }
    return { ms, kept };
  },
};

const [what, path, times, given] = process.argv.slice(2);
console.log(JSON.stringify(questions[what](path, Number(times), given)));
