"""Check the papers' conclusions on the models that ship.

Most conclusions on texts are read from the sweeps in benchmarks/results; pictures, vectors and some texts are decoded
anew, with so many seeds. A conclusion holds where its effect is three standard errors from none and as reported.
`python -m benchmarks.report` writes the verdicts into docs/reproduction.md.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from benchmarks._results import Options, finish
from benchmarks.claims import cspd, psd, s2d2, scd, simsd
from benchmarks.claims.conclusion import Conclusion
from traces.streams import piped

SEEDS: Final = 64
PAPERS: Final[Mapping[str, Callable[[int], Sequence[Conclusion]]]] = {
    "SCD": scd.conclusions,
    "S2D2": s2d2.conclusions,
    "PSD": psd.conclusions,
    "SimSD": lambda _: simsd.conclusions(),
    "CSpD": cspd.conclusions,
}
"""Paper -> its conclusions, checked with so many seeds."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Check and report."""
    chosen = Options("claims", __doc__, seeds=SEEDS).read(arguments)
    rows = [one.row(paper) for paper, conclusions in PAPERS.items() for one in conclusions(chosen.seeds)]
    finish(chosen, "Published conclusions", [], rows)


if __name__ == "__main__":
    sys.exit(piped(main))
