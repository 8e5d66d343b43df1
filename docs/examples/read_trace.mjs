// Read a trace and follow it, with nothing but JavaScript: node read_trace.mjs RUN.json.gz

const FINAL = new Set(["sampled", "prefilled", "accepted", "resampled", "bonus", "unmasked", "fallback", "edited"]);
const JUDGED = new Set(["accepted", "resampled", "rejected"]);

/** A trace from the bytes of a file, plain or gzipped. */
export async function parse(bytes) {
  const zipped = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const stream = new Blob([bytes]).stream();
  const trace = await new Response(zipped ? stream.pipeThrough(new DecompressionStream("gzip")) : stream).json();
  if (trace.schema !== "draftscope-trace" || trace.version.split(".")[0] !== "1") throw new Error("This is no trace of version 1.");
  return trace;
}

/** Final tokens after the last pass, tokens decoded after each pass, and verdicts on drafts. */
export function follow({ canvas, steps, output }) {
  const size = canvas.shape.reduce((product, extent) => product * extent, 1);
  const [tokens, final, decoded, verdicts] = [Array(size).fill(null), new Set(), [], []];
  for (let { position = [], token, fate = [], signals = {} } of steps) {
    if (position.length === 0) { // a coarse step: its tokens fill the first open positions
      const { accepted = 0, window = 0, committed = accepted } = signals;
      position = [...tokens.keys()].filter((at) => !final.has(at)).slice(0, committed);
      fate = position.map((_, entry) => (entry < accepted ? "accepted" : accepted < window ? "resampled" : "bonus"));
    }
    position.forEach((at, entry) => {
      if (!FINAL.has(fate[entry])) return;
      tokens[at] = token?.[entry] ?? output.tokens?.[at] ?? null;
      final.add(at);
    });
    verdicts.push(...fate.filter((what) => JUDGED.has(what)));
    decoded.push(final.size);
  }
  return { tokens, decoded, judged: verdicts.length, accepted: verdicts.filter((what) => what === "accepted").length };
}

if (globalThis.process) {
  const { readFile } = await import("node:fs/promises");
  console.log(JSON.stringify(follow(await parse(await readFile(process.argv[2])))));
}
