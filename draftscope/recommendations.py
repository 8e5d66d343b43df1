"""Speed against quality of all methods: shipped results, results of papers, and the recommended method.

Measured numbers come from the files that `make measured` and the sweeps write; missing files are skipped. Numbers from
papers are in reported.json, each with its table.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from math import hypot
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from draftscope.analysis.groups import Group, gathered
from draftscope.analysis.results import ResultRow, read_results
from draftscope.analysis.seeds import estimate
from draftscope.analysis.shipped_results import FOLDER, read_result
from draftscope.analysis.speedup_model import SpeedupModel
from draftscope.analysis.tradeoffs import Drafting, Tradeoff, best
from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import MODELS
from draftscope.engines.settings import ConfigError, make_config
from draftscope.traces.labels import COUPLINGS
from draftscope.visualizers import SweepError

REPORTED: Final = Path(__file__).with_name("reported.json")
_OPENS: Final = dict(MODELS["studio-image"].form_defaults)
_COUPLINGS: Final = {name: {"coupling": value} for value, name in COUPLINGS.items()}
_WAYS: Final[Mapping[str, Mapping[str, object]]] = {**_COUPLINGS, "SJD, same noise": {"same_noise": True}}
"""Names of decoders -> settings of SCD."""
SWEEPS: Final = ("tally", "text-pair", "psd")

Row = Mapping[str, Any]


@lru_cache(maxsize=4)
def measured_tradeoffs(folder: Path = FOLDER) -> tuple[Tradeoff, ...]:
    """Everything that was measured here both in time and, where it is not exact by proof, in quality."""
    readers = (_coupled, _videos, _drafted, _continuous, _swept)
    return tuple(one for reader in readers for one in reader(folder) if one.height is not None)


@cache
def reported_tradeoffs() -> tuple[Tradeoff, ...]:
    """Return the results of papers, with their models and machines.

    Ratios as printed, or computed from two printed values.
    """
    entries = json.loads(REPORTED.read_text(encoding="utf-8"))
    ratios = [entry.pop("ratio", None) or (entry.pop("speed"), 1) for entry in entries]
    settings = [tuple(entry.pop("settings", {}).items()) for entry in entries]
    return tuple(
        Tradeoff(**{"batch": None, **entry}, speed=above / below, reported=True, settings=named)
        for entry, (above, below), named in zip(entries, ratios, settings, strict=True)
    )


def reported_near(plan: SpeedupModel) -> tuple[Tradeoff, ...]:
    """Return the results of papers for drafts without a network, near the setup of a speed-up model."""
    return tuple(
        one
        for one in reported_tradeoffs()
        if plan.draft is None and one.window and one.batch == plan.batch
        if one.model.startswith(plan.target.name) and plan.device.name.split()[0] in one.hardware.split()
    )  # fmt: skip


class _Result:
    """The result of a benchmark: its rows, and where they were measured."""

    def __init__(self, folder: Path, name: str) -> None:
        result = read_result(folder / f"{name}.json")
        self.rows = result["rows"]
        self.source = f"python -m benchmarks.{name}"
        self.hardware = str(result["environment"].get("device", ""))

    def of(self, row: Row, method: str, settings: Mapping[str, object], **about: Any) -> Tradeoff:
        """Return the tradeoff of a row for a method with settings."""
        speed = {"speed_low": "faster_low_quartile", "speed": "faster_median", "speed_high": "faster_high_quartile"}
        spread = {name: row[column] for name, column in speed.items() if column in row}
        where = {"source": self.source, "hardware": self.hardware, "exact": _is_exact(method, settings)}
        return Tradeoff(method=method, settings=tuple(settings.items()), **{**spread, **where, **about})


def _coupled(folder: Path) -> Iterator[Tradeoff]:
    """SCD and its like on pictures, as the form opens: that is what quality was measured on."""
    result = _Result(folder, "speed")
    graded = {row["decoder"]: row for row in _Result(folder, "quality").rows}
    for row in result.rows:
        if "faster_median" not in row or row["guidance"] != _OPENS["guidance"]:
            continue
        name, window = row["decoder"], row["window"]
        way = _WAYS.get(name, {})
        setting = f"{name}, window {window}" if way else f"window {window}"
        quality = _compare_pictures(graded.get(name), graded.get("vanilla"))
        settings = {"window": window, **way, **_OPENS}
        yield result.of(row, row["method"], settings, kind="picture", setting=setting, model="studio-image", **quality)


def _videos(folder: Path) -> Iterator[Tradeoff]:
    """Yield SCD on clips; unchanged quality was measured as distances, which are not percentage points."""
    result = _Result(folder, "video")
    for row in result.rows:
        if row.get("kind") != "video" or row["decoder"] not in _COUPLINGS:
            continue
        ratio, error = row["time_ratio"], row["time_ratio_error"]
        yield result.of(
            row,
            "scd",
            {"window": row["window"], **_COUPLINGS[row["decoder"]]},
            kind="video",
            setting=f"{row['decoder']}, window {row['window']}",
            model="studio-video",
            speed=ratio,
            speed_low=ratio - error,
            speed_high=ratio + error,
        )


def _compare_pictures(accelerated: Row | None, baseline: Row | None) -> dict[str, Any]:
    if accelerated is None or baseline is None:
        return {}
    return {
        "change": accelerated["as_asked_percent"] - baseline["as_asked_percent"],
        "error": hypot(accelerated["as_asked_error"], baseline["as_asked_error"]),
        "quality": f"pictures as asked, {accelerated['pictures']} of each",
    }


def _drafted(folder: Path) -> Iterator[Tradeoff]:
    """Speculative decoding with a small model or with look-up."""
    result = _Result(folder, "draft_models")
    baseline = {row["model"]: row for row in result.rows if row["method"] == "ar"}
    for row in result.rows:
        if "faster_median" not in row or row["model"] not in baseline:
            continue
        base, cost = baseline[row["model"]], row.get("cost_of_a_draft")
        source = "look-up" if row["drafter"] == "lookup" else "a small model"
        about: dict[str, Any] = {"kind": "picture", "model": row["model"]}
        if "accuracy" in row:
            about |= {
                "kind": "text",
                "change": 100 * (row["accuracy"] - base["accuracy"]),
                "error": 100 * hypot(row["accuracy_standard_error"], base["accuracy_standard_error"]),
                "quality": f"right answers, {row['problems']} problems",
            }
        if cost is not None:
            about["drafting"] = Drafting(ordinary_passes=base["nfe"], draft_passes=row["draft_passes"], cost=cost)
        settings = {"drafter": row["drafter"], "gamma": row["gamma"]}
        about["exact"] = _is_exact("speculative", {"gamma": row["gamma"]})
        yield result.of(row, "speculative", settings, setting=f"drafts by {source}, gamma {row['gamma']}", **about)


def _continuous(folder: Path) -> Iterator[Tradeoff]:
    """CSpD on patches; quality was measured for whole paths, of any draft length, since they are exact."""
    result = _Result(folder, "continuous")
    patches = _Result(folder, "patches").rows
    graded = {row["decoder"]: row for row in patches if row.get("guidance", 1) == 1}  # as what was timed
    pictures = _compare_pictures(graded.get("CSpD whole paths"), graded.get("target"))
    for row in result.rows:
        tokens = row["tokens_per_verification"] * (row["target_calls"] - 1)  # the first pass verifies nothing
        network = row["share_draft"] * row["seconds"] / row["draft_calls"]
        drafting = Drafting(
            ordinary_passes=tokens, draft_passes=row["draft_calls"], cost=network / (row["seconds_ordinary"] / tokens)
        )
        chosen = {name: row[name] for name in ("gamma", "drafter", "verdict") if row.get(name)}
        setting = ", ".join(f"{name} {value}" for name, value in chosen.items())
        settings = {**dict(MODELS[row["model"]].form_defaults), **chosen}
        about = {"kind": "continuous", "model": row["model"], "batch": row["batch"], "drafting": drafting}
        yield result.of(row, row["method"], settings, setting=setting, **about, **pictures)


def _swept(folder: Path) -> Iterator[Tradeoff]:
    """Yield texts: sweeps of many problems with known answers, compared problem by problem."""
    for name in SWEEPS:
        try:
            groups = gathered(read_results((folder / f"{name}.jsonl.gz").read_bytes()).rows)
        except (OSError, SweepError):
            continue
        yield from _compared(groups, f"draftscope experiment run benchmarks/grids/{name}.json")


def opened_tradeoffs(data: bytes) -> tuple[Tradeoff, ...]:
    """Return the tradeoffs in a file of `draftscope bench` or of a sweep, compared with the row `ordinary`.

    Raises:
        SweepError: If the file is invalid or compares nothing.
    """
    found = tuple(_compared(gathered(read_results(data).rows, scored=False), "an opened file"))
    complete = tuple(one for one in found if one.height is not None)
    if found and not complete:
        raise SweepError(
            "rows: the quality of no setting was measured; give greedy runs, or problems with known answers"
        )
    if not complete:
        raise SweepError(
            "rows: there is no row labelled 'ordinary' to compare with; give a file of draftscope bench, of "
            "a server with --baseline"
        )
    return complete


def _compared(groups: Sequence[Group], source: str) -> Iterator[Tradeoff]:
    """Yield settings compared with the baseline of the same mode: sampled answers differ from greedy ones anyway."""
    baseline = {group.config.get("mode"): group for group in groups if group.label.endswith("ordinary")}
    for group in groups:
        base = baseline.get(group.config.get("mode"))
        if base is not None and group is not base:
            yield _compare(group, base, source)


def _compare(group: Group, baseline: Group, source: str) -> Tradeoff:
    base = {row.problem: row for row in baseline.rows}
    pairs = [(row, base[row.problem]) for row in group.rows if row.problem in base]
    faster = [_per_token(other) / _per_token(run) for run, other in pairs if _per_token(run)]
    if not faster:
        raise SweepError(f"rows: {group.label!r} has no tokens and seconds on problems of 'ordinary'; give timed runs")
    low, _, high = quantiles(faster, n=4) if len(faster) > 1 else faster * 3
    graded: dict[str, Any] = {}
    if not any(row.correct is None for row in (*group.rows, *baseline.rows)):
        right, usually = group.shares(), baseline.shares()
        change = estimate([100 * (right[problem] - usually[problem]) for problem in right.keys() & usually.keys()])
        graded = {"change": change.mean, "error": change.error}
        measure = "texts of the baseline" if "route" in group.config else "right answers"
        graded["quality"] = f"{measure}, {group.problems} problems"
    return Tradeoff(
        kind="text",
        method=group.method,
        setting=group.label,
        speed=median(faster),
        speed_low=low,
        speed_high=high,
        **graded,
        exact=_is_exact(group.method, group.config),
        model=group.model,
        batch=max(row.batch for row in group.rows),
        hardware=group.rows[0].device,
        source=source,
        settings=tuple(group.config.items()),
    )


def _per_token(row: ResultRow) -> float:
    return row.seconds / row.tokens if row.tokens else 0.0


def _is_exact(method: str, settings: Mapping[str, object]) -> bool:
    """Whether a method claims, and its tests prove, that the output follows the model's own distribution."""
    if method not in METHODS:
        return False
    definition = METHODS[method]
    try:
        return not definition.deviation(make_config(definition.config, dict(settings)))
    except ConfigError:
        return False


KINDS: Final = {"picture": "pictures", "video": "videos", "text": "text", "continuous": "continuous tokens"}
"""Names of the kinds of output in sentences."""


def answer(among: Sequence[Tradeoff], kind: str, max_loss: float, batch: int) -> str:
    """Return the recommendation for one kind of output, in a sentence: the fastest method, or that none pays.

    Args:
        among: Measured or predicted methods under the user's conditions.
        kind: Kind of output, a key of `KINDS`.
        max_loss: Most that quality may fall, in percentage points.
        batch: Sequences decoded together, for the message.
    """
    name = KINDS.get(kind, kind)
    those = [one for one in among if one.kind == kind]
    if not those:
        return f"Nothing was measured for {name} under these conditions, in batches of {batch}."
    one = best(those, max_loss)
    if one is not None:
        quality = "exact" if one.exact else "though not the model's own distribution"
        return f"Use {one.called} for {name}: {speed_in_words(one)}, {quality_in_words(one)}, {quality}."
    fastest = max(those, key=lambda each: each.speed)
    allowed = f"a loss of {max_loss:g} percentage points" if max_loss else "the noise of the quality"
    if fastest.faster:
        loses = f"{fastest.called} is, {speed_in_words(fastest)}, {quality_in_words(fastest)}"
        return f"Nothing here is faster than ordinary decoding for {name} within {allowed}: {loses}."
    return (
        f"Nothing here is faster than ordinary decoding for {name} within {allowed}: "
        f"the fastest, {fastest.called}, comes to {speed_in_words(fastest)}."
    )


def speed_in_words(one: Tradeoff) -> str:
    """Return the speed-up with its quartiles in words; a prediction is called one."""
    spread = ""
    if one.speed_low is not None and one.speed_high is not None:
        spread = f" ({_times(one.speed_low)} to {_times(one.speed_high)})"
    return f"{_times(one.speed)} ×{spread}{' as predicted' if one.predicted else ''}"


def quality_in_words(one: Tradeoff) -> str:
    """Return the change in quality in words, including what is unknown."""
    if one.change is None:
        return "quality not measured, and nothing lost by construction"
    error = "" if one.error is None else f" ± {one.error:.1f}"
    measured = f"{one.change:+.1f}{error} points"
    if one.within_noise:
        return f"quality within noise ({measured})"
    return f"quality {'higher' if one.change > 0 else 'lower'} by more than noise ({measured})"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"
