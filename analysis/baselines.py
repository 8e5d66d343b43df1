"""The run of ordinary decoding that another run is compared with."""

from collections.abc import Iterable
from typing import Final

from draftscope.traces.labels import is_baseline
from draftscope.traces.schema import Trace

TOKEN_SAMPLING: Final = frozenset({"temperature", "top_k", "top_p", "guidance", "length", "same_noise", "mode"})
"""Settings that decide which distribution tokens of a vocabulary are sampled from, the same for every such method."""
VECTOR_SAMPLING: Final = frozenset(
    {"temperature", "guidance", "linear_guidance", "steps", "sampler", "eta", "first_timestep", "last_timestep"}
)
"""Settings that do so for tokens that are vectors; only these methods have a `sampler`."""


def baseline_of(trace: Trace, among: Iterable[Trace]) -> Trace | None:
    """Return ordinary decoding of the same model, prompt and seed under the same sampling; None if there is none.

    Args:
        trace: A run; one that is ordinary decoding itself has no baseline.
        among: Runs to choose from; the first that fits is taken.
    """
    if is_baseline(trace):
        return None
    return next((other for other in among if is_baseline(other) and _fits(trace, other)), None)


def _fits(trace: Trace, other: Trace) -> bool:
    # Older traces name no files in addition to the weights.
    files = trace.model.files == other.model.files or not (trace.model.files and other.model.files)
    model = (other.model.id, other.model.weights) == (trace.model.id, trace.model.weights)
    sampling = VECTOR_SAMPLING if "sampler" in trace.config else TOKEN_SAMPLING
    known = sampling & trace.config.keys() & other.config.keys()
    same = all(trace.config[name] == other.config[name] for name in known)
    return files and model and same and (other.prompt, other.seed) == (trace.prompt, trace.seed)
