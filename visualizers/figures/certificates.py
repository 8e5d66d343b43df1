"""Figures of a certificate: exact against observed frequencies, the sequential test, and what it would have found."""

from math import log
from typing import Final

import plotly.graph_objects as go

from draftscope.analysis.certificates import Certificate
from draftscope.visualizers.figure import DataFigure
from draftscope.visualizers.plot import add_level_line, axes, bars, curve, dots, in_panel, plain, side_by_side

_TEN: Final = log(10)
_MAX_POINTS: Final = 400


def _about(certificate: Certificate) -> str:
    return plain(f"{certificate.engine}; {certificate.tokens:,} tokens in {certificate.texts:,} texts")


@DataFigure(
    name="frequencies",
    title="Exact and observed frequencies",
    caption="Every point is a letter at a position of the texts. Left: how often it came, against the mean of its "
    "exact probabilities; a lossless engine is on the line. Right: the difference in standard errors by position; of a "
    "lossless engine, 99.7 % are within 3.",
)
def frequencies(certificate: Certificate) -> go.Figure:
    """Return observed against expected frequencies, and differences by position."""
    figure = side_by_side(["Frequencies", "Differences by position"], horizontal_spacing=0.11)
    letters = range(len(certificate.expected[0]))
    for letter in letters:
        columns = [[row[letter] for row in rows] for rows in (certificate.expected, certificate.observed)]
        errors = [row[letter] for row in certificate.spread]
        positions = [*range(1, len(errors) + 1)]
        name = f"id {letter}"
        hover = "position %{customdata}: %{y:.4f} where %{x:.4f} is exact"
        dots(figure, letter, name, (columns[0], columns[1]), hover, customdata=positions, **in_panel(1, letter))
        scores = [
            (seen - exact) / error if error else 0.0
            for exact, seen, error in zip(*columns, errors, strict=True)
        ]  # fmt: skip
        dots(
            figure, letter, name, (positions, scores), "position %{x}: %{y:.1f} standard errors", **in_panel(2, letter)
        )
    top = max(value for rows in (certificate.expected, certificate.observed) for row in rows for value in row)
    figure.add_shape(type="line", x0=0, y0=0, x1=top, y1=top, line={"dash": "dot", "width": 1.5}, row=1, col=1)
    for level in (-3, 3):
        add_level_line(figure, level, row=1, col=2)
    axes(
        figure,
        "Exact probability",
        "Frequency",
        "Difference (standard errors)",
        title_subtitle_text=_about(certificate),
    )
    figure.update_xaxes(title_text="Position in the text", row=1, col=2)
    return figure.update_yaxes(rangemode="normal", row=1, col=2)


@DataFigure(
    name="evidence",
    title="Evidence against the engine",
    caption="The sequential test bets on known defects; the curve is the factor by which its wealth has grown. Of a "
    "lossless engine it ever crosses the dotted line with the stated probability of a false alarm.",
)
def evidence(certificate: Certificate) -> go.Figure:
    """Return the wealth of the sequential test by tokens."""
    figure = go.Figure()
    points = certificate.curve[:: max(1, len(certificate.curve) // _MAX_POINTS)]
    values = [tokens for tokens, _ in points], [wealth / _TEN for _, wealth in points]
    curve(figure, 0, "wealth", values, "%{x} tokens: 10^%{y:.1f}", mode="lines")
    if certificate.false_alarm:
        add_level_line(figure, -log(certificate.false_alarm) / _TEN)
    title = "Wealth, powers of 10"
    axes(figure, "Tokens", title, title_subtitle_text=_about(certificate), showlegend=False)
    return figure.update_yaxes(rangemode="normal")


@DataFigure(
    name="defects",
    title="What would have been found",
    caption="For each known defect, the smallest share of tokens with it that this many tokens would have shown, with "
    "the probability that the certificate states. Defects without a bar would not have been found.",
)
def found_defects(certificate: Certificate) -> go.Figure:
    """Return the smallest share of each defect, of those that are bet on, that would have been found."""
    figure = go.Figure()
    fits = sorted((fit for fit in certificate.fits), key=lambda fit: -fit.found_share)
    shares = [100 * fit.found_share if fit.found_share <= 1 else None for fit in fits]
    points = shares, [plain(fit.name) for fit in fits]
    variations = [fit.found_variation for fit in fits]
    hover = "%{x:.2f} % of the tokens, a total variation of %{customdata:.4f} per token<extra></extra>"
    bars(figure, 0, "share", points, hover, orientation="h", customdata=variations)
    axes(figure, "Tokens with the defect (%)", title_subtitle_text=_about(certificate), showlegend=False)
    return figure.update_yaxes(automargin=True).update_xaxes(rangemode="tozero")


CERTIFICATE_FIGURES: Final = (frequencies, evidence, found_defects)
"""All of them, in the order of a page."""
