"""Names of runs, used on the page, in figures, tables and animations."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from draftscope.traces.schema import Trace

ORDINARY: Final = "Ordinary decoding"
NAMES: Final[tuple[tuple[str, Mapping[str, str], str], ...]] = (
    ("ar", {}, ORDINARY),
    ("continuous", {"tokens_per_step": "1"}, ORDINARY),
    ("continuous", {}, "Masked generation"),
    ("blockwise", {"block": "1", "cache": "exact"}, ORDINARY),
    ("blockwise", {}, "Block diffusion"),
    ("speculative", {}, "Speculative decoding"),
    ("scd", {"coupling": "maximal", "same_noise": "false"}, "MC-SJD"),
    ("scd", {"coupling": "gumbel", "same_noise": "false"}, "GS-SJD"),
    ("scd", {"coupling": "none", "same_noise": "false"}, "SJD"),
    ("scd", {}, "SJD, same noise"),
    ("gsd", {}, "GSD"),
    ("cspd", {"mode": "paper"}, "CSpD"),
    ("cspd", {"mode": "exact", "coupled_steps": "0"}, "CSpD, exact (ours)"),
    ("cspd", {"mode": "exact"}, "CSpD, tied steps (ours)"),
    ("cspd", {}, "CSpD, distances alone (ours)"),
    ("cspd-block", {}, "CSpD, whole paths (ours)"),
    ("cspd-release", {}, "CSpD as released"),
    ("s2d2", {}, "S2D2"),
    ("self-spec", {}, "Self-speculation in one pass"),
    ("editing", {}, "Token editing"),
    ("simsd", {"draft_threshold": "1"}, "SimSD"),
    ("simsd", {}, "SimSD, shared passes (ours)"),
    ("psd", {"row_cost": "0"}, "PSD"),
    ("psd", {}, "PSD, rows that pay (ours)"),
    ("lopa", {}, "LoPA"),
    ("ete-style", {}, "ETE-style"),
    ("fdm-style", {}, "FDM-style"),
)
"""Method, settings and name of a run that has them; the first that fits counts, and a setting that is missing fits."""
MODEL_NAMES: Final = {"smollm2": "SmolLM2-135M", "smollm2-block": "SmolLM2-135M in blocks"}
"""Short names of models, by id."""


def method_name(trace: Trace) -> str:
    """The name by which the field knows what a run did; of a method that is not ours, its own."""
    return trace.variant or name_for(trace.method, trace.config)


def run_title(trace: Trace) -> str:
    """Return the name of a run on its own: method, model and seed."""
    seed = "" if trace.seed is None else f", seed {trace.seed}"
    return f"{method_name(trace)} on {trace.model.title or trace.model.id}{seed}"


def name_for(method: str, config: Mapping[str, object]) -> str:
    """Return the name of a method under settings, for labels.

    Args:
        method: Name in the registry, such as "scd".
        config: Settings by name; some of them make a method another one, such as ordinary decoding.
    """
    return _rule(method, config)[1]


def is_baseline(trace: Trace) -> bool:
    """Whether a run decoded the ordinary way: one token after the other, without drafts."""
    return method_name(trace) == ORDINARY


def _rule(method: str, config: Mapping[str, object]) -> tuple[Mapping[str, str], str]:
    """The settings that give a method its name, and the name."""
    for known, values, name in NAMES:
        if known == method and all(_value(config.get(key, value)) == value for key, value in values.items()):
            return values, name
    return {}, method


def _value(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text.lower() if isinstance(value, bool) else text


COUPLINGS: Final = {value: name_for("scd", {"coupling": value}) for value in ("none", "maximal", "gumbel")}
"""Values of the setting `coupling`, and what papers call a run with each."""


def labels(traces: Sequence[Trace]) -> tuple[str, ...]:
    """Return distinct names of runs: those that share a name get what differs: settings, model, seed; else a number."""
    names, details = [method_name(trace) for trace in traces], [_details(trace) for trace in traces]
    seen: dict[str, dict[str, set[str]]] = {name: {} for name in names}
    for name, values in zip(names, details, strict=True):
        for key, value in values.items():
            seen[name].setdefault(key, set()).add(value)
    apart = [
        [name, *(value for key, value in values.items() if len(seen[name][key]) > 1)]
        for name, values in zip(names, details, strict=True)
    ]
    return tuple(numbered([", ".join(parts) for parts in apart], "{} ({})"))


def _details(trace: Trace) -> dict[str, str]:
    seed = f"seed {'unknown' if trace.seed is None else trace.seed}"
    return settings_of(trace) | {"the model": trace.model.title or trace.model.id, "the seed": seed}


def settings_of(trace: Trace) -> dict[str, str]:
    """Setting -> it in words, its value as JSON has it; without those that the name of the run says."""
    named = {} if trace.variant else _rule(trace.method, trace.config)[0]
    return {name: f"{name} {_value(value)}" for name, value in trace.config.items() if name not in named}


def numbered(names: Sequence[str], form: str) -> list[str]:
    """Return the names, each once: one that was there already gets its number, in the given form."""
    seen: Counter[str] = Counter()
    distinct = []
    for name in names:
        seen[name] += 1
        distinct.append(name if seen[name] == 1 else form.format(name, seen[name]))
    return distinct
