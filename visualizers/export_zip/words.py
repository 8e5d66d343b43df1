"""Texts of a zip: what each figure shows, which runs it draws, and the commands that reproduce them."""

import json
import re
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Final

import plotly.graph_objects as go

from draftscope.traces.labels import method_name
from draftscope.traces.schema import Trace
from draftscope.traces.stats import draft_forwards
from draftscope.visualizers.export_zip.table import worded
from draftscope.visualizers.figure import Figure

_UNPLAIN: Final = re.compile(r"[^a-z0-9]+")
_MAX_NAMED: Final = 3
_WORD: Final = 24


def command(trace: Trace, output: str = "") -> str:
    """Return the command line that repeats a run.

    Args:
        trace: The run.
        output: File that it writes; by default one that is named after the method.
    """
    parts = ["draftscope run", quote(trace.method), "--model", quote(trace.model.id)]
    if trace.prompt:
        parts += ["--prompt", quote(trace.prompt)]
    parts += _chat_options(trace.extensions.get("draftscope"))
    if trace.seed is not None:
        parts += ["--seed", str(trace.seed)]
    for name, value in trace.config.items():
        parts += ["--set", quote(f"{name}={value}")]
    return " ".join([*parts, "-o", quote(output or f"{trace.method}.json.gz")])


def _chat_options(recorded: object) -> list[str]:
    """Return the options by which the prompt was put to a language model; none where a trace records others."""
    about = recorded if isinstance(recorded, Mapping) else {}
    chat, system, template = about.get("chat"), about.get("system"), about.get("template")
    options = [] if not isinstance(chat, bool) else ["--chat" if chat else "--no-chat"]
    if isinstance(system, str):
        options += ["--system", quote(system)]
    for name, value in template.items() if isinstance(template, Mapping) else ():
        if name != "date":  # which the template reads
            options += ["--template", quote(f"{name}={json.dumps(value, ensure_ascii=False)}")]
    return options


def file_stem(traces: Sequence[Trace], figure: str = "") -> str:
    """Return a file's name without ending: methods, figure, seeds. No text of a trace becomes a path as it is.

    Args:
        traces: Runs in the file.
        figure: Name of the figure; empty for none.
    """
    methods = list(dict.fromkeys(_slug(trace.method) for trace in traces))
    named = methods if len(methods) <= _MAX_NAMED else [f"{len(methods)}-methods"]
    seeds = sorted({trace.seed for trace in traces if trace.seed is not None})
    end = [f"seed{seeds[0]}"] if len(seeds) == 1 else [f"{len(seeds)}-seeds"] if seeds else []
    return "-".join([*named, *([_slug(figure)] if figure else []), *end]) or "figure"


def caption(figures: Sequence[tuple[str, Figure, go.Figure]], traces: Sequence[Trace], files: Sequence[str]) -> str:
    """Return what the figures show and what was run, as text to start a caption from.

    Args:
        figures: File name, figure, and what it drew.
        traces: Runs that they were drawn from.
        files: File name of each run; empty for the name of its method.
    """
    parts = []
    for name, figure, drawn in figures:
        subtitle = worded(drawn.layout.title.subtitle.text)
        answers = f" Answers to {figure.paper}." if figure.paper else ""
        subtitle = f"{subtitle}. " if subtitle else ""
        title = worded(drawn.layout.title.text) or figure.title
        parts.append(f"{name}\n  {title}. {subtitle}{figure.caption}{answers}{_key(drawn)}")
    runs = [f"{file or method_name(trace)}\n  {_run(trace)}" for trace, file in zip(traces, files, strict=True)]
    return "\n".join([*(["Figures", "", *parts, ""] if parts else []), "Runs", "", *runs, ""])


def _key(drawn: go.Figure) -> str:
    """Return the entries of the legend that explain a mark: a narrow figure keeps only their first word."""
    names = dict.fromkeys(worded(trace.name) for trace in drawn.data if trace.showlegend is not False)
    meanings = [name for name in names if name and ": " in name]
    return f" Marks: {'; '.join(meanings)}." if meanings else ""


def _run(trace: Trace) -> str:
    """Return what was run, what it took and where, in sentences."""
    summary, environment = trace.summary, trace.environment
    seed = "" if trace.seed is None else f", seed {trace.seed}"
    prompt = f", prompt {trace.prompt!r}" if trace.prompt else ""
    settings = ", ".join(f"{name} {value}" for name, value in trace.config.items())
    drafted = draft_forwards(trace.steps)
    both = f"{summary.forwards - drafted} target passes and {drafted} draft passes"
    passes = both if drafted else f"{summary.forwards} passes"
    stopped = "" if summary.complete else " The run was stopped before its end."
    accepted = (
        "" if summary.acceptance is None else f", {summary.accepted} of {summary.judged} verified drafts accepted"
    )
    took = (
        f", {summary.seconds:.3f} s in one run on {environment.device}, {environment.dtype}" if summary.seconds else ""
    )
    return (
        f"{method_name(trace)} on {trace.model.title or trace.model.id}{prompt}{seed}. Settings: {settings or 'none'}. "
        f"{summary.tokens} tokens in {passes}{accepted}{took}.{stopped} Recorded {trace.created}, "
        f"commit {environment.commit or 'unknown'}."
    )


def commands(traces: Sequence[Trace], names: Sequence[str], again: str) -> str:
    """Return a script that makes every run, and then the zip.

    Args:
        traces: Runs in the zip.
        names: File name of each run, without folder and ending.
        again: Command line that makes the zip from the runs.
    """
    lines = [command(trace, f"traces/{name}.json.gz") for trace, name in zip(traces, names, strict=True)]
    head = ["#!/bin/sh", "# The runs. A trace that this program did not record cannot be made again by it."]
    return "\n".join([*head, *lines, "", "# The figures, from the traces in this folder.", again, ""])


def _slug(text: str) -> str:
    return _UNPLAIN.sub("-", text.lower())[:_WORD].strip("-") or "run"
