"""Text that tries to become script, and traces that hold it wherever a trace holds free text."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from draftscope.traces.schema import Canvas, Environment, Legend, Mask, ModelCard, Step, Trace

from .handmade import make, step

RAN: Final = "globalThis.pwned"
"""Defined once any of the texts ran."""
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
"""Short enough to appear in a message uncut, except for the quotes around them."""
EVERY: Final = " ".join(TEXTS)
HOSTILE: Final = '<img src=x onerror="globalThis.pwned = 1"></script><script>globalThis.pwned = 1</script>'


def written(words: Sequence[str] = ("The", " draft", " holds", HOSTILE, ".")) -> Trace:
    """A text drafted in one pass, of which a verifier keeps all but the second token."""
    ids = tuple(range(len(words)))
    drafts, target_pass = (
        " ".join(f"{i}:{i}={fate}" for i in ids[first:]) for first, fate in ((0, "drafted"), (2, "discarded"))
    )
    drafted = step(drafts, role="draft", mode="diffusion", query_tokens=len(words))
    untested = (None,) * (len(words) - 2)
    verdict = {"draft": ids, "accept_prob": (0.9, 0.2, *untested), "coin": (0.1, 0.6, *untested)}
    verified = step(f"0:0=accepted 1:1=resampled {target_pass}", mode="verify", query_tokens=len(words), **verdict)
    canvas, legend = Canvas(kind="text", shape=(len(words),)), Legend(vocabulary=dict(enumerate(words)))
    return make("s2d2", canvas, (drafted, verified), legend=legend, prompt=HOSTILE)


def hostile(trace: Trace, text: str) -> Trace:
    """Return a run with `text` as every name and word, which the checks accept."""
    model = ModelCard(id=text, title=text, weights={text: "0" * 64}, licence=text)
    environment = Environment(device=text, dtype=text, python=text, platform=text, libraries={text: text}, commit=text)
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
        environment=environment,
        legend=replace(trace.legend, vocabulary=words or None),
        steps=tuple(_step(each, text) for each in trace.steps),
        output=replace(trace.output, text=text if trace.canvas.kind == "text" else None),
    )


def _step(template: Step, text: str) -> Step:
    name = f"x_{text}"
    return replace(
        template,
        call=replace(template.call, mode=text),
        numbers={**template.numbers, name: (0.5,) * len(template.position)},
        signals={**template.signals, name: 0.5},
        mask=Mask(queries=(text, text), keys=(text, text), runs=((1, 1), (0, 2))),
    )
