"""Running the experiment of a file in several processes, with the results in another file, as a command does."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO

from tqdm import tqdm
from transformers.utils import logging

from analysis.groups import gathered
from cli.streams import FULL, STANDARD, output_file
from draftscope.experiments.definition import Experiment, ProblemSet
from draftscope.experiments.executors import Processes
from draftscope.experiments.problems import bundled_problems
from draftscope.experiments.run import run_experiment
from draftscope.experiments.stores import JsonlStore
from engines.settings import ConfigError

DONE, INTERRUPTED = 0, 130
REPORT_SECONDS: Final = 30
"""Between two lines of progress where there is no terminal."""


def run_grid_file(
    path: str, output: str, *, jobs: int = -1, batch_size: int = 1, num_problems: int | None = None, device: str = ""
) -> int:
    """Run the experiment of a file; run again, it resumes, and a larger experiment adds what is missing.

    Progress goes to standard error, a line per arm to standard output.

    Args:
        path: JSON or TOML file as docs/benchmarks.md describes it; "-" is standard input.
        output: Results, .jsonl or .jsonl.gz; "-" is standard output.
        jobs: Number of processes; -1 for one per core.
        batch_size: Problems that a process decodes in one batch.
        num_problems: The first problems of the bundled ones, in place of the number in the file.
        device: Device of the models; empty for the best available.

    Returns:
        Exit code: 0 done, 74 output not written, 130 interrupted.

    Raises:
        ConfigError: For an invalid file, option, setting or prompt, before anything runs.
        SweepError: If the output cannot be resumed.
        ModelError: If a model cannot be loaded.
    """
    logging.disable_progress_bar()  # of loading weights
    experiment = replace(Experiment.read(path), device=device or None)
    if num_problems is not None:
        experiment = replace(experiment, prompts=_first_problems(experiment, num_problems))
    executor = Processes(jobs, batch_size)
    with output_file(output, ".jsonl") as results:
        store = JsonlStore(results, {"grid": Path(path).name, "jobs": executor.num_processes})
        code = _run(experiment, store, executor)
        if code == DONE:
            _summarize(store, experiment, sys.stderr if output == STANDARD else sys.stdout)
        return code


def _first_problems(experiment: Experiment, count: int) -> ProblemSet:
    available = len(bundled_problems(experiment.model).prompts)
    if not experiment.problems.answers:
        raise ConfigError("problems: the experiment has prompts, not problems; leave the option out.")
    if not 1 <= count <= available:
        raise ConfigError(f"problems: {count} is not valid; there are {available}.")
    return bundled_problems(experiment.model, count)


def _run(experiment: Experiment, store: JsonlStore, executor: Processes) -> int:
    messages = run_experiment(experiment, store=store, executor=executor)
    first = next(messages)
    left = first.num_runs - first.num_done
    print(f"{left} runs to go, {len(store.rows)} are there already", file=sys.stderr)
    resume = "rows are kept; the same command resumes"
    try:
        with tqdm(total=left, unit="run", mininterval=0.1 if sys.stderr.isatty() else REPORT_SECONDS) as bar:
            for progress in messages:
                bar.update(progress.finished is not None)
    except KeyboardInterrupt:
        print(f"stopped; {len(store.rows)} {resume}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = f"cannot be written ({error.strerror}); make room: {len(store.rows)} {resume}"
        print(f"output: {store.path} {reason}", file=sys.stderr)
        return FULL
    return DONE


def _summarize(store: JsonlStore, experiment: Experiment, file: TextIO) -> None:
    """Print a line per arm."""
    labels = {arm.label for arm in experiment.arms}
    for group in gathered([row for row in store.rows.values() if row.label in labels], judged=False):
        error = f" ± {100 * group.accuracy_error:.1f}" if group.accuracy_error is not None else ""
        correct = f"{100 * group.accuracy:.1f}{error} % right on {group.problems} problems, "
        speed = group.total("tokens") / group.total("forwards")
        milliseconds = 1000 * group.total("seconds") / group.total("tokens")
        print(
            f"{group.label}: {correct if experiment.problems.answers else ''}"
            f"{speed:.2f} tokens per forward, {milliseconds:.2f} ms per token",
            file=file,
        )
