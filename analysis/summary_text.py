"""A trace as a few lines of text."""

from typing import Final

from draftscope.analysis.acceptance import acceptance_of
from draftscope.traces.schema import Trace, printable
from draftscope.traces.stats import cost_by_mode

_PLACES: Final = 16


def summary_text(trace: Trace) -> str:
    """The run and its summary as aligned text. Control characters are removed."""
    rows = ((name, printable(value[:200]), " ..." * (len(value) > 200)) for name, value in in_rows(trace).items())
    return "\n".join(f"{name:<18}  {value}{more}" for name, value, more in rows)


def in_rows(trace: Trace) -> dict[str, str]:
    """The run and its summary, by name; what the trace does not say is left out."""
    summary = trace.summary
    canvas = f"{trace.canvas.kind} {' x '.join(map(str, trace.canvas.shape))}"
    modes = ", ".join(f"{cost.forwards} {mode}" for mode, cost in cost_by_mode(trace.steps).items())
    acceptance = "-" if summary.acceptance is None else f"{summary.acceptance:.3f}"
    verdicts = f"{summary.accepted} of {summary.judged} drafts judged"
    if summary.accepted and not summary.judged:
        verdicts = f"{summary.accepted} of {summary.drafts} drafts; the number of verified ones is not known"
    rows = {
        "method": trace.method,
        "variant": trace.variant,
        "model": trace.model.id,
        "licence": trace.model.licence,
        "prompt": trace.prompt,
        "settings": ", ".join(f"{name}={value}" for name, value in trace.config.items()),
        "seed": "" if trace.seed is None else str(trace.seed),
        "created": f"{trace.created} on {trace.environment.device}" if trace.environment.device else trace.created,
        "canvas": "" if trace.sums else f"{canvas}, {'complete' if summary.complete else 'stopped early'}",
        "tokens": str(summary.tokens),
        "forwards": f"{summary.forwards} ({modes})" if modes else str(summary.forwards),
        "tokens per forward": f"{summary.tokens_per_forward:.3f}",
        "acceptance": f"{acceptance} ({verdicts})",
        **_by_position(trace),
        "query tokens": str(summary.query_tokens),
        "row forwards": str(summary.row_forwards),
        "seconds": f"{summary.seconds:.4g} ({summary.forward_seconds:.4g} in the network)",
        "note": trace.note,
    }
    return {name: value for name, value in rows.items() if value}


def _by_position(trace: Trace) -> dict[str, str]:
    """Return the mean accepted length and the marginal rates of the first positions.

    Empty if no drafts were verified.
    """
    acceptance = acceptance_of([trace])
    if acceptance is None:
        return {}
    rates = " ".join(f"{position.marginal:.2f}" for position in acceptance.positions[:_PLACES])
    more = " ..." if len(acceptance.positions) > _PLACES else ""
    return {
        "accepted length": f"{acceptance.mean_accepted_length:.3f} in {acceptance.passes} passes that verified drafts",
        "by place": f"{rates}{more}",
    }
