"""`draftscope bench` and `draftscope experiment run`: many runs, compared."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TextIO

from tqdm import tqdm
from typer import Argument, Context, Option, Typer

from draftscope.cli.errors import DONE, INTERRUPTED, NOT_WRITTEN, CommandError
from draftscope.cli.options import (
    Chat,
    Cluster,
    Device,
    Devices,
    Dtype,
    HelpAll,
    Settings,
    System,
    Template,
    parse_assignments,
    parse_variables,
    rare_option,
    reject_unused,
)
from draftscope.cli.streams import output_file, report_unwritable
from draftscope.traces.files import STANDARD

if TYPE_CHECKING:
    from draftscope.experiments import Executor, Experiment, JsonlStore

REPORT_SECONDS: Final = 30
"""Between two lines of progress where there is no terminal."""
_OF_TARGET: Final = ("drafter", "draft_length", "system", "template", "device", "dtype", "cluster")
_OF_SERVER: Final = ("baseline", "baseline_set", "concurrency", "route", "warmup")
app = Typer(help="Run many methods, settings, prompts and seeds.", rich_markup_mode=None)


def bench(
    context: Context,
    prompts: Annotated[str, Option(metavar="FILE", help="Prompts, as JSON lines or a JSON array.")],
    target: Annotated[
        str | None, Option(metavar="ID", help="A model id, a folder or OWNER/NAME.", show_default=False)
    ] = None,
    server: Annotated[
        str | None,
        Option(metavar="URL", help="A running server, in place of --target."),
    ] = None,
    baseline: Annotated[str | None, Option(metavar="URL", help="A server without drafts to compare with.")] = None,
    baseline_set: Annotated[
        list[str] | None,
        rare_option(metavar="NAME=VALUE", help="A field of the baseline's requests alone."),
    ] = None,
    concurrency: Annotated[int, rare_option(metavar="N", help="Requests to a server at a time.")] = 1,
    route: Annotated[
        Literal["chat", "completions", "native"],
        rare_option(help="Route of a server; native is llama.cpp's."),
    ] = "chat",
    warmup: Annotated[int, rare_option(metavar="N", help="Requests to a server that are not counted.")] = 1,
    drafter: Annotated[
        str | None, Option(metavar="ID", help="Model that drafts; default: the target's, if any.")
    ] = None,
    draft_length: Annotated[
        list[int] | None, Option(metavar="N", help="Drafts per pass; may be repeated; default: 4.")
    ] = None,
    repeats: Annotated[int, Option(metavar="N", help="Timed runs per prompt and method.")] = 1,
    limit: Annotated[int | None, Option(metavar="N", help="Use the first N prompts.")] = None,
    seed: Annotated[int, Option(metavar="N", help="Seed of all runs.")] = 0,
    settings: Settings = None,
    chat: Chat = None,
    system: System = None,
    template: Template = None,
    device: Devices = None,
    dtype: Dtype = None,
    table: Annotated[Literal["markdown", "latex"], rare_option(help="Format of the printed table.")] = "markdown",
    output: Annotated[
        str | None, Option("-o", "--output", metavar="FILE", help="Write JSON for the app (Choose).")
    ] = None,
    cluster: Cluster = "",
    help_all: HelpAll = False,
) -> int:
    """Time your models or a running server on your prompts, with and without drafts.

    Runs the methods of Draftscope and `generate` of transformers, or sends requests to a server, where --set gives a
    field of requests.
    """
    _check_options(context, target=target, server=server, baseline=baseline)
    if server is not None:
        from draftscope.cli.served import bench_served

        return bench_served(
            server,
            prompts,
            limit=limit,
            output=output,
            latex=table == "latex",
            baseline=baseline,
            baseline_fields=parse_variables(baseline_set, "--baseline-set") or {},
            fields={"seed": seed} | (parse_variables(settings, "--set") or {}),
            concurrency=concurrency,
            route="completions" if route == "chat" and chat is False else route,
            warmup=warmup,
            repeats=repeats,
        )
    from draftscope.experiments.bench import bench as measure
    from draftscope.experiments.prompt_files import read_prompts

    options: dict[str, Any] = {"device": device, "dtype": dtype, "chat": chat, "system": system}
    options |= {"template": parse_variables(template), "cluster": cluster or None}
    options = {name: value for name, value in options.items() if value is not None}
    options |= {"seed": seed, "progress": True, **parse_assignments(settings or [])}
    texts = read_prompts(prompts)[:limit]
    measured = measure(target, texts, draft=drafter, gammas=draft_length or [4], repeats=repeats, **options)
    print(measured.latex() if table == "latex" else measured.markdown(), end="")
    if output:
        with report_unwritable(output):
            measured.write(output)
    return DONE


def _check_options(context: Context, *, target: str | None, server: str | None, baseline: str | None) -> None:
    """Raise CommandError for options of `bench` that contradict each other or would have no effect."""
    if (target is None) == (server is None):
        raise CommandError("give either --target ID or --server URL.")
    if server is None:
        reject_unused(context, _OF_SERVER, "needs --server; leave it out with --target")
        return
    reject_unused(context, _OF_TARGET, "needs --target; leave it out with --server, which runs its own models")
    if baseline is None:
        reject_unused(context, ["baseline_set"], "needs --baseline; name the server to compare with, or leave it out")
    route = context.params["route"]
    if context.params["chat"] and route != "chat":
        raise CommandError(f"--chat: contradicts --route {route}; give one of them.")


@app.command()
def run(
    file: Annotated[
        str, Argument(metavar="FILE", help="JSON or TOML; benchmarks/grids has examples; - is standard input.")
    ],
    output: Annotated[str, Option("-o", "--output", metavar="FILE", help=".jsonl or .jsonl.gz; - is standard output.")],
    jobs: Annotated[int | None, Option(metavar="N", help="Processes; default: one per core.")] = None,
    batch: Annotated[int, Option(metavar="B", help="Problems a process decodes together.")] = 1,
    problems: Annotated[
        int | None, Option(metavar="N", help="Use the first N problems; default: the number in the file.")
    ] = None,
    device: Device = "",
    cluster: Cluster = "",
) -> int:
    """Run all configurations of a file.

    The same command resumes an interrupted experiment. Bundled problems need a checkout.
    """
    from transformers.utils import logging

    from draftscope.experiments import Cluster as Workers
    from draftscope.experiments import Experiment, JsonlStore, Processes
    from draftscope.experiments.files import with_problems

    if cluster and jobs is not None:
        raise CommandError("--jobs: is for this machine; leave it out with a cluster.")
    executor = Workers(cluster, batch) if cluster else Processes(-1 if jobs is None else jobs, batch)
    logging.disable_progress_bar()  # of loading weights
    experiment = replace(Experiment.read(file), device=device or None)
    if problems is not None:
        experiment = with_problems(experiment, problems)
    with output_file(output, ".jsonl") as path:
        store = JsonlStore(path, {"grid": Path(file).name, **executor.about})
        code = _run_all(experiment, store, executor)
        if code == DONE:
            _summarize(experiment, store, sys.stderr if output == STANDARD else sys.stdout)
    return code


def _run_all(experiment: "Experiment", store: "JsonlStore", executor: "Executor") -> int:
    """Run what the store does not contain, with progress on standard error; return the exit code."""
    from draftscope.experiments import run_experiment

    messages = run_experiment(experiment, store=store, executor=executor)
    left = (first := next(messages)).num_runs - first.num_done
    sys.stderr.write(f"{left} runs to go, {len(store.rows)} are there already\n")
    try:
        with tqdm(total=left, unit="run", mininterval=0.1 if sys.stderr.isatty() else REPORT_SECONDS) as bar:
            for progress in messages:
                bar.update(progress.finished is not None)
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped; {len(store.rows)} rows are kept; the same command resumes\n")
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as error:
        remedy = f"{len(store.rows)} rows are kept; the same command resumes"
        sys.stderr.write(f"-o: {store.path} cannot be written ({error.strerror}); make room: {remedy}\n")
        return NOT_WRITTEN
    return DONE


def _summarize(experiment: "Experiment", store: "JsonlStore", summary: TextIO) -> None:
    """Write a line per arm."""
    from draftscope.analysis.groups import gathered

    labels = {arm.label for arm in experiment.arms}
    for group in gathered([row for row in store.rows.values() if row.label in labels], scored=False):
        error = f" ± {100 * group.accuracy_error:.1f}" if group.accuracy_error is not None else ""
        correct = f"{100 * group.accuracy:.1f}{error} % right on {group.problems} problems, "
        speed = group.total("tokens") / group.total("forwards")
        milliseconds = 1000 * group.total("seconds") / group.total("tokens")
        summary.write(
            f"{group.label}: {correct if experiment.problems.answers else ''}"
            f"{speed:.2f} tokens per forward, {milliseconds:.2f} ms per token\n"
        )
