"""Table that compares runs: one row per request, with means and standard errors over its seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from draftscope.analysis.hardware import HardwareError, Machine, predict
from draftscope.analysis.oracle import oracle_savings
from draftscope.analysis.paired import Paired
from draftscope.analysis.seeds import estimate, paired_by_seed, seconds, target_forwards
from draftscope.analysis.tables import table
from draftscope.traces.labels import is_baseline, labels
from draftscope.traces.schema import Trace
from draftscope.traces.stats import draft_forwards
from draftscope.visualizers.export_zip.words import command
from draftscope.visualizers.figures.paired import paired_groups
from draftscope.visualizers.tables import as_csv, table_files

Number: TypeAlias = Callable[[Trace], float | None]
Columns: TypeAlias = tuple[Mapping[str, Number], Mapping[str, Number], str]
"""Columns of a run, columns given as baseline/run ratios, and a note on computed values."""
_SAVED: Final = "Avoidable work (%)"
_BEST: Final = (
    f" {_SAVED[:-4]}: the share of passes, drafts or rows that would not have been spent if all outcomes had been "
    "known (figure hindsight)."  # plain: ignore
)
_NUMBERS: Final[Mapping[str, Number]] = {
    "Tokens": lambda trace: float(trace.summary.tokens),
    "Target passes": target_forwards,
    "Draft passes": lambda trace: float(draft_forwards(trace.steps)),
    "Tokens per target pass": lambda trace: (
        trace.summary.tokens / baseline if (baseline := target_forwards(trace)) else None
    ),
    "Query tokens": lambda trace: float(trace.summary.query_tokens),
    "Acceptance": lambda trace: trace.summary.acceptance,
    "Seconds": seconds,
    _SAVED: lambda trace: 100 * choices.saved if (choices := oracle_savings(trace)) else None,
}


def _per_token(of: Number) -> Number:
    """Return a number for every token, as runs may differ in length."""
    return lambda trace: (
        value / trace.summary.tokens if trace.summary.tokens and (value := of(trace)) is not None else None
    )


_PAIRED: Final = ("Times as fast", "Times the tokens per target pass", "Target passes", "Seconds")
"""Columns of the paired comparison, by the names of `analysis.paired.compared`."""
_INTERVALS: Final = (
    "Compared with {base}, run by run with the same prompt and seed: means of ratios and of differences, with 95 % "
    "intervals of Student over {units}."
)
_UNITS: Final = {
    "seed": "the seeds",
    "prompt": "the prompts, the seeds of each averaged first",
}
_RATIOS: Final = {"Times the tokens per target pass": _per_token(target_forwards), "Times as fast": _per_token(seconds)}
"""Columns given as the baseline's value divided by the run's."""


@dataclass(frozen=True, slots=True)
class Group:
    """Runs of one request, which differ in nothing but their seeds."""

    name: str
    runs: tuple[Trace, ...]

    def over(self, base: "Group", of: Number) -> list[float]:
        """The baseline's numbers over these, seed by seed; of other seeds, those of the means."""
        if not all(trace.summary.complete for trace in (*self.runs, *base.runs)):
            return []
        if pairs := paired_by_seed(base.runs, self.runs, of):
            return [baseline / accelerated for baseline, accelerated in pairs.values() if accelerated]
        baseline, accelerated = (_known(group.runs, of) for group in (base, self))
        return (
            [estimate(baseline).mean / estimate(accelerated).mean]
            if baseline and accelerated and any(accelerated)
            else []
        )


def comparison_table(traces: Sequence[Trace], machine: Machine | None = None) -> dict[str, Any]:
    """Return the value of a data table, with the same data as files; the CSV has one row per run with all its settings.

    Args:
        traces: Runs to compare.
        machine: Hardware for which times are also computed.
    """
    if not traces:
        return {}
    groups, columns = _groups(traces), _columns(traces, machine)
    run_columns, over, extra_columns = columns
    prompts = len({group.runs[0].prompt for group in groups}) > 1
    rows = []
    for group in groups:
        base = _baseline(group, groups)
        ratios = [_mean_text(group.over(base, of)) for of in over.values()]
        numbers = [_mean_text(_known(group.runs, of)) for of in run_columns.values()]
        name = f"{group.name}{' (baseline)' if group is base else ''}"
        rows.append([name, *([group.runs[0].prompt] if prompts else []), *numbers, *ratios])
    heads = ["Run", *(["Prompt"] if prompts else []), *run_columns, *over]
    used_columns = [k for k in range(len(heads)) if any(row[k] for row in rows)]
    heads, rows = [heads[k] for k in used_columns], [[row[k] for k in used_columns] for row in rows]
    base = _baseline(groups[0], groups)
    baseline = is_baseline(base.runs[0])
    words = (
        f"Baseline: {base.name[:1].lower()}{base.name[1:]}."
        if baseline
        else (f"Baseline: {base.name}, the first selected run; select ordinary decoding to compare with it.")
    )
    best = _BEST if _SAVED in heads else ""
    means = " Of several seeds, means ± standard errors." if len(traces) > len(groups) else ""
    files = table_files("runs", heads, rows) | {"runs.csv": _csv(groups, columns)}
    return table(heads, rows, note=words + best + means + extra_columns) | {"files": files}


def paired_table(traces: Sequence[Trace]) -> dict[str, Any]:
    """Return the value of a data table that compares ways of decoding pair by pair; nothing without two pairs.

    Args:
        traces: Runs that differ in method or settings, prompt and seed.
    """
    base, groups = paired_groups(traces)
    rows, units = list[list[str]](), ""
    for name, found in groups.items():
        units = max((each for each in found.values()), key=lambda each: each.units).unit
        times = found.get("Times as fast")
        cells = [_interval_text(found.get(head), ratio=head.startswith("Times")) for head in _PAIRED]
        rows.append([name, str(max(each.pairs for each in found.values())), *cells, _verdict(times)])
    if not rows:
        return {}
    heads = ["Run", "Pairs", *_PAIRED, "Time"]
    note = _INTERVALS.format(base=base[:1].lower() + base[1:], units=_UNITS[units])
    return table(heads, rows, note=note) | {"files": table_files("paired", heads, rows)}


def _interval_text(found: Paired | None, *, ratio: bool) -> str:
    """Return a mean with its interval in brackets."""
    if found is None:
        return ""
    ends = [] if found.low is None or found.high is None else [found.low, found.high]
    if ratio:
        texts = [f"{value:.2f}" for value in (found.mean, *ends)]
        texts[0] += "×"
    else:
        digits = max(0, 2 - len(f"{max(map(abs, (found.mean, *ends))):.0f}"))
        texts = [f"{value:+,.{digits}f}".replace("-", "−") for value in (found.mean, *ends)]
    return f"{texts[0]} ({texts[1]} to {texts[2]})" if ends else texts[0]


def _verdict(times: Paired | None) -> str:
    if times is None or times.differs is None:
        return ""
    return ("faster" if times.mean > 1 else "slower") if times.differs else "no difference shown"


def files(traces: Sequence[Trace], machine: Machine | None = None) -> dict[str, bytes]:
    """The files of their table, for a zip."""
    return {name: text.encode() for name, text in comparison_table(traces, machine).get("files", {}).items()}


def baseline_first(traces: Sequence[Trace]) -> list[int]:
    """Return the indices of runs in display order: the baseline first, then as selected."""
    return sorted(range(len(traces)), key=lambda k: not is_baseline(traces[k]))


def _columns(traces: Sequence[Trace], machine: Machine | None) -> Columns:
    if machine is None:
        return _NUMBERS, _RATIOS, ""
    try:
        took = {id(trace): predict(trace, machine) for trace in traces}
    except HardwareError as error:
        return _NUMBERS, _RATIOS, f" Nothing is computed for other hardware: {error}"

    def computed(trace: Trace) -> float:
        return took[id(trace)].seconds

    device, networks = machine.device.name, machine.target.name
    if machine.draft and any(step.call.role == "draft" for trace in traces for step in trace.steps):
        networks += f", drafts by {machine.draft.name}"
    notes = dict.fromkeys(one.note for one in took.values() if one.note)
    note = f" Computed, not measured: {device}, {machine.engine.name}, {networks}, batch {machine.batch}."
    note = " ".join([note, *notes])
    named = {f"Seconds, computed for {device}": computed}
    return {**_NUMBERS, **named}, {**_RATIOS, "Times as fast, computed": _per_token(computed)}, note


def _groups(traces: Sequence[Trace]) -> list[Group]:
    by_key: dict[tuple[tuple[object, ...], str, bool], list[Trace]] = {}
    settings: dict[tuple[object, ...], Trace] = {}
    for trace in traces:
        config = sorted((name, repr(value)) for name, value in trace.config.items())
        key: tuple[object, ...] = (trace.method, trace.variant, trace.model.id, *config)
        settings.setdefault(key, replace(trace, seed=0))
        by_key.setdefault((key, trace.prompt, trace.summary.complete), []).append(trace)
    names = dict(zip(settings, labels(list(settings.values())), strict=True))
    groups = []
    for (group_key, _, complete), runs in by_key.items():
        several = f", {len(runs)} seeds" if len(runs) > 1 else ""
        groups.append(Group(f"{names[group_key]}{several}{'' if complete else ' (stopped)'}", tuple(runs)))
    return groups


def _baseline(group: Group, among: Sequence[Group]) -> Group:
    """Ordinary decoding, if it can be of the same prompt and model; else the first."""
    baselines = [one for one in among if is_baseline(one.runs[0])] or [among[0]]
    first_run = group.runs[0]
    alike = [
        one for one in baselines if (one.runs[0].prompt, one.runs[0].model.id) == (first_run.prompt, first_run.model.id)
    ]
    return (alike or baselines)[0]


def _known(traces: Sequence[Trace], of: Number) -> list[float]:
    return [value for trace in traces if (value := of(trace)) is not None]


def _mean_text(values: Sequence[float]) -> str:
    if not any(values):
        return ""
    return f"{values[0]:,.0f}" if set(values) == {int(values[0])} else str(estimate(values))


def _csv(groups: Sequence[Group], columns: Columns) -> str:
    """Return one CSV row per run; requests with several seeds repeat their mean and standard error in every row."""
    settings = list(dict.fromkeys(name for group in groups for trace in group.runs for name in trace.config))
    several, (run_columns, over, _) = any(len(group.runs) > 1 for group in groups), columns
    heads = ["run", "prompt", "seed", "model", "method", *(f"set.{name}" for name in settings), "complete"]
    heads += [*map(_column, (*run_columns, *over)), "baseline"]
    heads += ["runs"] if several else []
    for name in (*run_columns, *over) if several else ():
        heads += [f"{_column(name)}_mean", f"{_column(name)}_standard_error"]
    rows = []
    for group in groups:
        base = _baseline(group, groups)
        spread = [_known(group.runs, of) for of in run_columns.values()]
        spread += [group.over(base, of) for of in over.values()]
        means: list[object] = []
        for values in spread:
            means += [estimate(values).mean, estimate(values).error] if values else [None, None]
        for trace in group.runs:
            alone = Group(group.name, (trace,))
            about = [group.name, trace.prompt, trace.seed, trace.model.id, trace.method]
            numbers = [of(trace) for of in run_columns.values()]
            ratios = [next(iter(alone.over(base, of)), None) for of in over.values()]
            setting_values = [trace.config.get(name) for name in settings]
            line = [*about, *setting_values, trace.summary.complete, *numbers, *ratios, base.name]
            rows.append([*line, *([len(group.runs), *means] if several else []), command(trace)])
    return as_csv([*heads, "command"], rows)


def _column(name: str) -> str:
    return name.lower().replace(",", "").replace("(%)", "percent").replace(" ", "_")
