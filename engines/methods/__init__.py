"""The registry: one line a method."""

from typing import Final

from engines.methods import ar, gsd, scd
from engines.methods.base import Method, lossless

METHODS: Final[dict[str, Method]] = {
    method.name: method
    for method in (
        Method("ar", "Autoregressive decoding", "discrete-ar", ar.Config, ar.decode,
               "one token per forward pass; the baseline", "", lossless),
        Method("scd", "Speculative Coupled Decoding", "discrete-ar", scd.Config, scd.decode,
               "speculative Jacobi decoding with coupled drafts", "arXiv 2510.24211", scd.deviation),
        Method("gsd", "Grouped Speculative Decoding", "discrete-ar", gsd.Config, gsd.decode,
               "speculative Jacobi decoding with grouped verdicts; lossy", "So et al., 2025", gsd.deviation),
    )
}  # fmt: skip
