"""Drafts for smollm2 by each of its drafters, on 40 prompts of five kinds, compared with the baseline.

    python -m benchmarks.smollm2_drafts [--json FILE] [--prompts N] [--length N]

Greedy, and sampled at temperature 1. All decoders of a prompt alternate in running first; a ratio is of tokens per
second of processor time, one thread in float32, over the baseline on the same prompt. Acceptance by draft position is
that of the longest drafts, recorded separately. Jacobi decoding (method scd) is included.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks._report_format import Claim, Options, Row, finish, spread
from benchmarks._timing import Decoded, decode
from draftscope.analysis.acceptance import acceptance_by_draft_position
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.methods.speculative import EAGLE_DRAFTERS
from draftscope.engines.models.catalog import has_eagle, load_model
from draftscope.engines.runtime.driver import Job
from draftscope.engines.runtime.run_request import RunRequest

MODEL: Final = "smollm2"
PROMPTS: Final = Path(__file__).with_name("smollm2_prompts.jsonl")
GAMMAS: Final = {"lookup": (4, 8), "eagle": (2, 4, 8), "lookup-eagle": (1, 2, 3, 4, 6, 8)}
WINDOW: Final = 4
SAMPLING: Final[Mapping[str, Mapping[str, object]]] = {"greedy": {"top_k": 1}, "drawn": {"temperature": 1.0}}
LEAST: Final = {"overall": 1.5, "rewriting": 2.5}
"""Times as fast as ordinary decoding, greedy, at the best setting."""


class Prompt(NamedTuple):
    """A line of `PROMPTS`."""

    kind: str
    text: str


class Way(NamedTuple):
    """A way of decoding, with its draft length, or its window."""

    drafter: str
    gamma: int

    def job(self, model: Any, prompt: Prompt, sample: int, length: int, sampling: Mapping[str, object]) -> Job:
        """The run of a prompt."""
        settings: dict[str, object] = {"length": length, **sampling}
        if self.drafter == "ordinary":
            return RunRequest("ar", model, prompt.text, settings=settings, sample=sample).job()
        if self.drafter == "Jacobi":
            return RunRequest(
                "scd", model, prompt.text, settings=settings | {"window": self.gamma}, sample=sample
            ).job()
        drafting = {"drafter": self.drafter, "gamma": self.gamma}
        return RunRequest("speculative", model, prompt.text, settings=settings | drafting, sample=sample).job()


ORDINARY: Final = Way("ordinary", 0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    chosen = Options("smollm2_drafts", __doc__, prompts=40, length=48).read(arguments)
    model: Any = load_model(MODEL, "cpu")
    rows = [row for name in SAMPLING for row in measured(model, read(chosen.prompts), name, chosen.length)]
    finish(chosen, "Drafts for smollm2", claims(rows), rows)


def read(count: int) -> list[Prompt]:
    """Return the first prompts, alternating between kinds."""
    lines = map(json.loads, PROMPTS.read_text(encoding="utf-8").splitlines())
    by_kind: dict[str, list[Prompt]] = defaultdict(list)
    for line in lines:
        by_kind[line["category"]].append(Prompt(line["category"], *line["turns"]))
    return [prompt for several in zip(*by_kind.values(), strict=True) for prompt in several][:count]


def measured(model: Any, prompts: Sequence[Prompt], name: str, length: int) -> list[Row]:
    """A row for every way of decoding with one sampling."""
    drafters = ("lookup", *(EAGLE_DRAFTERS if has_eagle(MODEL) else ()))
    ways = [ORDINARY, *(Way(each, gamma) for each in drafters for gamma in GAMMAS[each]), Way("Jacobi", WINDOW)]
    runs: dict[Way, list[Decoded]] = {way: [] for way in ways}
    decode([ORDINARY.job(model, prompts[0], 0, length, SAMPLING[name])])  # loads kernels
    for number, prompt in enumerate(prompts):
        turn = number % len(ways)
        for way in [*ways[turn:], *ways[:turn]]:
            runs[way].append(decode([way.job(model, prompt, number, length, SAMPLING[name])]))
        print(f"{name}, {number + 1} of {len(prompts)} prompts", file=sys.stderr, flush=True)
    rows = [_row(way, name, prompts, runs[way], runs[ORDINARY]) for way in ways[1:]]
    for drafter in drafters:
        longest = Way(drafter, max(GAMMAS[drafter]))
        jobs = [longest.job(model, prompt, i, length, SAMPLING[name]) for i, prompt in enumerate(prompts)]
        acceptance = acceptance_by_draft_position([decode([one], record=True).steps[0] for one in jobs])
        for row in rows:
            if acceptance and row["drafter"] == drafter and row["gamma"] == longest.gamma:
                row["acceptance_by_place"] = [position.marginal for position in acceptance.positions]
    return [*rows]


def _row(
    way: Way, name: str, prompts: Sequence[Prompt], runs: Sequence[Decoded], baseline_runs: Sequence[Decoded]
) -> dict[str, Any]:
    tokens = [len(run.tokens[0]) for run in runs]
    faster = [
        len(run.tokens[0]) / run.seconds * other.seconds / len(other.tokens[0])
        for run, other in zip(runs, baseline_runs, strict=True)
    ]
    by_kind: dict[str, list[float]] = defaultdict(list)
    for prompt, ratio in zip(prompts, faster, strict=True):
        by_kind[prompt.kind].append(ratio)
    return {
        "method": "scd" if way.drafter == "Jacobi" else "speculative",
        "model": MODEL,
        "sampling": name,
        "drafter": way.drafter,
        "gamma": way.gamma,
        "prompts": len(prompts),
        "tokens_per_target_pass": sum(tokens) / sum(run.forwards - run.draft_forwards for run in runs),
        "drafter_passes": sum(run.draft_forwards for run in runs) / len(runs),
        "faster_overall": sum(tokens) / sum(run.seconds for run in runs)
        * sum(run.seconds for run in baseline_runs) / sum(len(run.tokens[0]) for run in baseline_runs),
        **spread(faster).row("faster"),
        **{f"faster_{kind}": spread(ratios_of_kind).median for kind, ratios_of_kind in by_kind.items()},
    }  # fmt: skip


def claims(rows: Sequence[Row]) -> list[Claim]:
    """How many times as fast as ordinary decoding the best setting is, greedy and drawn."""
    found = []
    for name in SAMPLING:
        for what, minimum in LEAST.items():
            field = f"faster_{what}"  # few prompts are not of every kind
            those = [row for row in rows if row["sampling"] == name and field in row]
            if not those:
                continue
            best = max(those, key=lambda row, field=field: float(row[field]))  # type: ignore[misc]
            how = f"{best['drafter']}, γ = {best['gamma']}"
            found.append(
                Claim(
                    name=f"Drafts for smollm2, {name}, {what}: times as fast as ordinary decoding",
                    measured=float(best[field]),
                    target=minimum if name == "greedy" else None,
                    reason=f"{how}; processor time of one thread, measured alternately; {best['prompts']} prompts",
                )
            )
    return found


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
