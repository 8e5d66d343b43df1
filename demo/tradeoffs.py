"""What shipped results say of every method, speed against quality, and what papers report, apart from each other.

Measured numbers come from the files that `make measured` and the sweeps write. A file that is not there, or of another
shape, adds nothing. Reported numbers stand in reported.json beside this module, each with its table.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import hypot
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from demo.measured import FOLDER
from engines.config import ConfigError, make_config
from engines.methods import METHODS
from traces.pairing import estimate
from traces.results import ResultRow, read_results
from traces.tradeoffs import Drafting, Tradeoff
from visualizers import SweepError
from visualizers.groups import Group, gathered

REPORTED: Final = Path(__file__).with_name("reported.json")
COUPLINGS: Final = {"SJD": "none", "MC-SJD": "maximal", "GS-SJD": "gumbel"}
SWEEPS: Final = ("text", "text-pair", "psd")
_LOCKSTEP: Final = re.compile(r"(.+): throughput of (\d+) in lockstep over one at a time")
_RATE: Final = re.compile(r"([\d.]+) against [\d.]+ \w+ a second")
_PICTURES: Final = "pictures as asked"


@lru_cache(maxsize=4)
def measured_tradeoffs(folder: Path = FOLDER) -> tuple[Tradeoff, ...]:
    """Everything that was measured here both in time and, where it is not exact by proof, in quality."""
    readers: tuple[Callable[[Path], Iterator[Tradeoff]], ...] = (_coupled, _videos, _drafted, _continuous, _swept)
    return tuple(one for reader in readers for one in reader(folder) if one.height is not None)


@lru_cache(maxsize=4)
def reported_tradeoffs(path: Path = REPORTED) -> tuple[Tradeoff, ...]:
    """What papers report, with their models and machines."""
    return tuple(_reported(entry) for entry in json.loads(path.read_text(encoding="utf-8")))


def _reported(entry: Mapping[str, Any]) -> Tradeoff:
    return Tradeoff(
        kind=entry["kind"],
        method=entry["method"],
        setting=entry["setting"],
        speed=_speed_of(entry),
        change=entry.get("change"),
        model=entry["model"],
        batch=entry.get("batch"),
        hardware=entry["hardware"],
        source=entry["source"],
        reported=True,
    )


def _speed_of(entry: Mapping[str, Any]) -> float:
    """A ratio as it is printed, or of two latencies or rates that are: ordinary decoding's first."""
    if "seconds" in entry:
        usual, own = entry["seconds"]
        return float(usual / own)
    if "rates" in entry:
        usual, own = entry["rates"]
        return float(own / usual)
    return float(entry["speed"])


def _coupled(folder: Path) -> Iterator[Tradeoff]:
    """SCD and its like on pictures, without guidance: that is what quality was measured on."""
    speed, quality = _read(folder, "speed"), _read(folder, "quality")
    graded = {row["decoder"]: row for row in _rows(quality)}
    usual = graded.get("vanilla")
    place = _place(speed)
    for row in _rows(speed):
        if "faster_median" not in row or row["guidance"] != 1.0:
            continue
        name, window = row["decoder"], row["window"]
        settings: dict[str, object] = {"window": window}
        settings |= {"coupling": COUPLINGS[name]} if name in COUPLINGS else {}
        said = f"{name}, window {window}" if name in COUPLINGS else f"window {window}"
        yield Tradeoff(
            kind="picture",
            method=row["method"],
            setting=said,
            **_spread(row),
            **_pictures_beside(graded.get(name), usual),
            exact=_is_exact(row["method"], settings),
            model="studio-image",
            source="python -m benchmarks.speed",
            settings=tuple(settings.items()),
            **place,
        )
    yield from _in_lockstep(speed, place, graded)


def _videos(folder: Path) -> Iterator[Tradeoff]:
    """SCD on clips; that likeness is unchanged was measured as distances, which are no percentage points."""
    result = _read(folder, "video")
    for row in _rows(result):
        if row.get("kind") != "video" or row["decoder"] not in COUPLINGS:
            continue
        settings: dict[str, object] = {"window": row["window"], "coupling": COUPLINGS[row["decoder"]]}
        yield Tradeoff(
            kind="video",
            method="scd",
            setting=f"{row['decoder']}, window {row['window']}",
            speed=row["time_ratio"],
            speed_low=row["time_ratio"] - row["time_ratio_error"],
            speed_high=row["time_ratio"] + row["time_ratio_error"],
            exact=_is_exact("scd", settings),
            model="studio-video",
            source="python -m benchmarks.video",
            settings=tuple(settings.items()),
            **_place(result),
        )


def _in_lockstep(result: Mapping[str, Any], place: Mapping[str, Any], graded: Mapping[str, Any]) -> Iterator[Tradeoff]:
    """Pictures decoded together: what lockstep brought each decoder was measured against itself alone."""
    rates: dict[str, tuple[int, float]] = {}
    for claim in result.get("claims", ()):
        named, told = _LOCKSTEP.fullmatch(claim["name"]), _RATE.match(claim["reason"])
        if named and told:
            rates[named[1]] = (int(named[2]), float(told[1]))
    _, usual = rates.pop("vanilla", (0, 0.0))
    for name, (batch, rate) in rates.items():
        if not usual or name not in COUPLINGS:
            continue
        settings: dict[str, object] = {"coupling": COUPLINGS[name], "window": 32}
        yield Tradeoff(
            kind="picture",
            method="scd",
            setting=f"{name}, window 32",
            speed=rate / usual,
            **_pictures_beside(graded.get(name), graded.get("vanilla")),
            exact=_is_exact("scd", settings),
            model="studio-image",
            source="python -m benchmarks.speed",
            settings=tuple(settings.items()),
            **{**place, "batch": batch},
        )


def _pictures_beside(own: Mapping[str, Any] | None, usual: Mapping[str, Any] | None) -> dict[str, Any]:
    if own is None or usual is None:
        return {}
    return {
        "change": own["all_three_percent"] - usual["all_three_percent"],
        "error": hypot(own["all_three_error"], usual["all_three_error"]),
        "quality": f"{_PICTURES}, {own['pictures']} of each",
    }


def _drafted(folder: Path) -> Iterator[Tradeoff]:
    """Speculative decoding with a small model or with look-up."""
    result = _read(folder, "drafting")
    usual = {row["model"]: row for row in _rows(result) if row["method"] == "ar"}
    for row in _rows(result):
        if "faster_median" not in row or row["model"] not in usual:
            continue
        base = usual[row["model"]]
        text = "accuracy" in row
        settings: dict[str, object] = {"drafter": row["drafter"], "gamma": row["gamma"]}
        by = "look-up" if row["drafter"] == "lookup" else "a small model"
        graded: dict[str, Any] = {}
        if text:
            graded = {
                "change": 100 * (row["accuracy"] - base["accuracy"]),
                "error": 100 * hypot(row["accuracy_standard_error"], base["accuracy_standard_error"]),
                "quality": f"right answers, {row['problems']} problems",
            }
        yield Tradeoff(
            kind="text" if text else "picture",
            method="speculative",
            setting=f"drafts by {by}, gamma {row['gamma']}",
            **_spread(row),
            **graded,
            exact=_is_exact("speculative", {"gamma": row["gamma"]}),
            model=row["model"],
            source="python -m benchmarks.drafting",
            drafting=_drafting(base["nfe"], row),
            settings=tuple(settings.items()),
            **_place(result),
        )


def _drafting(ordinary: float, row: Mapping[str, Any]) -> Drafting | None:
    cost = row.get("cost_of_a_draft")
    if cost is None:
        return None
    return Drafting(
        ordinary_passes=ordinary, target_passes=row["target_passes"], draft_passes=row["draft_passes"], cost=cost
    )


def _continuous(folder: Path) -> Iterator[Tradeoff]:
    """CSpD on patches; quality was measured for whole paths, of any draft length, since they are exact."""
    result, patches = _read(folder, "continuous"), _read(folder, "patches")
    graded = {row["decoder"]: row for row in _rows(patches) if row.get("guidance", 1) == 1}  # as what was timed
    beside = _pictures_beside(graded.get("CSpD whole paths"), graded.get("target"))
    for row in _rows(result):
        tokens = row["tokens_per_verification"] * (row["target_calls"] - 1)  # the first call judges nothing
        network = row["share_draft"] * row["seconds"] / row["draft_calls"]
        cost = network / (row["seconds_ordinary"] / tokens)
        chosen = {name: row[name] for name in ("drafter", "verdict") if row.get(name)}
        yield Tradeoff(
            kind="continuous",
            method=row["method"],
            setting=", ".join(f"{name} {value}" for name, value in {"gamma": row["gamma"], **chosen}.items()),
            **_spread(row),
            **beside,
            exact=_is_exact(row["method"], {"gamma": row["gamma"], **chosen}),
            model=row["model"],
            source="python -m benchmarks.continuous",
            drafting=Drafting(
                ordinary_passes=tokens, target_passes=row["target_calls"], draft_passes=row["draft_calls"], cost=cost
            ),
            settings=(("gamma", row["gamma"]), *chosen.items()),
            **{**_place(result), "batch": row["batch"]},
        )


def _swept(folder: Path) -> Iterator[Tradeoff]:
    """Texts: sweeps of many problems with known answers, problem beside problem."""
    for name in SWEEPS:
        path = folder / f"{name}.jsonl.gz"
        try:
            groups = gathered(read_results(path.read_bytes()).rows)
        except (OSError, SweepError):
            continue
        usual = next((group for group in groups if group.label == "ordinary"), None)
        if usual is not None:
            yield from (_beside(group, usual, name) for group in groups if group is not usual and _alike(group, usual))


def _alike(group: Group, usual: Group) -> bool:
    """Whether both take the likeliest token, or both draw: accuracies of the two do not compare."""
    return group.config.get("mode") == usual.config.get("mode")


def _beside(group: Group, usual: Group, sweep: str) -> Tradeoff:
    base = {row.problem: row for row in usual.rows}
    pairs = [(row, base[row.problem]) for row in group.rows if row.problem in base]
    faster = [_per_token(other) / _per_token(own) for own, other in pairs if _per_token(own)]
    low, _, high = quantiles(faster, n=4)
    right, usually = group.shares(), usual.shares()
    off = estimate([100 * (right[problem] - usually[problem]) for problem in right.keys() & usually.keys()])
    return Tradeoff(
        kind="text",
        method=group.method,
        setting=group.label,
        speed=median(faster),
        speed_low=low,
        speed_high=high,
        change=off.mean,
        error=off.error,
        quality=f"right answers, {group.problems} problems",
        exact=_is_exact(group.method, group.config),
        model=group.model,
        batch=max(row.batch for row in group.rows),
        hardware=group.rows[0].device,
        source=f"python -m benchmarks.sweep benchmarks/grids/{sweep}.json",
        settings=tuple(group.config.items()),
    )


def _per_token(row: ResultRow) -> float:
    return row.seconds / row.tokens if row.tokens else 0.0


def _is_exact(method: str, settings: Mapping[str, object]) -> bool:
    """Whether a method claims, and its tests prove, that the output follows the model's own distribution."""
    if method not in METHODS:
        return False
    own = METHODS[method]
    try:
        return not own.deviation(make_config(own.config, dict(settings)))
    except ConfigError:
        return False


def _spread(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "speed": row["faster_median"],
        "speed_low": row["faster_low_quartile"],
        "speed_high": row["faster_high_quartile"],
    }


def _place(result: Mapping[str, Any]) -> dict[str, Any]:
    return {"hardware": str(result.get("environment", {}).get("device", "")), "batch": 1}


def _rows(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [row for row in result.get("rows", ()) if isinstance(row, dict)]


def _read(folder: Path, name: str) -> Mapping[str, Any]:
    try:
        found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
