"""Check the papers' conclusions on the models that ship.

    python -m benchmarks.claims [--json FILE] [--seeds N]

Conclusions on texts are read from the sweeps in benchmarks/results; pictures and vectors are decoded anew, with so many
seeds. A conclusion holds where its effect is three standard errors from none and as reported.
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
    read = [conclusion for paper in (s2d2, psd, simsd) for conclusion in paper.conclusions()]
    found = [*scd.conclusions(chosen.seeds), *read, *cspd.conclusions(chosen.seeds)]
    finish(chosen, "Published conclusions", [], [conclusion.row() for conclusion in found])


if __name__ == "__main__":
    sys.exit(piped(main))
