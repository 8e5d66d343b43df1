"""Result of `draftscope bench`: rows, tables, and the fastest draft lengths."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

from draftscope.analysis.groups import Group, gathered
from draftscope.analysis.results import ResultRow
from draftscope.traces.files import write_atomic
from draftscope.visualizers.tables import as_latex, as_markdown

DRAFTERS: Final = {"small": "the drafter", "lookup": "lookup", "eagle": "eagle", "lookup-eagle": "lookup or eagle"}
"""Names in labels of the setting `drafter`."""
_COLUMNS: Final[Mapping[str, Callable[[dict[str, Any]], str]]] = {
    "Decoding": lambda line: line["label"],
    "Tokens per target pass": lambda line: f"{line['tokens_per_pass']:.2f}",
    "Acceptance": lambda line: "" if line["acceptance"] is None else f"{line['acceptance']:.2f}",
    "Acceptance by position": lambda line: " ".join(f"{rate:.2f}" for rate in line["acceptance_by_place"]),
    "Tokens per second": lambda line: f"{line['tokens_per_second']:.1f}",
    "Times as fast (quartiles)": lambda line: (
        f"{line['speed']:.2f} ({line['speed_low']:.2f} to {line['speed_high']:.2f})"
    ),
    "Same tokens": lambda line: "" if line["same"] is None else f"{line['same']} of {line['prompts']}",
}
"""Columns of the printed table: head -> cell of a line of `BenchResult.table`."""


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Measured speed of several arms."""

    rows: tuple[ResultRow, ...]
    """One per prompt and arm. `seconds` is the median of the repetitions."""
    same: Mapping[str, int]
    """Number of prompts with the tokens of ordinary decoding, by arm; empty if tokens are sampled."""
    about: Mapping[str, Any]
    """Date, device and software."""
    left_out: Mapping[str, str]
    """Why arms, and turns of conversations, were not measured."""
    categories: Mapping[int, str]
    """Category of a problem by its number, where the prompts have one."""

    def table(self, category: str | None = None) -> list[dict[str, Any]]:
        """Return a line per arm, of all prompts or of those of a category.

        `speed` is its tokens per second over those of ordinary decoding, by prompt.
        """
        rows = [row for row in self.rows if category is None or self.categories.get(row.problem) == category]
        groups = gathered(rows, scored=False)
        return [self._line(group, groups[0]) for group in groups]

    @property
    def suggestions(self) -> dict[str, tuple[int, float]]:
        """The fastest of the measured draft lengths by drafter, and its speed relative to ordinary decoding.

        The length is 0 where none is faster.
        """
        speeds = {line["label"]: line["speed"] for line in self.table()}
        found: dict[str, tuple[int, float]] = {}
        for row in self.rows:
            if "gamma" not in row.config or row.label not in speeds:
                continue
            drafter, speed = DRAFTERS[str(row.config["drafter"])], speeds[row.label]
            if speed > found.get(drafter, (0, 0.0))[1]:
                found[drafter] = (int(str(row.config["gamma"])), speed)
        return {drafter: (gamma if speed > 1 else 0, speed) for drafter, (gamma, speed) in found.items()}

    def _line(self, group: Group, baseline: Group) -> dict[str, Any]:
        passes, positions = group.total("verifications"), group.by_position
        judged, accepted = (sum(column) for column in zip(*positions, strict=True)) if positions else (0, 0)
        pairs = zip(group.rows, baseline.rows, strict=True)
        ratios = [run.tokens * base.seconds / (run.seconds * base.tokens) for run, base in pairs]
        low, middle, high = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        return {
            "label": group.label,
            "prompts": len(group.rows),
            "tokens_per_pass": group.total("tokens") / (group.total("forwards") - group.total("draft_forwards")),
            "acceptance": accepted / judged if judged else None,
            "acceptance_by_place": [count / passes for _, count in positions],
            "tokens_per_second": group.total("tokens") / group.total("seconds"),
            "speed": middle,
            "speed_low": low,
            "speed_high": high,
            "same": self.same.get(group.label),
        }

    def __repr__(self) -> str:
        """The result in one line."""
        lines = self.table()
        fastest = max(lines, key=lambda line: float(line["speed"]))
        prompts = f"{lines[0]['prompts']} prompt{'s' if lines[0]['prompts'] > 1 else ''}"
        speed = f"{fastest['label']}, {fastest['speed']:.2f} times as fast as ordinary decoding"
        return f"<BenchResult of {prompts} with {len(lines)} methods: the fastest is {speed}>"

    def _cells(self) -> list[list[str]]:
        return [[cell(line) for cell in _COLUMNS.values()] for line in self.table()]

    def markdown(self) -> str:
        """Return the table in Markdown, speeds by category, what was left out, and the fastest draft lengths."""
        parts = [as_markdown([*_COLUMNS], self._cells())]
        if names := list(dict.fromkeys(self.categories.values())):
            parts.append(as_markdown(["Times as fast", *names], self._category_cells(names)))
        if form := self.about.get("chat"):
            parts.append(f"{form}\n")
        parts += [f"Left out: {label} ({reason})\n" for label, reason in self.left_out.items()]
        which = (
            f"With {drafter}, gamma={gamma} was the fastest: {speed:.2f} times as fast as ordinary decoding."
            if gamma
            else f"With {drafter}, no measured draft length was faster than ordinary decoding."
            for drafter, (gamma, speed) in self.suggestions.items()
        )
        return "\n".join([*parts, f"{' '.join(which)}\n"])

    def _category_cells(self, names: Sequence[str]) -> list[list[str]]:
        """Speeds of all arms by category."""
        speeds = [{line["label"]: line["speed"] for line in self.table(name)} for name in names]
        labels = [line["label"] for line in self.table()]
        return [[label, *(f"{each[label]:.2f}" if label in each else "" for each in speeds)] for label in labels]

    def latex(self) -> str:
        """Return the table in LaTeX, for the package booktabs."""
        return as_latex([*_COLUMNS], self._cells())

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write everything as JSON, which the app opens under Choose.

        Raises:
            OSError: If the file cannot be written.
        """
        known = {"title": "draftscope bench", "about": self.about, "suggestions": self.suggestions}
        known |= {"left_out": dict(self.left_out), "categories": {str(n): c for n, c in self.categories.items()}}
        content = known | {"table": self.table(), "rows": [asdict(row) for row in self.rows]}
        write_atomic(Path(path), f"{json.dumps(content, indent=1)}\n".encode())
