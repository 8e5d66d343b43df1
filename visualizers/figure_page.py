"""Figures on a web page: plotly once, the theme of the reader, no request to anywhere."""

import html
import json
from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from draftscope.visualizers.figure import Figure, FigureText, Traces
from draftscope.visualizers.player_page import document, inert
from draftscope.visualizers.style import template

TITLE_HEIGHT: Final = 64
"""Pixels of a figure that its title took, which is a heading on a page."""

_STYLE: Final = """
.figures { font-family: Inter, system-ui, sans-serif; }
.figures figure { margin: 48px 0 0; }
.figures :is(h1, h2) { margin: 0 0 2px; font-size: 18px; font-weight: 650; line-height: 1.3; }
.figures .runs, .figures figcaption { margin: 0; font-size: 15px; line-height: 1.5; max-width: 76ch; opacity: 0.85; }
.figures .scroll { overflow-x: auto; margin: 4px 0; }
.figures .plot { width: 100%; }
.figures .wide { min-width: 680px; }
"""

_SCRIPT: Final = """
{
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const themes = JSON.parse(document.getElementById("figure-themes").textContent);
  for (const box of document.querySelectorAll(".figures figure")) {
    const { data, layout } = JSON.parse(box.querySelector("script").textContent);
    const plot = box.querySelector(".plot");
    const draw = () => Plotly.react(plot, data, { ...layout, template: themes[dark.matches ? "dark" : "light"] },
      { responsive: true, displaylogo: false, toImageButtonOptions: { filename: box.id } });
    draw();
    dark.addEventListener("change", draw);
  }
}
"""


def section(figures: Sequence[Figure], traces: Traces, *, step: int | None = None) -> str:
    """Return figures as HTML with their captions, for a page that has a heading of its own.

    Args:
        figures: Figures, each of which accepts the traces.
        traces: Runs.
        step: Forward passes after which figures of one moment are drawn; by default each chooses.
    """
    return _section([(figure, figure.draw(traces, step=step)) for figure in figures], level=2)


def page_of(drawn: Sequence[tuple[FigureText, go.Figure]], *, before: str = "") -> str:
    """Return a self-contained page of drawn figures; `before` is HTML with a heading, trusted as it is."""
    figures = _section(drawn, level=2 if before else 1)
    title = ", ".join(figure.title for figure, _ in drawn)
    return document(title, f"{before}\n{figures}", "main { max-width: 1000px; }")


def _section(drawn: Sequence[tuple[FigureText, go.Figure]], level: int) -> str:
    figures = "\n".join(_figure(figure, plot, level) for figure, plot in drawn)
    themes = {theme: template(theme).to_plotly_json() for theme in ("light", "dark")}
    return (
        f'<style>{_STYLE}</style>\n<section class="figures" aria-label="Figures">\n{figures}\n</section>\n'
        f'<script type="application/json" id="figure-themes">{inert(json.dumps(themes))}</script>\n'
        f"<script>{get_plotlyjs()}</script>\n<script>{_SCRIPT}</script>"
    )


def _figure(figure: FigureText, drawn: go.Figure, level: int) -> str:
    # Titles hold text that is ready for plotly, and so for HTML, but may hold the quotes that end an attribute.
    heading, runs = drawn.layout.title.text, drawn.layout.title.subtitle.text
    label = heading.replace('"', "&quot;")
    top = (drawn.layout.margin.t or drawn.layout.template.layout.margin.t) - TITLE_HEIGHT
    drawn.update_layout(title=None, template=None, margin={"t": top}, height=drawn.layout.height - TITLE_HEIGHT)
    wide = " wide" if len(list(drawn.select_xaxes())) > 1 else ""  # Panels scroll where they would get too narrow.
    answers = f" Reproduces {html.escape(figure.paper)}." if figure.paper else ""
    return (
        f'<figure id="figure-{figure.name}">\n<h{level}>{heading}</h{level}>\n<p class="runs">{runs}</p>\n'
        f'<div class="scroll" tabindex="0" role="group" aria-label="{label}">'
        f'<div class="plot{wide}"></div></div>\n'
        f"<figcaption>{html.escape(figure.caption)}{answers}</figcaption>\n"
        f'<script type="application/json">{inert(drawn.to_json())}</script>\n</figure>'
    )
