"""A static front of recordings: an index of cards, a page with the player for each, and the calculator; no server.

Every page is one file that requests nothing, so a folder of them works on any host, from a disk and in an iframe.
"""

import html
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Final

from draftscope.analysis.acceptance_rate import AcceptanceRate
from draftscope.analysis.baselines import baseline_of
from draftscope.analysis.run_report import RunReport, times
from draftscope.traces import write
from draftscope.traces.files import write_atomic
from draftscope.traces.labels import method_name
from draftscope.traces.schema import Trace
from draftscope.traces.version import __version__
from draftscope.visualizers.calculator import calculator_html
from draftscope.visualizers.player_page import document, standalone

INDEX: Final = "index.html"
CALCULATOR: Final = "calculator.html"
_PROMPT_CHARACTERS: Final = 90
_TEXT_CHARACTERS: Final = 180
_STYLE: Final = """
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(250px, 1fr)); gap: 16px; padding: 0; }
.cards li { list-style: none; }
.cards a { display: flex; flex-direction: column; gap: 8px; height: 100%; box-sizing: border-box; padding: 16px;
  border: 1px solid #8886; border-radius: 12px; color: inherit; text-decoration: none; overflow-wrap: anywhere; }
.cards a:hover, .cards a:focus-visible { border-color: #0072b2; outline: 2px solid #0072b2; }
.cards img { width: 96px; height: 96px; image-rendering: pixelated; border-radius: 8px; }
.cards .note { opacity: 0.75; font-size: 13px; }
.cards .badge { font-size: 13px; font-weight: 600; }
footer { margin-top: 24px; font-size: 13px; opacity: 0.75; }
"""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A recording of a site.

    Args:
        name: File name of its page without the ending.
        traces: The run, after its baseline if there is one.
    """

    name: str
    traces: tuple[Trace, ...]

    @property
    def title(self) -> str:
        """Return the method's name."""
        return method_name(self.traces[-1])

    @property
    def report(self) -> RunReport:
        """Return the report of the run, compared with its baseline if there is one."""
        return RunReport(self.traces[-1], self.traces[0] if len(self.traces) > 1 else None)


def exhibits(named: Sequence[tuple[str, Trace]]) -> list[Exhibit]:
    """Return the recordings of a site: every run with its baseline, and runs that are nothing's baseline alone.

    Args:
        named: A name of each trace, such as its file's, which becomes that of its page.
    """
    traces = [trace for _, trace in named]
    bases = [baseline_of(trace, traces) for trace in traces]
    used = {id(base) for base in bases}
    found, used_names = list[Exhibit](), {name.partition(".")[0] for name in (INDEX, CALCULATOR)}
    for (file_name, trace), base in zip(named, bases, strict=True):
        if id(trace) in used:
            continue
        plain = re.sub(r"[^a-z0-9]+", "-", file_name.lower()).strip("-")[:80] or "recording"
        name = next(
            name for name in (plain, *(f"{plain}-{i}" for i in range(2, len(named) + 3))) if name not in used_names
        )
        used_names.add(name)
        found.append(Exhibit(name, (trace,) if base is None else (base, trace)))
    return found


def write_site(
    named: Sequence[tuple[str, Trace]],
    folder: str | os.PathLike[str],
    title: str = "Recordings",
    *,
    rates: Iterable[tuple[str, AcceptanceRate]] = (),
) -> list[Exhibit]:
    """Write the index, a page for each recording, the traces themselves and the calculator into a folder.

    Args:
        named: A name of each trace, such as its file's, which becomes that of its page.
        folder: Is made if it is missing; files of the same names are replaced.
        title: Heading of the index; plain text.
        rates: Acceptance rates that the calculator has to choose from, with the names of where they were measured.

    Returns:
        The recordings, in the order of the cards.

    Raises:
        ValueError: When there are no traces.
        OSError: If a file cannot be written.
    """
    if not named:
        raise ValueError("traces: a site needs at least one trace to show; give one")
    target = Path(folder)
    (target / "traces").mkdir(parents=True, exist_ok=True)
    shown = exhibits(named)
    for exhibit in shown:
        write_atomic(target / f"{exhibit.name}.html", _page(exhibit).encode())
        for trace, name in zip(exhibit.traces, _trace_files(exhibit), strict=True):
            write(trace, target / "traces" / name)
    cards = "\n".join(_card(exhibit) for exhibit in shown)
    back = f'<p><a href="{INDEX}">All recordings</a></p>'
    write_atomic(target / CALCULATOR, calculator_html(rates, back).encode())
    worth = f'<p><a href="{CALCULATOR}">Is speculative decoding worth it on your hardware?</a></p>'
    foot = f"<footer>Written by Draftscope {html.escape(__version__)}. Nothing is requested from elsewhere.</footer>"
    content = f'<h1>{html.escape(title)}</h1>\n<ul class="cards">\n{cards}\n</ul>\n{worth}\n{foot}'
    write_atomic(target / INDEX, document(title, content, _STYLE).encode())
    return shown


def _trace_files(exhibit: Exhibit) -> list[str]:
    *bases, run_file = (f"{exhibit.name}-ordinary.json.gz", f"{exhibit.name}.json.gz")
    return [*bases[: len(exhibit.traces) - 1], run_file]


def _page(exhibit: Exhibit) -> str:
    files = " ".join(f'<a href="traces/{name}" download>{name}</a>' for name in _trace_files(exhibit))
    return standalone(exhibit.traces, exhibit.title, after=f'<p><a href="{INDEX}">All recordings</a> {files}</p>')


def _card(exhibit: Exhibit) -> str:
    trace, report = exhibit.traces[-1], exhibit.report
    prompt = shorten(trace.prompt, _PROMPT_CHARACTERS, placeholder=" ...")
    badge = f"{times(report.time_ratio)}× as fast, {report.fidelity}" if report.time_ratio else report.fidelity
    rows = [
        _picture(trace),
        f"<strong>{html.escape(exhibit.title)}</strong>",
        f'<span class="badge">{html.escape(badge)}</span>',
        f'<span class="note">{html.escape(prompt or trace.model.title or trace.model.id)}</span>',
        f'<span class="note">{html.escape(report.counts())}</span>',
    ]
    return f'<li><a href="{exhibit.name}.html">{"".join(rows)}</a></li>'


def _picture(trace: Trace) -> str:
    """Return the picture, a frame from the middle of what was decoded of a clip, or the beginning of the text."""
    output = trace.output
    first = output.given or 0
    frame = output.video[(first + len(output.video)) // 2] if len(output.video) > first else ""
    if picture := output.image or frame:
        return f'<img src="{html.escape(picture)}" alt="" loading="lazy">'
    return f"<q>{html.escape(shorten(output.text, _TEXT_CHARACTERS, placeholder=' ...'))}</q>" if output.text else ""
