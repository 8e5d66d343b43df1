"""Figures and the player: pure functions of traces, and of the results of sweeps."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from traces.results import SweepError, read_results, read_rows
from traces.timings import read_timings
from visualizers.figure import Figure, FigureError, FileFigure, Traces
from visualizers.figures.canvas import ACCEPTANCE, CANVAS
from visualizers.figures.collisions import COLLISION, COLLISION_HISTOGRAM
from visualizers.figures.cost import COMPARISON, LATENCY, RACE, SEEDS
from visualizers.figures.drafts import BETA
from visualizers.figures.foresight import CONTRIBUTIONS, FORESIGHT
from visualizers.figures.graph import GRAPH
from visualizers.figures.judging import DISTANCES, DRAFT_STEPS, RATIO_MEANS, RATIOS
from visualizers.figures.mask import MASK
from visualizers.figures.order import AR_NESS, CONFIDENCE, ORDER
from visualizers.figures.pictures import PICTURES
from visualizers.figures.rates import ACCEPTED, ALONG, BY_PLACE, DETAIL, REDUNDANCY
from visualizers.figures.routing import ESTIMATORS, ROUTING
from visualizers.figures.sweep_results import FRONTIER, SETTING, SweepFigure, SweepView
from visualizers.figures.sweeps import BY_SETTING, DEPTH_SWEEP, DIFFERENCE, HAMMING, STRENGTH_SWEEP, WINDOW_SWEEP
from visualizers.figures.throughput import THROUGHPUT
from visualizers.figures.timeline import CHURN
from visualizers.figures.timings import BREAK_EVEN, SHARES, SPEED_UP, WINDOWS
from visualizers.figures.trajectories import DIVERGENCE, TRAJECTORIES
from visualizers.style import themed

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

FIGURES = MappingProxyType(
    {
        figure.name: figure
        for figure in (
            CANVAS,
            PICTURES,
            ACCEPTANCE,
            CHURN,
            REDUNDANCY,
            RACE,
            COMPARISON,
            SEEDS,
            LATENCY,
            BETA,
            COLLISION,
            COLLISION_HISTOGRAM,
            HAMMING,
            DIFFERENCE,
            STRENGTH_SWEEP,
            WINDOW_SWEEP,
            ORDER,
            ROUTING,
            ESTIMATORS,
            BY_PLACE,
            ACCEPTED,
            DRAFT_STEPS,
            THROUGHPUT,
            AR_NESS,
            CONFIDENCE,
            GRAPH,
            FORESIGHT,
            CONTRIBUTIONS,
            DEPTH_SWEEP,
            MASK,
            RATIOS,
            DISTANCES,
            TRAJECTORIES,
            DIVERGENCE,
            BY_SETTING,
            ALONG,
            DETAIL,
            RATIO_MEANS,
        )
    }
)
"""Name -> figure, in the order a page shows them."""

SWEEP_FIGURES = MappingProxyType({figure.name: figure for figure in (FRONTIER, SETTING)})
"""Name -> figure of the results of many runs, see `read_results`."""

TIMING_FIGURES: Final[Mapping[str, FileFigure[Any]]] = MappingProxyType(
    {figure.name: figure for figure in (WINDOWS, SPEED_UP, SHARES, BREAK_EVEN)}
)
"""Name -> figure of what a benchmark measured."""


def supported(traces: Traces) -> tuple[Figure, ...]:
    """Return the figures that can be drawn from these traces."""
    return tuple(figure for figure in FIGURES.values() if figure.supports(traces) is None)
