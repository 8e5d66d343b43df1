"""Check the papers' conclusions on the models that ship.

    python -m benchmarks.claims [--json FILE] [--seeds N]

Most conclusions on texts are read from the sweeps in benchmarks/results; pictures, vectors and some texts are decoded
anew, with so many seeds. A conclusion holds where its effect is three standard errors from none and as reported.
`python -m benchmarks.report` writes the verdicts into docs/reproduction.md.
"""

import sys
from collections.abc import Sequence
from typing import Final

from benchmarks._results import Options, finish, positive
from benchmarks.claims import cspd, psd, s2d2, scd, simsd
from traces.streams import piped

SEEDS: Final = 64


def main(arguments: Sequence[str] | None = None) -> None:
    """Check and report."""
    options = Options("claims", __doc__)
    options.add_argument("--seeds", type=positive, default=SEEDS)
    chosen = options.read(arguments)
    pictures, ours, futures, vectors = (paper.conclusions(chosen.seeds) for paper in (scd, s2d2, psd, cspd))
    found = [*pictures, *ours, *futures, *simsd.conclusions(), *vectors]
    finish(chosen, "Published conclusions", [], [conclusion.row() for conclusion in found])


if __name__ == "__main__":
    sys.exit(piped(main))
