"""Everything that is made of a trace once it was read, and whether any of it holds script of the trace's own."""

from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any, Final
from xml.etree import ElementTree

from benchmarks._mutation import MARK
from draftscope.trace import shown
from traces import foresight, places, replay, stats, text_stats
from traces.describe import at_a_glance
from traces.schema import Trace
from visualizers import FIGURES, supported
from visualizers.export import Print, printed
from visualizers.page import standalone
from visualizers.sheet import section

_MOST_MILLISECONDS: Final = 120_000
"""Until a page is open: a busy machine is slow, not wrong."""
_DATA: Final = "application/json"
"""Scripts of this type are data, which no browser runs."""
_RUNS: Final = ("href", "xlink:href", "src", "action", "formaction", "data", "srcdoc")


class ScriptFound(AssertionError):
    """Text of a trace that a browser would run."""


class _Reader(HTMLParser):
    """Walks through a page as a browser does, and raises where the mark stands in what would run."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._runs = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        given = {name: value or "" for name, value in attrs}
        self._runs = tag == "style" or (tag == "script" and given.get("type") != _DATA)
        for name, value in given.items():
            if name == "srcdoc":
                check_page(value)
            elif MARK in name or (MARK in value and (name.startswith("on") or name in _RUNS or name == "style")):
                raise ScriptFound(f"<{tag} {name}={value[:80]!r}>")
        if MARK in tag:
            raise ScriptFound(f"<{tag[:80]}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element without content."""
        self.handle_starttag(tag, attrs)
        self._runs = False

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        self._runs = False

    def handle_data(self, data: str) -> None:
        """Text, or what stands in a script."""
        if self._runs and MARK in data:
            at = data.index(MARK)
            raise ScriptFound(f"script: {data[max(0, at - 80) : at + 80]!r}")


def check_page(page: str) -> None:
    """Make sure that the mark stands in text and data alone.

    Raises:
        ScriptFound: where it does not.
    """
    reader = _Reader()
    reader.feed(page)
    reader.close()


def check_svg(data: bytes) -> None:
    """Make sure that a picture holds no script at all, and the mark in text alone.

    Raises:
        ScriptFound: where it does not.
    """
    for element in ElementTree.fromstring(data).iter():
        tag = element.tag.rpartition("}")[2]
        named = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
        if tag in ("script", "foreignObject", "iframe", "handler"):
            raise ScriptFound(f"<{tag}>")
        for name, value in named.items():
            if name.startswith("on") or "javascript:" in value.lower() or (name == "href" and MARK in value):
                raise ScriptFound(f"<{tag} {name}={value[:80]!r}>")


def everything(trace: Trace) -> str:
    """Replay a trace, compute and draw all there is, and check pages and notebook output; the page comes back.

    Raises:
        ScriptFound: where a page would run text of the trace.
        Exception: whatever fails.
    """
    _computed(trace)
    page = standalone([trace], trace.prompt, after=section(supported([trace]), [trace]))
    check_page(page)
    notebook = shown(trace)
    check_page(notebook._repr_html_())
    notebook.columns()
    return page


def _computed(trace: Trace) -> None:
    steps, size = trace.steps, replay.canvas_size(trace.canvas)
    states = list(replay.states(trace))
    assert len(states) == len(steps) + 1
    assert len(replay.state_after(trace, len(steps)).tokens) == size
    repr(trace)
    at_a_glance(trace)
    stats.summarise(steps, size, trace.summary.complete, trace.legend.ends)
    for compute in (
        *(stats.cost_by_role, stats.cost_by_mode, stats.latency_breakdown, stats.race, stats.token_difference),
        *(stats.agreement_by_age, foresight.forecasts, text_stats.decisions, text_stats.decoded_by_step),
        text_stats.verifications,
    ):
        compute(steps)
    stats.acceptance_by_position(steps, size)
    stats.compare([trace, trace])
    places.by_place([steps])
    text_stats.by_draft_step([steps])
    text_stats.estimator_errors([steps])
    foresight.contributions([steps])


def pictures(traces: Sequence[Trace], chance: Random) -> Iterator[tuple[str, bytes]]:
    """One figure of each trace as an SVG, by name: some other one each time."""
    wanted = [(figure, trace) for trace in traces for figure in _some(trace, chance)]
    files = printed([Print(figure.draw([trace]), "svg", figure.width([trace])) for figure, trace in wanted])
    for (figure, _), data in zip(wanted, files, strict=True):
        yield figure.name, data


def _some(trace: Trace, chance: Random) -> list[Any]:
    found = [figure for figure in FIGURES.values() if figure.supports([trace]) is None]
    return [chance.choice(found)] if found else []


def opened(files: Sequence[Path]) -> list[str]:
    """Open pages and pictures in a browser, and name those in which text of a trace ran."""
    from tests.support.browser import chromium

    ran = []
    with chromium() as browser:
        for file in files:
            page = browser.new_page()
            page.goto(file.as_uri(), wait_until="load", timeout=_MOST_MILLISECONDS)
            page.wait_for_timeout(300)
            if page.evaluate(f"typeof globalThis.{MARK}") != "undefined" or page.locator("[src=x]").count():
                ran.append(file.name)
            page.close()
    return ran
