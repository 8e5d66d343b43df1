"""Text that tries to become script, and traces that hold it wherever a trace holds free text."""

from dataclasses import replace
from typing import Final

from traces.schema import Environment, Mask, ModelCard, Step, Trace

RAN: Final = "globalThis.pwned"
"""What is defined once any of the texts ran."""
TEXTS: Final = (
    "${Object.assign(globalThis,{pwned:1})}",  # holds nothing that HTML would escape
    "${globalThis.pwned=1}",
    "`+Object.assign(globalThis,{pwned:1})+`",
    "`${globalThis.pwned=1}`{{value}}{{{value}}}",
    "\\u0024{globalThis.pwned=1}\\`",
    "<img src=x onerror=globalThis.pwned=1>",
    "<a href='javascript:globalThis.pwned=1'>j</a>",
    "[link](javascript:globalThis.pwned=1)",
)
"""Short enough to stand in a message uncut, but for the quotes around them."""
EVERY: Final = " ".join(TEXTS)


def hostile(trace: Trace, text: str) -> Trace:
    """The same run with `text` for every name and word; checks let it pass."""
    model = ModelCard(id=text, title=text, weights={text: "0" * 64}, licence=text)
    place = Environment(device=text, dtype=text, python=text, platform=text, libraries={text: text}, commit=text)
    words = dict.fromkeys(trace.legend.vocabulary or {}, text)
    return replace(
        trace,
        method=text,
        variant=text,
        model=model,
        draft_model=model,
        prompt=text,
        note=text,
        config={**trace.config, text: text},
        environment=place,
        legend=replace(trace.legend, vocabulary=words or None),
        steps=tuple(_step(step, text) for step in trace.steps),
        output=replace(trace.output, text=text if trace.canvas.kind == "text" else None),
    )


def _step(step: Step, text: str) -> Step:
    name = f"x_{text}"
    return replace(
        step,
        call=replace(step.call, mode=text),
        numbers={**step.numbers, name: (0.5,) * len(step.position)},
        signals={**step.signals, name: 0.5},
        mask=Mask(queries=(text, text), keys=(text, text), runs=((1, 1), (0, 2))),
    )
