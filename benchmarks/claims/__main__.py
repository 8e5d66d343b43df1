"""Check the papers' conclusions on the bundled models.

Most conclusions on texts are read from the sweeps in benchmarks/results; pictures, vectors and some texts are decoded
again, with several seeds, some with more than others, by how small their effects are. A conclusion holds if its effect
is three standard errors from zero and as reported; it is undecided if more runs could still show it. `python
-m benchmarks.report` writes the verdicts into docs/reproduction.md.
"""

import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks._report_format import Options, finish
from benchmarks.claims import papers
from benchmarks.claims.claim import Conclusion, Effect, against, timing
from draftscope.cli.streams import exit_code_for_pipe

SEEDS: Final = 64
_FILE: Final = Path(__file__).with_name("conclusions.toml")
PAPERS: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = tomllib.loads(_FILE.read_text(encoding="utf-8"))
"""Paper -> what it concludes."""
_ANEW: Final[Mapping[str, Callable[[int], Mapping[str, Sequence[Effect]]]]] = {
    "SCD": papers.scd,
    "S2D2": papers.s2d2,
    "PSD": papers.psd,
    "SimSD": papers.simsd,
    "CSpD": papers.cspd,
}
"""Paper -> effects by section, of runs that are decoded here with a number of seeds."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Check and report."""
    chosen = Options("claims", __doc__, seeds=SEEDS).read(arguments)
    rows = [one.row(paper) for paper in PAPERS for one in conclusions(paper, chosen.seeds)]
    finish(chosen, "Published conclusions", [], rows)


def conclusions(paper: str, seeds: int) -> list[Conclusion]:
    """Return the conclusions of a paper, with the effects of shipped sweeps and of runs with `seeds` seeds."""
    anew = _ANEW[paper](seeds) if paper in _ANEW else {}
    found = []
    for entry in PAPERS[paper]:
        section, needs = entry["place"], entry.get("needs", "")
        effects: Sequence[Effect] = [
            against(name, (ours, other), number, of, **dict(more[0] if more else {}))
            for name, ours, other, number, of, *more in entry.get("effects", ())
        ]
        cpu, h100 = (timing(*entry[machine]) if machine in entry else None for machine in ("cpu", "h100"))
        if not (effects or needs or cpu):
            effects = anew[section]
        found.append(Conclusion(section, entry["says"], effects, needs, cpu, h100))
    return found


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
