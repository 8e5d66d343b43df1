"""Figures and the player: pure functions of traces, and of the results of sweeps."""

from types import MappingProxyType
from typing import Final

from draftscope.analysis.results import SweepError, read_results, read_rows
from draftscope.analysis.timings import read_timings
from draftscope.visualizers.figure import Figure, FigureError, FileFigure, Traces
from draftscope.visualizers.figures import acceptance as rates
from draftscope.visualizers.figures import (
    acceptance_map,
    canvas,
    collisions,
    cost,
    denoising,
    graph,
    mask,
    order,
    paired,
    pictures,
    routing,
    sweep_results,
    sweeps,
    throughput,
    timings,
)
from draftscope.visualizers.figures import token_churn as timeline
from draftscope.visualizers.figures import verification as judging
from draftscope.visualizers.figures.sweep_results import SweepFigure, SweepView
from draftscope.visualizers.style import themed

__all__ = [
    "FIGURES",
    "SWEEP_FIGURES",
    "TIMING_FIGURES",
    "Figure",
    "FigureError",
    "SweepError",
    "SweepFigure",
    "SweepView",
    "read_results",
    "read_rows",
    "read_timings",
    "supported",
    "themed",
]

_SHARED = (canvas, acceptance_map, pictures, timeline, cost, paired, collisions, sweeps, rates)
_TEXT = (order, routing, denoising, throughput, graph, mask)
_EVERY = [each for module in (*_SHARED, *_TEXT, judging, timings, sweep_results) for each in vars(module).values()]
FIGURES: Final = MappingProxyType({each.name: each for each in _EVERY if isinstance(each, Figure)})
"""Name -> figure, in the order a page shows them."""

SWEEP_FIGURES: Final = MappingProxyType({each.name: each for each in _EVERY if isinstance(each, SweepFigure)})
"""Name -> figure of the results of many runs, see `read_results`."""

TIMING_FIGURES: Final = MappingProxyType({each.name: each for each in _EVERY if isinstance(each, FileFigure)})
"""Name -> figure of what a benchmark measured."""


def supported(traces: Traces) -> tuple[Figure, ...]:
    """Return the figures that can be drawn from these traces."""
    return tuple(figure for figure in FIGURES.values() if figure.supports(traces) is None)
