"""Read a trace and follow it with the standard library alone: `python read_trace.py RUN.json.gz`."""

import gzip
import json
import math
import sys
from pathlib import Path

FINAL = {"sampled", "prefilled", "accepted", "resampled", "bonus", "unmasked", "fallback", "edited"}
JUDGED = {"accepted", "resampled", "rejected"}


def follow(trace):
    """Final tokens after the last pass, tokens decoded after each pass, and verdicts on drafts."""
    size = math.prod(trace["canvas"]["shape"])
    tokens, final, decoded, verdicts = [None] * size, set(), [], []
    for step in trace["steps"]:
        position, fate, signals = step.get("position", []), step.get("fate", []), step.get("signals", {})
        if not position:  # a coarse step: its tokens fill the first open positions
            accepted, window = int(signals.get("accepted", 0)), int(signals.get("window", 0))
            count = int(signals.get("committed", accepted))
            position = [at for at in range(size) if at not in final][:count]
            corrected = "resampled" if accepted < window else "bonus"
            fate = ["accepted"] * min(accepted, count) + [corrected] * (count - accepted)
        tokens_here = step.get("token") or [(trace["output"].get("tokens") or tokens)[at] for at in position]
        for at, token, what in zip(position, tokens_here, fate, strict=True):
            if what in FINAL:
                tokens[at] = token
                final.add(at)
        verdicts += [what for what in fate if what in JUDGED]
        decoded.append(len(final))
    return {"tokens": tokens, "decoded": decoded, "judged": len(verdicts), "accepted": verdicts.count("accepted")}


data = Path(sys.argv[1]).read_bytes()
trace = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
if trace["schema"] != "draftscope-trace" or trace["version"].split(".")[0] != "1":
    sys.exit("This is not a trace of version 1.")
sys.stdout.write(f"{json.dumps(follow(trace))}\n")
