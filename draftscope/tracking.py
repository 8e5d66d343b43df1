"""Numbers and figures of traces in an experiment tracker, through its own client: Weights & Biases or trackio."""

import io
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from draftscope.analysis.acceptance import acceptance_of
from draftscope.traces.schema import Trace

CLIENTS: Final = ("wandb", "trackio")
"""Clients whose runs are known."""


def metrics(trace: Trace) -> dict[str, float]:
    """Return the numbers of a run that a tracker draws as curves; what is not known is left out."""
    summary = trace.summary
    known: dict[str, float | None] = {
        "tokens": summary.tokens,
        "forwards": summary.forwards,
        "tokens_per_forward": summary.tokens_per_forward,
        "acceptance": summary.acceptance,
        "accepted": summary.accepted,
        "judged": summary.judged,
        "query_tokens": summary.query_tokens,
        "seconds": summary.seconds or None,
    }
    if acceptance := acceptance_of([trace]):
        rates = {f"acceptance/position {i}": each.marginal for i, each in enumerate(acceptance.positions, 1)}
        known |= {"mean_accepted_length": acceptance.mean_accepted_length, **rates}
    return {name: float(value) for name, value in known.items() if value is not None}


def log(trace: Trace, run: Any, *, figures: Sequence[str] = (), step: int | None = None) -> dict[str, float]:
    """Log numbers and figures of a trace to a run of Weights & Biases or trackio.

    Method, model, seed and settings go into the configuration of the run. Prompt and output are not sent, except where
    a figure shows them.

    Args:
        trace: The run to log.
        run: What `wandb.init(...)` or `trackio.init(...)` returned.
        figures: Names of `ds.figures(trace)`; trackio gets them as pictures, which need Chrome or Chromium.
        step: Step of the tracker; the next one by default.

    Returns:
        The numbers that were logged.

    Raises:
        ValueError: If `run` is from another client.
        FigureError: For an unknown figure, or a trace that lacks what it needs.
    """
    client = type(run).__module__.partition(".")[0]
    if client not in CLIENTS:
        raise ValueError(f"run: {type(run).__name__} of {client} is not known; use a run of {' or '.join(CLIENTS)}.")
    numbers = metrics(trace)
    drawn = {f"figures/{name}": _drawn(name, trace, client) for name in figures}
    about = {"method": trace.method, "model": trace.model.id, "seed": trace.seed, **trace.config}
    run.config.update({f"draftscope/{name}": value for name, value in about.items()})
    run.log({**numbers, **drawn}, step=step)
    return numbers


def _drawn(name: str, trace: Trace, client: str) -> Any:
    """Return a figure in the form that a client takes."""
    from draftscope.viewer import figure

    library, drawing = import_module(client), figure(name, trace)
    if client == "wandb":
        return library.Plotly(drawing)
    from PIL import Image

    from draftscope.visualizers.export import ImageJob, render_images

    (png,) = render_images([ImageJob(drawing, "png")])
    return library.Image(Image.open(io.BytesIO(png)))
