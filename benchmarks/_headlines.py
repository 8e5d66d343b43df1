"""The rows of README: what each method comes to on the models that ship, each from one row of a shipped result."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """One method: what it does, and where its figures stand."""

    method: str
    paper: str
    does: str
    exact: str
    result: str
    """Name of the benchmark whose result holds the row."""
    row: Record
    """What the row says of itself; of several that say it, the fastest counts."""
    tokens: str
    """Field with the tokens that one pass of the target gives; ordinary decoding gives one."""
    faster: str
    """Field with times faster than ordinary decoding, one sequence at a time."""


SAME: Final = "yes, proved"
HEADLINES: Final = (
    Headline(
        method="Speculative decoding",
        paper="[2211.17192](https://arxiv.org/abs/2211.17192)",
        does="a small model drafts a few tokens, the large one checks them in one pass",
        exact=SAME,
        result="drafting",
        row={"method": "speculative", "model": "text-target", "drafter": "text-draft"},
        tokens="fewer_target_passes",
        faster="faster_median",
    ),
    Headline(
        method="SCD",
        paper="[2510.24211](https://arxiv.org/abs/2510.24211)",
        does="Jacobi iteration on a window of drafts, each coupled to the one before",
        exact=SAME,
        result="speed",
        row={"method": "scd", "guidance": 1.0},
        tokens="fewer_passes",
        faster="faster_median",
    ),
    Headline(
        method="SCD, video",
        paper="[2510.24211](https://arxiv.org/abs/2510.24211)",
        does="the same where tokens resemble those of the frame before: 24 frames behind 9",
        exact=SAME,
        result="video",
        row={"method": "scd", "kind": "video"},
        tokens="nfe_ratio",
        faster="time_ratio",
    ),
    Headline(
        method="S2D2",
        paper="[2603.25702](https://arxiv.org/abs/2603.25702)",
        does="a block-diffusion language model drafts, and checks itself with blocks of one token",
        exact="approximate",
        result="text",
        row={"method": "s2d2", "decoder": "S2D2, block 32"},
        tokens="fewer_passes",
        faster="faster_median",
    ),
    Headline(
        method="PSD",
        paper="[2605.15609](https://arxiv.org/abs/2605.15609)",
        does="unmasks in parallel, drafts future steps, and keeps the deepest draft that holds",
        exact="as its policy decodes",
        result="text",
        row={"method": "psd", "decoder": "PSD 0.99, block 32"},
        tokens="fewer_passes",
        faster="faster_median",
    ),
    Headline(
        method="SimSD",
        paper="[2606.02544](https://arxiv.org/abs/2606.02544)",
        does="a small diffusion language model drafts for a large one under a temporal mask",
        exact="approximate; an exact verifier is there",
        result="text",
        row={"method": "simsd"},
        tokens="fewer_target_passes",
        faster="faster_median",
    ),
    Headline(
        method="CSpD",
        paper="[2411.11925](https://arxiv.org/abs/2411.11925)",
        does="drafts and verdicts for continuous tokens that a diffusion head draws",
        exact=SAME,
        result="continuous",
        row={"method": "cspd-block", "batch": 1},
        tokens="tokens_per_verification",
        faster="faster_median",
    ),
)
_HEAD: Final = (
    "| method | paper | what it does | tokens per target pass | speedup | quality here | exact |\n"
    "|---|---|---|---|---|---|---|"
)


def table(results: Mapping[str, Record]) -> str:
    """A row for every method whose result there is, by name of its benchmark; ordinary decoding is 1 in both."""
    lines = [line for headline in HEADLINES if (line := _line(headline, results.get(headline.result))) is not None]
    return "\n".join([_HEAD, *lines])


def _line(headline: Headline, result: Record | None) -> str | None:
    rows = [row for row in result["rows"] if headline.row.items() <= row.items()] if result else []
    if not rows or result is None:
        return None
    row = max(rows, key=lambda row: float(row[headline.faster]))
    cells = [
        f"**{headline.method}**",
        headline.paper,
        headline.does,
        f"{row[headline.tokens]:.1f}",
        f"{row[headline.faster]:.2f}×",
        "same distribution" if headline.exact == SAME else _quality(row, result["rows"][0]),
        headline.exact,
    ]
    return "| " + " | ".join(cells) + " |"


def _quality(row: Record, ordinary: Record) -> str:
    """Share of problems solved beside ordinary decoding's, with the larger of both standard errors."""
    error = max(row["accuracy_standard_error"], ordinary["accuracy_standard_error"])
    return f"{row['accuracy']:.1%} solved, ordinary {ordinary['accuracy']:.1%} (± {error:.1%})"
