"""The pass model of `traces.hardware` beside the times that SCD's paper reports (arXiv 2510.24211). Runs no model.

For every table the engine's overhead is fitted to the row of ordinary decoding alone; every other row is computed from
its number of passes. Prints the table of docs/hardware.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from traces.hardware import DEVICES, ENGINES, SIZES, Engine, Work, pass_cost

Row = tuple[str, int, float, float]
"""Decoder, window L (1 for ordinary decoding), passes, seconds."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper: the ordinary row first."""

    name: str
    size: str
    device: str
    rows: int
    """Of a pass: 2 with classifier-free guidance."""
    tokens: int
    verification: float
    """Seconds a verifying pass adds."""
    published: tuple[Row, ...]


TABLES: Final = (
    Table("Table 1, Lumina-mGPT, MS-COCO", "Lumina-mGPT 7B", "A100 80GB", 2, 2390, 0.0, (
        ("ordinary", 1, 2390, 102.03), ("SJD", 16, 1058.6, 43.02), ("MC", 16, 814.5, 32.75), ("GS", 16, 819.4, 32.89),
        ("SJD", 32, 1031.2, 42.99), ("MC", 32, 666.0, 26.77), ("GS", 32, 652.3, 26.44), ("SJD", 64, 1035.9, 42.98),
        ("MC", 64, 567.7, 24.41), ("GS", 64, 568.0, 24.24),
    )),
    Table("Table 2, Cosmos 4B, real-state-10k", "Cosmos 4B", "A100 80GB", 1, 7680, 4.1e-3, (
        ("ordinary", 1, 7680, 157.25), ("SJD", 16, 2272.8, 54.12), ("MC", 16, 1990.5, 48.93), ("GS", 16, 1940.6, 47.97),
        ("SJD", 32, 1886.4, 48.43), ("MC", 32, 1293.7, 32.36), ("GS", 32, 1267.3, 32.01), ("SJD", 64, 1802.3, 48.19),
        ("MC", 64, 835.9, 22.38), ("GS", 64, 810.7, 21.58), ("SJD", 128, 1789.9, 47.73), ("MC", 128, 577.8, 15.87),
        ("GS", 128, 564.4, 13.60),
    )),
    Table("Table 5, Lumina-mGPT, Parti-Prompt", "Lumina-mGPT 7B", "A100 80GB", 2, 2392, 0.0, (
        ("ordinary", 1, 2392, 112.29), ("SJD", 16, 1035.3, 42.07), ("MC", 16, 817.29, 32.86),
        ("GS", 16, 820.12, 32.92), ("SJD", 32, 1038.2, 43.27), ("MC", 32, 647.08, 26.01), ("GS", 32, 649.54, 26.33),
        ("SJD", 64, 1036.2, 42.99), ("MC", 64, 548.26, 23.58), ("GS", 64, 548.75, 23.42),
    )),
    Table("Table 6, Janus-Pro, Parti-Prompt", "Janus-Pro 7B", "RTX 3090", 2, 576, 4.1e-3, (
        ("ordinary", 1, 576, 16.84), ("SJD", 16, 312.0, 9.96), ("MC", 16, 186.48, 6.22), ("GS", 16, 189.99, 6.336),
        ("SJD", 32, 308.17, 10.25), ("MC", 32, 149.53, 5.471), ("GS", 32, 154.42, 5.388),
    )),
)  # fmt: skip


def fitted(table: Table) -> Engine:
    """The engine whose overhead makes the ordinary row right."""
    _, _, passes, seconds = table.published[0]
    ideal = _pass(table, replace(ENGINES["eager"], overhead=0.0, verification=0.0), 1)
    overhead = max(0.0, seconds / passes - ideal) / SIZES[table.size].layers
    return replace(ENGINES["eager"], overhead=overhead, verification=table.verification)


def _pass(table: Table, engine: Engine, window: int) -> float:
    """Seconds of a pass over `window` tokens, half of the canvas being final."""
    work = Work(query_tokens=window * table.rows, rows=table.rows, context=table.tokens / 2, judges=window > 1)
    return pass_cost(DEVICES[table.device], SIZES[table.size], engine, work).seconds


def computed(table: Table) -> Iterator[tuple[Row, float, float]]:
    """Every row but the ordinary one, with its reported speed-up and the computed one."""
    engine, (_, _, passes, seconds) = fitted(table), table.published[0]
    base = passes * _pass(table, engine, 1)
    for row in table.published[1:]:
        yield row, seconds / row[3], base / (row[2] * _pass(table, engine, row[1]))


def error(table: Table) -> float:
    """Mean absolute error of the computed speed-up, as a share of the reported one."""
    errors = [abs(mine / theirs - 1) for _, theirs, mine in computed(table)]
    return sum(errors) / len(errors)


def markdown() -> str:
    """The table of docs/hardware.md: a row a table and window."""
    lines = ["| table | L | reported: SJD, MC, GS | computed | mean error |", "|---|---|---|---|---|"]
    for table in TABLES:
        rows, name = list(computed(table)), table.name
        for window in dict.fromkeys(row[1] for row, _, _ in rows):
            pairs = [(theirs, mine) for row, theirs, mine in rows if row[1] == window]
            theirs, mine = (", ".join(f"{speed:.2f}" for speed in column) for column in zip(*pairs, strict=True))
            share = sum(abs(m / t - 1) for t, m in pairs) / len(pairs)
            lines.append(f"| {name} | {window} | {theirs} | {mine} | {100 * share:.1f} % |")
            name = ""
        lines.append(f"| | all | | | **{100 * error(table):.1f} %** |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
