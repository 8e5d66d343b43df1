"""Measurements of running servers: rows, tables and a suggested draft length."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from draftscope.analysis.results import ResultRow
from draftscope.builder import TraceBuilder
from draftscope.servers.answers import Answer
from draftscope.trace import Trace
from draftscope.traces.files import write_atomic
from draftscope.traces.schema import Sums
from draftscope.traces.stats import add_sums
from draftscope.visualizers.tables import as_latex, as_markdown

TITLE: Final = "draftscope bench"
ORDINARY, SERVER = "ordinary", "server"
"""Labels of the baseline and of the server."""
_COLUMNS: Final = (
    "Server", "Tokens per target pass", "Acceptance", "Acceptance by position", "First token (ms)", "Per token (ms)",
    "Tokens per second", "All requests, tokens per second", "Times as fast (quartiles)", "Same text",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One answer of a server."""

    server: str
    problem: int
    repetition: int
    category: str
    answer: Answer


@dataclass(slots=True)
class ServedResult:
    """Measurements of one or two servers."""

    about: dict[str, Any]
    measured: list[Measured] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """A sentence for each request without an answer."""
    sums: dict[str, Sums] = field(default_factory=dict)
    """Counters of each server over all its phases, where it has them."""
    phase_seconds: dict[str, float] = field(default_factory=dict)
    """Duration of all phases of each server."""
    interrupted: bool = False

    @property
    def servers(self) -> list[str]:
        """Labels, the baseline first."""
        return [label for label in (ORDINARY, SERVER) if any(one.server == label for one in self.measured)]

    @property
    def counted(self) -> dict[str, Sums]:
        """Counts of each server over all its requests, else those in its answers."""
        found = {}
        for label in self.servers:
            parts = [one.answer.sums for one in self.measured if one.server == label]
            known = [sums for sums in parts if sums is not None and sums.drafts]
            if sums := self.sums.get(label) or (add_sums(known) if known else None):
                found[label] = sums
        return found

    @property
    def traces(self) -> tuple[Trace, ...]:
        """Traces of sums, one for each server that counts drafts, for `ds.figure("by-place", ...)`."""
        about = self.about["servers"]
        return tuple(
            sums_trace(sums, about[label]["kind"], about[label]["model"]) for label, sums in self.counted.items()
        )

    @property
    def rows(self) -> tuple[ResultRow, ...]:
        """One for each prompt that all servers answered; times are medians of the repetitions."""
        rows = []
        for problem in sorted({one.problem for one in self.measured}):
            parts = {label: self._of(label, problem) for label in self.servers}
            if all(parts.values()):
                rows += [self._row(label, problem, each) for label, each in parts.items()]
        return tuple(rows)

    def _of(self, label: str, problem: int) -> list[Measured]:
        return [one for one in self.measured if (one.server, one.problem) == (label, problem)]

    def _row(self, label: str, problem: int, parts: Sequence[Measured]) -> ResultRow:
        answer, about = parts[0].answer, self.about["servers"][label]
        passes = answer.tokens - answer.accepted if answer.accepted is not None else answer.chunks
        config = {"length": self.about["length"], "concurrency": self.about["concurrency"], "route": about["route"]}
        return ResultRow(
            method=about["kind"] or "server",
            label=label,
            config=config,
            problem=problem,
            correct=self._is_same(problem, answer),
            forwards=max(passes, 0),
            forwards_by_mode={"verify": max(passes, 0)},
            row_forwards=max(passes, 0),
            query_tokens=max(passes, 0) + (answer.drafted or 0),
            tokens=answer.tokens,
            seconds=median(one.answer.seconds for one in parts),
            model=about["model"],
            batch=self.about["concurrency"],
        )

    def _is_same(self, problem: int, answer: Answer) -> bool | None:
        """Whether a greedy answer has the text of the baseline; None where tokens are sampled or there is none."""
        base = self._of(ORDINARY, problem)
        fields = [about["fields"] for about in self.about["servers"].values()]
        is_greedy = all(each.get("temperature") == 0 or each.get("top_k") == 1 for each in fields)
        return base[0].answer.text == answer.text if base and is_greedy else None

    def table(self, category: str | None = None) -> list[dict[str, Any]]:
        """Return a line for each server, over all prompts or those of a category."""
        chosen = [one for one in self.measured if category is None or one.category == category]
        return [self._line(label, [one for one in chosen if one.server == label], chosen) for label in self.servers]

    def _line(self, label: str, parts: Sequence[Measured], chosen: Sequence[Measured]) -> dict[str, Any]:
        answers = [one.answer for one in parts]
        counted = [answer for answer in answers if answer.accepted is not None and answer.drafted is not None]
        tokens, drafted = sum(one.tokens for one in counted), sum(one.drafted or 0 for one in counted)
        accepted = sum(one.accepted or 0 for one in counted)
        sums = self.counted.get(label)
        per_pass = tokens / (tokens - accepted) if tokens > accepted else None
        if not counted and sums and len(chosen) == len(self.measured):
            per_pass, drafted, accepted = sums.tokens / sums.forwards, sums.drafts, sums.accepted
        positions = sums.accepted_by_position if sums and sums.verifications else ()
        ratios = self._ratios(label, {one.problem for one in parts})
        low, middle, high = _quartiles(ratios)
        later = [one for one in answers if one.tokens > 1 and one.seconds > one.first_seconds]
        per_token = [(one.seconds - one.first_seconds) / (one.tokens - 1) for one in later]
        return {
            "label": label,
            "requests": len(answers),
            "tokens": sum(one.tokens for one in answers),
            "tokens_per_pass": per_pass,
            "acceptance": accepted / drafted if drafted else None,
            "acceptance_by_position": [count / (sums.verifications or 1) for count in positions] if sums else [],
            "first_token_seconds": median(one.first_seconds for one in answers) if answers else None,
            "token_seconds": median(per_token) if per_token else None,
            "tokens_per_second": median(one.tokens / one.seconds for one in answers if one.seconds > 0),
            "throughput": sum(one.tokens for one in answers) / self.phase_seconds[label]
            if len(chosen) == len(self.measured) and self.phase_seconds.get(label)
            else None,
            "speed": middle,
            "speed_low": low,
            "speed_high": high,
            "same": self._same(label) if label != ORDINARY and len(self.servers) > 1 else None,
        }

    def _ratios(self, label: str, problems: set[int]) -> list[float]:
        """Tokens per second over those of the baseline, by prompt."""
        if label == ORDINARY or len(self.servers) < 2:
            return []
        speeds: dict[str, dict[int, float]] = {ORDINARY: {}, label: {}}
        for row in self.rows:
            if row.problem in problems and row.seconds:
                speeds[row.label][row.problem] = row.tokens / row.seconds
        return [speed / speeds[ORDINARY][at] for at, speed in speeds[label].items() if speeds[ORDINARY].get(at)]

    def _same(self, label: str) -> tuple[int, int]:
        """Prompts with the text of the baseline, of those that both answered."""
        pairs = [(self._of(label, at), self._of(ORDINARY, at)) for at in {one.problem for one in self.measured}]
        texts = [(one[0].answer.text, other[0].answer.text) for one, other in pairs if one and other]
        return sum(one == other for one, other in texts), len(texts)

    @property
    def suggestion(self) -> dict[str, Any] | None:
        """The draft length with the highest computed speed, and the computed and measured speed of the present one.

        A shorter draft of g tokens gives one token more than the marginal rates of its positions add up to; the cost of
        its pass is taken to grow linearly from that of a pass of the baseline to the measured one. None without a
        baseline or without counts by position.
        """
        lines = {line["label"]: line for line in self.table()}
        if len(lines) < 2 or not (rates := lines[SERVER]["acceptance_by_position"]) or not lines[SERVER]["speed"]:
            return None
        per_pass = [line["tokens_per_pass"] for line in (lines[ORDINARY], lines[SERVER])]
        if None in per_pass:
            return None
        speed = lines[SERVER]["speed"]
        cost = per_pass[1] / (per_pass[0] * speed)  # of a pass with drafts, in passes of the baseline
        yields = [1 + sum(rates[:length]) for length in range(len(rates) + 1)]
        computed = [tokens / (1 + (cost - 1) * at / len(rates)) for at, tokens in enumerate(yields)]
        best = max(range(len(computed)), key=computed.__getitem__)
        return {
            "drafts": best,
            "computed_speed": computed[best],
            "present_drafts": len(rates),
            "present_computed_speed": computed[-1],
            "present_measured_speed": speed,
            "pass_cost": cost,
            "speed_with_free_drafts": yields[-1],
        }

    def markdown(self) -> str:
        """Return the table in Markdown, speeds by category, the suggested draft length, and what failed."""
        parts = [as_markdown([*_COLUMNS], self._cells())]
        names = list(dict.fromkeys(one.category for one in self.measured if one.category))
        if names and len(self.servers) > 1:
            speeds = [self.table(name)[-1]["speed"] for name in names]
            cells = [[SERVER, *("" if speed is None else f"{speed:.2f}" for speed in speeds)]]
            parts.append(as_markdown(["Times as fast", *names], cells))
        if (found := self.suggestion) is not None:
            parts.append(_advice(found))
        if (ordinary := self.counted.get(ORDINARY)) and ordinary.drafts:
            parts.append("The baseline drafted as well; compare with a server without drafts.\n")
        counts = {problem: self.failed.count(problem) for problem in dict.fromkeys(self.failed)}
        for problem, count in counts.items():
            parts.append(f"Failed{f', {count} times' if count > 1 else ''}: {problem}\n")
        if self.interrupted:
            parts.append("Interrupted; the rows are those that came.\n")
        return "\n".join(parts)

    def latex(self) -> str:
        """Return the table in LaTeX, for the package booktabs."""
        return as_latex([*_COLUMNS], self._cells())

    def _cells(self) -> list[list[str]]:
        return [_cells_of(line) for line in self.table()]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write everything as JSON, which the app opens under Choose and Compare.

        Raises:
            OSError: If the file cannot be written.
        """
        requests = [asdict(one) for one in self.measured]
        known: dict[str, Any] = {
            "title": TITLE,
            "about": self.about,
            "failed": self.failed,
            "suggestion": self.suggestion,
        }
        known |= {"sums": {label: asdict(sums) for label, sums in self.counted.items()}}
        known |= {"interrupted": self.interrupted}
        content = known | {"table": self.table(), "rows": [asdict(row) for row in self.rows], "requests": requests}
        write_atomic(Path(path), f"{json.dumps(content, indent=1)}\n".encode())


def sums_trace(sums: Sums, kind: str, model: str) -> Trace:
    """Return the trace of what a server counted.

    Args:
        sums: Counters of all requests of a measurement.
        kind: Engine of the server; empty if unknown.
        model: Id of its model; empty if unknown.
    """
    note = "Counters of all requests of a measurement, warm-up left out."
    return TraceBuilder(kind or "server", model or "unknown", note=note).trace(sums=sums)


def _quartiles(ratios: list[float]) -> tuple[float | None, float | None, float | None]:
    if len(ratios) < 2:
        return (ratios[0],) * 3 if ratios else (None, None, None)
    low, middle, high = quantiles(ratios, n=4, method="inclusive")
    return low, middle, high


def _advice(found: Mapping[str, Any]) -> str:
    present = f"{found['present_drafts']} drafts: {found['present_measured_speed']:.2f} times as fast as the baseline"
    cost = f"a pass with drafts takes as long as {found['pass_cost']:.2f} of its passes"
    free = f"{found['speed_with_free_drafts']:.2f} if drafts and their verification cost nothing"
    if not found["drafts"]:
        return f"Measured with {present}; {cost} ({free}). Computed, no draft length is faster.\n"
    best = f"{found['computed_speed']:.2f} with {found['drafts']} drafts"
    return f"Measured with {present}; {cost} ({free}). Computed, the fastest length gives {best}.\n"


def _cells_of(line: Mapping[str, Any]) -> list[str]:
    def number(name: str, form: str, factor: float = 1.0) -> str:
        return "" if line[name] is None else f"{line[name] * factor:{form}}"

    speed = (
        "" if line["speed"] is None else f"{line['speed']:.2f} ({line['speed_low']:.2f} to {line['speed_high']:.2f})"
    )
    return [
        line["label"],
        number("tokens_per_pass", ".2f"),
        number("acceptance", ".2f"),
        " ".join(f"{rate:.2f}" for rate in line["acceptance_by_position"]),
        number("first_token_seconds", ".1f", 1000),
        number("token_seconds", ".2f", 1000),
        number("tokens_per_second", ".1f"),
        number("throughput", ".1f"),
        speed,
        "" if line["same"] is None else "{} of {}".format(*line["same"]),
    ]
