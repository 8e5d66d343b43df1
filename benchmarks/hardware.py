"""The pass model of `analysis.hardware` compared with times that papers report (arXiv 2510.24211, 2411.11925).

For every table the engine's overhead is fitted to the baseline alone; every other row is computed from its number of
passes. Passes timed on an H100 by benchmarks.gpu are compared with computed ones. Runs no model. Prints the tables of
docs/hardware.md. `patches` computes the gain of the bundled patch models on an H100.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from benchmarks.report import table
from draftscope.analysis.hardware import DEVICES, ENGINES, SHIPPED, SIZES, Engine, NetworkSize, PassWork, pass_cost

_PUBLISHED: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper: the ordinary row first."""

    name: str
    size: str
    device: str
    rows: int
    """Rows of a pass: 2 with classifier-free guidance."""
    tokens: int
    verification: float
    """Seconds a verifying pass adds."""
    published: Sequence[tuple[str, int, float, float]]
    """Decoder, window L (1 for ordinary decoding), passes, seconds."""


TABLES: Final = tuple(Table(**entry) for entry in _PUBLISHED["tables"])


def fitted(table: Table) -> Engine:
    """The engine whose overhead makes the ordinary row right."""
    _, _, passes, seconds = table.published[0]
    ideal = _pass(table, replace(ENGINES["eager"], overhead=0.0, verification=0.0), 1)
    overhead = max(0.0, seconds / passes - ideal) / SIZES[table.size].layers
    return replace(ENGINES["eager"], overhead=overhead, verification=table.verification)


def _pass(table: Table, engine: Engine, window: int) -> float:
    """Seconds of a pass over `window` tokens, half of the canvas being final."""
    work = PassWork(query_tokens=window * table.rows, rows=table.rows, context=table.tokens / 2, judges=window > 1)
    return pass_cost(DEVICES[table.device], SIZES[table.size], engine, work).seconds


Pair = tuple[int, float, float]
"""Window or draft length, reported speed-up, computed speed-up."""


def computed(table: Table) -> list[Pair]:
    """Every row but the ordinary one."""
    engine, (_, _, passes, seconds) = fitted(table), table.published[0]
    base = passes * _pass(table, engine, 1)
    return [
        (window, seconds / theirs, base / (count * _pass(table, engine, window)))
        for _, window, count, theirs in table.published[1:]
    ]


def error(pairs: Sequence[Pair]) -> float:
    """Mean absolute error of the computed speed-ups, as a share of the reported ones."""
    return fmean(abs(mine / theirs - 1) for _, theirs, mine in pairs)


def _lines(pairs: Sequence[Pair]) -> Iterator[list[str]]:
    """A line for each window or draft length, then one for all."""
    for size in dict.fromkeys(size for size, *_ in pairs):
        same = [pair for pair in pairs if pair[0] == size]
        _, theirs, mine = (", ".join(f"{speed:.2f}" for speed in column) for column in zip(*same, strict=True))
        yield [str(size), theirs, mine, f"{100 * error(same):.1f} %"]
    yield ["all", "", "", f"**{100 * error(pairs):.1f} %**"]


def markdown() -> str:
    """The table of docs/hardware.md on SCD: a row for each table and window."""
    rows = []
    for each in TABLES:
        first, *others = _lines(computed(each))
        rows += [[each.name, *first], *(["", *line] for line in others)]
    return table(["table", "L", "reported: SJD, MC, GS", "computed", "mean error"], rows)


CSPD: Final[Mapping[int, Sequence[float]]] = {int(gamma): row for gamma, row in _PUBLISHED["cspd"].items()}
"""CSpD's Table 1, MAR-H with drafts of MAR-B on an A100: speed-up by draft length, in batches of `CSPD_BATCHES`."""
CSPD_BATCHES: Final = (1, 8, 128, 256)
_ORDINARY: Final = 72.0
"""Seconds of ordinary decoding, a picture at a time: those of its Table 8 times the speed-ups of Table 1, 71 to 73."""
_TOKENS, _ALONE = 256, 13
"""Tokens of a picture, and how many of them, 5 %, the target decodes before drafts are made."""
_MAR_STEPS: Final = SIZES["MAR-H"].denoising_steps
_FED: Final = 256
"""Tokens of a MAR's pass over a row, on average: 64 places of the class and the final tokens in the encoder, whose
mean is 192, and all 320 in the decoder. There is no KV cache."""
PATCH_BATCHES: Final = (1, 512)
_PATCHES, _PREFILL, _PATCH_STEPS = 144, 0.05, 20
"""Tokens, share decoded before drafts are made, and denoising steps of the runs of benchmarks.continuous."""


def cspd(gamma: int, batch: int) -> float:
    """The speed-up of Table 1 of CSpD, computed.

    Passes are those of the released code, whose verifications settle all drafts, whatever the acceptance rate.
    """
    launches, eager = SIZES["MAR-H"].layers + _MAR_STEPS * SIZES["MAR-H"].step_layers, ENGINES["eager"]
    overhead = (_ORDINARY / _TOKENS - _mar("MAR-H", replace(eager, overhead=0.0), 1)) / launches
    engine, drafted = replace(eager, overhead=overhead), _TOKENS - _ALONE
    ordinary, draft = (_mar(name, engine, batch) for name in ("MAR-H", "MAR-B"))
    verification = _mar("MAR-H", engine, batch, gamma)
    return _TOKENS * ordinary / (_ALONE * ordinary + drafted * draft + ceil(drafted / gamma) * verification)


def _mar(name: str, engine: Engine, batch: int, drafts: int = 0) -> float:
    """Return the seconds of a pass that verifies `drafts` drafts.

    With guidance, so that there are two rows per picture.
    """
    rows, judges = 2 * batch, drafts > 0
    noisy = _MAR_STEPS * max(drafts, 1) * rows
    work = PassWork(query_tokens=_FED * rows, rows=rows, judges=judges, head_passes=_MAR_STEPS, noisy_tokens=noisy)
    return pass_cost(DEVICES["A100 80GB"], SIZES[name], engine, work).seconds


def cspd_pairs() -> list[Pair]:
    """All of CSpD's Table 1."""
    return [
        (gamma, theirs, cspd(gamma, batch))
        for gamma, row in CSPD.items()
        for batch, theirs in zip(CSPD_BATCHES, row, strict=True)
    ]


def _rows(name: str) -> list[dict[str, Any]]:
    """The rows of a result."""
    text = (Path(__file__).parent / "results" / f"{name}.json").read_text(encoding="utf-8")
    return list(json.loads(text)["rows"])


TIMED: Final = (("eager", 1), ("eager", 32), ("CUDA graphs", 1), ("CUDA graphs", 32))
"""Engines, and tokens per pass; two for the baseline of SDAR, which has a mask for its token."""


def timed() -> dict[str, dict[tuple[str, int], tuple[float, float]]]:
    """Milliseconds of a pass on an H100 by network and column of `TIMED`: measured by benchmarks.gpu, and computed."""
    found: dict[str, dict[tuple[str, int], tuple[float, float]]] = {}
    for row in _rows("gpu"):
        engine = {"CUDA graph": "CUDA graphs", "transformers' generate": ""}.get(row["method"], "eager")
        if row["family"] not in SIZES or not engine or row["method"] == "cspd" or row["settings"] == "block=1":
            continue
        size, column = SIZES[row["family"]], (engine, 32 if row["tokens_fed"] == 32 else 1)
        steps = size.denoising_steps
        work = PassWork(
            query_tokens=row["tokens_fed"], judges=row["method"] == "scd", head_passes=steps, noisy_tokens=steps
        )
        computed = pass_cost(DEVICES["H100"], size, ENGINES[engine], work).seconds
        found.setdefault(row["family"], {})[column] = 1e3 * row["whole_seconds"], 1e3 * computed
    return found


def timed_markdown() -> str:
    """The table of docs/hardware.md on measured passes: measured and computed milliseconds by engine and tokens."""
    head = ["network", *(f"{engine}, {tokens} token{'s' * (tokens > 1)}" for engine, tokens in TIMED)]
    cells = {
        name: ["{:.1f}, {:.1f}".format(*passes[each]) if each in passes else "" for each in TIMED]
        for name, passes in timed().items()
    }
    return table(head, [[name, *each] for name, each in cells.items()])


def patch_rows() -> list[dict[str, Any]]:
    """Return rows computed from the counts of benchmarks.continuous, eight pictures each."""
    return [row for row in _rows("continuous") if row["batch"] == 8]


def patches(row: Mapping[str, Any], engine: Engine, batch: int) -> float:
    """The speed-up of the patch models that ship on an H100, computed from the passes that a row of results counted."""
    target, draft = SHIPPED["patch-target"], SHIPPED["patch-draft" if row["drafter"] == "small" else "patch-mixture"]
    alone = round(_PREFILL * _PATCHES)
    follows = row["method"] == "cspd-block"

    def seconds(size: NetworkSize, tokens: int, *, judges: bool = False) -> float:
        work = PassWork(
            query_tokens=tokens * batch, rows=batch, context=_PATCHES / 2, judges=judges,
            head_passes=_PATCH_STEPS + (judges and follows), noisy_tokens=_PATCH_STEPS * tokens * batch,
        )  # fmt: skip
        return pass_cost(DEVICES["H100"], size, engine, work).seconds

    one, verifications = seconds(target, 1), row["target_calls"] - alone
    verifying = verifications * seconds(target, row["gamma"] + 1, judges=True)
    total: float = alone * one + verifying + row["draft_calls"] * seconds(draft, 1)
    return _PATCHES * one / total


if __name__ == "__main__":
    reported = f"reported, in batches of {', '.join(map(str, CSPD_BATCHES))}"
    by_length = table(["γ", reported, "computed", "mean error"], _lines(cspd_pairs()))
    print(markdown(), by_length, timed_markdown(), sep="\n\n")
