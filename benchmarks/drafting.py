"""Speculative decoding with a draft model: time and passes against ordinary decoding, on pictures and on text.

    python -m benchmarks.drafting [--json FILE] [--images N] [--problems N] [--gammas G ...] [--device D]

Every run is timed next to an ordinary one of the same prompt, in alternating order; ratios are formed within such a
pair, and nothing is recorded while it is timed. Acceptance and the number of calls come from the same runs, recorded
apart. Beside the measured ratio stands the one that Leviathan et al. predict (arXiv 2211.17192, Theorem 3.8) from the
measured acceptance and the cost of a drafter's pass over a target's.
"""

import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks._problems import held_out, solved
from benchmarks._results import Claim, Row, command, finish, parser, positive, result, spread, standard_error
from benchmarks._runs import Decoded, decode, prompts
from engines.config import make_config
from engines.methods import METHODS
from engines.models.catalog import MODELS, load_model, small_of
from engines.models.devices import add_option
from engines.protocol import Model
from engines.runtime.driver import Job, run_batch
from traces.schema import Trace
from traces.streams import piped

GAMMAS: Final = (1, 2, 4, 8)
PICTURES: Final = "studio-image"
TEXT: Final = "text-target"
LENGTH: Final = 96
DRAFTERS: Final = ("small", "lookup")

Ask = Callable[[str, int, dict[str, object]], Job]
"""A method, the number of a prompt and settings to a job."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser(__doc__)
    options.add_argument("--images", type=positive, default=12)
    options.add_argument("--problems", type=positive, default=20)
    options.add_argument("--gammas", type=positive, nargs="+", default=list(GAMMAS))
    add_option(options)
    chosen = options.parse_args(given)
    pictures, text = load_model(PICTURES, chosen.device), load_model(TEXT, chosen.device)
    rows = table(pictures, asks_for_pictures(pictures, chosen.images), chosen.images, chosen.gammas)
    rows += table(text, asks_for_answers(text), chosen.problems, chosen.gammas)
    claims = [claim for model in (PICTURES, TEXT) for claim in best(model, rows)]
    finish(result("Speculative decoding", command("drafting", given), claims, rows, pictures.device), chosen.json)


def asks_for_pictures(model: Model, count: int) -> Ask:
    """Jobs that draw a picture of each of `count` prompts."""
    asked = prompts(PICTURES, count)

    def ask(method: str, number: int, settings: dict[str, object]) -> Job:
        return Job(METHODS[method], model, asked[number], make_config(METHODS[method].config, settings), 0, number)

    return ask


def asks_for_answers(model: Model) -> Ask:
    """Jobs that answer held-out problems with the likeliest tokens."""

    def ask(method: str, number: int, settings: dict[str, object]) -> Job:
        config: Any = make_config(METHODS[method].config, {"top_k": 1, "length": LENGTH, **settings})
        return Job(METHODS[method], model, held_out()[number].question, config)

    return ask


def table(model: Model, ask: Ask, count: int, gammas: Sequence[int]) -> list[Row]:
    """Ordinary decoding, then every drafter with every draft length; pairs of all of them are interleaved."""
    cells = [(drafter, gamma) for drafter in DRAFTERS for gamma in gammas]
    settings: dict[tuple[str, int], dict[str, object]] = {
        cell: {"drafter": cell[0], "gamma": cell[1]} for cell in cells
    }
    pairs: dict[tuple[str, int], list[tuple[Decoded, Decoded]]] = {cell: [] for cell in cells}
    for cell in cells[:: len(gammas)]:
        decode([ask("speculative", 0, settings[cell])])  # load kernels and grow memory pools before anything is timed
    for number in range(count):
        for cell in cells:
            jobs = [ask("ar", number, {}), ask("speculative", number, settings[cell])]
            runs = [decode([job]) for job in (jobs if number % 2 else jobs[::-1])]
            pairs[cell].append((runs[0], runs[1]) if number % 2 else (runs[1], runs[0]))
    usual = [baseline for baseline, _ in pairs[cells[0]]]
    rows: list[Row] = [{"method": "ar", "model": model.card.id, **_quality(model, usual), **_spent(usual)}]
    for cell in cells:
        traces = [run_batch([ask("speculative", number, settings[cell])])[0] for number in range(count)]
        rows.append(_row(model, cell, pairs[cell], traces))
    return rows


def _row(model: Model, cell: tuple[str, int], pairs: Sequence[tuple[Decoded, Decoded]], traces: Sequence[Trace]) -> Row:
    steps = [step for trace in traces for step in trace.steps]
    by_role = {role: [step.call for step in steps if step.call.role == role] for role in ("target", "draft")}
    acceptance = sum(t.summary.accepted for t in traces) / max(sum(t.summary.judged for t in traces), 1)
    faster = spread([baseline.seconds / run.seconds for baseline, run in pairs])
    runs = [run for _, run in pairs]
    row: dict[str, Any] = {
        "method": "speculative",
        "model": model.card.id,
        "drafter": small_of(model.card.id) if cell[0] == "small" else cell[0],
        "gamma": cell[1],
        **_quality(model, runs),
        "acceptance": acceptance,
        "target_passes": len(by_role["target"]) / len(traces),
        "draft_passes": len(by_role["draft"]) / len(traces),
        **_spent(runs),
        "faster_median": faster.median,
        "faster_low_quartile": faster.low,
        "faster_high_quartile": faster.high,
    }
    if by_role["draft"]:
        cost = [statistics.median(call.milliseconds.forward for call in by_role[role]) for role in ("draft", "target")]
        row["cost_of_a_draft"] = cost[0] / cost[1]
        row["predicted_faster"] = predicted(acceptance, cell[1], cost[0] / cost[1])
    return row


def predicted(acceptance: float, gamma: int, cost: float) -> float:
    """Times faster by Theorem 3.8: (1 - a^(g + 1)) / ((1 - a) (g c + 1))."""
    expected = sum(acceptance**k for k in range(gamma + 1))
    return expected / (gamma * cost + 1)


def _quality(model: Model, runs: Sequence[Decoded]) -> Row:
    if model.card.id != TEXT:
        return {"pictures": len(runs)}
    texts = [model.output(run.tokens[0]).text or "" for run in runs]
    right = [float(solved(text, one.answer)) for text, one in zip(texts, held_out(), strict=False)]
    return {
        "problems": len(runs),
        "accuracy": statistics.fmean(right),
        "accuracy_standard_error": standard_error(right),
    }


def _spent(runs: Sequence[Decoded]) -> Row:
    return {
        "nfe": statistics.fmean(run.forwards for run in runs),
        "seconds_median": spread([run.seconds for run in runs]).median,
    }


def best(model: str, rows: Sequence[Row]) -> list[Claim]:
    """For every drafter the draft length that is fastest by the clock."""
    claims = []
    usual = next(row for row in rows if row["model"] == model and row["method"] == "ar")
    for drafter in (small_of(model), "lookup"):
        row = max((r for r in rows if r["model"] == model and r.get("drafter") == drafter), key=_faster)
        claims.append(
            Claim(
                name=f"Speculative decoding of {MODELS[model].title}, drafts by {drafter}, gamma = {row['gamma']}: "
                "times faster than ordinary decoding, in time",
                measured=_faster(row),
                unit="×",
                reason=f"acceptance {row['acceptance']:.2f}; {row['target_passes']:.1f} target and "
                f"{row['draft_passes']:.1f} draft passes against {usual['nfe']:.1f}; quartiles "
                f"{row['faster_low_quartile']:.2f} to {row['faster_high_quartile']:.2f}; the fastest of gamma "
                + ", ".join(str(r["gamma"]) for r in rows if r["model"] == model and r.get("drafter") == drafter),
            )
        )
    return claims


def _faster(row: Row) -> float:
    return float(row["faster_median"])


if __name__ == "__main__":
    sys.exit(piped(main))
