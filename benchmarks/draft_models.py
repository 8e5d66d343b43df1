"""Speculative decoding with a draft model: time and passes against the baseline, on pictures and on text.

Runs are timed in pairs and recorded separately. The ratio is compared with the prediction of Leviathan et al. (arXiv
2211.17192, Theorem 3.8) from the measured acceptance and the cost of a draft pass over a target pass.
"""

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from benchmarks import _timing as _runs
from benchmarks._accuracy import accuracy
from benchmarks._report_format import Options, Row, finish
from benchmarks._timing import Pair, decode, job, paired, prompts
from draftscope.analysis.break_even import tokens_of
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.models.catalog import drafter_of, load_model
from draftscope.engines.protocol import Model
from draftscope.engines.runtime.driver import Job, run_batch
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.experiments.problems import held_out
from draftscope.traces.schema import Trace

GAMMAS: Final = (1, 2, 4, 8)
PICTURES: Final = "studio-image"
TEXT: Final = "text-target"
LENGTH: Final = 96
DRAFTERS: Final = ("small", "lookup")

Make = Callable[[str, int, Mapping[str, object]], Job]
"""A method, the number of a prompt and settings to a job."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    chosen = Options("drafting", __doc__, device=True, images=12, problems=20).read(arguments)
    pictures, text = load_model(PICTURES, chosen.device), load_model(TEXT, chosen.device)
    captions = prompts(PICTURES, chosen.images)

    def draw(method: str, number: int, settings: Mapping[str, object]) -> Job:
        return job(method, pictures, captions[number], number, **settings)

    def answer(method: str, number: int, settings: Mapping[str, object]) -> Job:
        likeliest = {"top_k": 1, "length": LENGTH, **settings}
        return RunRequest(method, text, held_out()[number].question, settings=likeliest).job()

    rows = table(pictures, draw, chosen.images) + table(text, answer, chosen.problems)
    finish(chosen, "Speculative decoding", [], rows, pictures.device)


def table(model: Model, make: Make, count: int) -> list[Row]:
    """Ordinary decoding, then every drafter with every draft length; pairs of all of them are interleaved."""
    cells = {(drafter, gamma): {"drafter": drafter, "gamma": gamma} for drafter in DRAFTERS for gamma in GAMMAS}
    for settings in list(cells.values())[:: len(GAMMAS)]:
        decode([make("speculative", 0, settings)])  # load kernels and grow memory pools before anything is timed
    pairs = paired(
        (make("ar", i, {}), {cell: make("speculative", i, settings) for cell, settings in cells.items()})
        for i in range(count)
    )
    baseline_runs = [(run, run) for run, _ in next(iter(pairs.values()))]
    ordinary = {
        name: value for name, value in _runs.speed(baseline_runs).items() if not name.startswith(("faster", "fewer"))
    }
    rows: list[Row] = [{"method": "ar", "model": model.card.id, **_quality(model, baseline_runs), **ordinary}]
    for cell, settings in cells.items():
        traces = [run_batch([make("speculative", number, settings)])[0] for number in range(count)]
        rows.append(_row(model, cell, pairs[cell], traces))
    return rows


def _row(model: Model, cell: tuple[str, int], pairs: Sequence[Pair], traces: Sequence[Trace]) -> Row:
    steps = [step for trace in traces for step in trace.steps]
    by_role = {role: [step.call for step in steps if step.call.role == role] for role in ("target", "draft")}
    acceptance = sum(t.summary.accepted for t in traces) / max(sum(t.summary.judged for t in traces), 1)
    row: dict[str, Any] = {
        "method": "speculative",
        "model": model.card.id,
        "drafter": drafter_of(model.card.id) if cell[0] == "small" else cell[0],
        "gamma": cell[1],
        **_quality(model, pairs),
        "acceptance": acceptance,
        "target_passes": len(by_role["target"]) / len(traces),
        "fewer_target_passes": sum(run.forwards for run, _ in pairs) / len(by_role["target"]),
        "draft_passes": len(by_role["draft"]) / len(traces),
        **_runs.speed(pairs),
    }
    if by_role["draft"]:
        cost = [statistics.median(call.milliseconds.forward for call in by_role[role]) for role in ("draft", "target")]
        row["cost_of_a_draft"] = cost[0] / cost[1]
        row["predicted_faster"] = tokens_of(acceptance, cell[1]) / (cell[1] * row["cost_of_a_draft"] + 1)
    return row


def _quality(model: Model, pairs: Sequence[Pair]) -> Row:
    if model.card.id != TEXT:
        return {"pictures": len(pairs)}
    return accuracy(model, [run for _, run in pairs], held_out()[: len(pairs)])


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
