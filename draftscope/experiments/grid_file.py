"""Running the experiment of a file in several processes, with the results in another file."""

import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TextIO

from tqdm import tqdm
from transformers.utils import logging

from draftscope.analysis.groups import gathered
from draftscope.cli.errors import DONE, INTERRUPTED, NOT_WRITTEN
from draftscope.engines.settings import ConfigError
from draftscope.experiments.cluster import Cluster
from draftscope.experiments.definition import Experiment
from draftscope.experiments.executors import Processes
from draftscope.experiments.problems import bundled_problems, problems_of
from draftscope.experiments.run import run_experiment
from draftscope.experiments.stores import JsonlStore

REPORT_SECONDS: Final = 30
"""Between two lines of progress where there is no terminal."""


def run_grid_file(
    path: str,
    output: Path,
    *,
    executor: Processes | Cluster,
    num_problems: int | None = None,
    device: str | None = None,
    summary: TextIO = sys.stdout,
) -> int:
    """Run the experiment of a file. Run again, it resumes, and a larger experiment adds what is missing.

    Args:
        path: JSON or TOML file as docs/benchmarks.md describes it; "-" is standard input.
        output: File for the results, .jsonl or .jsonl.gz. Progress goes to standard error.
        executor: Processes of this machine, or a cluster.
        num_problems: Use the first problems, in place of the number in the file.
        device: Device of the models; None for the best available.
        summary: Where a line per arm is written at the end.

    Returns:
        Exit code: 0 done, 74 output not written, 130 interrupted.

    Raises:
        ConfigError: For an invalid file, option, setting or prompt, before anything runs.
        SweepError: If the output cannot be resumed.
        ModelError: If a model cannot be loaded.
    """
    if isinstance(executor, Processes) and find_spec("joblib") is None:
        raise ConfigError("joblib: is not installed; pip install joblib")
    logging.disable_progress_bar()  # of loading weights
    experiment = replace(Experiment.read(path), device=device)
    if num_problems is not None:
        available = len(problems_of(experiment.model)) if experiment.problems.answers else 0
        if not 1 <= num_problems <= available:
            raise ConfigError(f"problems: {num_problems} is not valid; there are {available}")
        experiment = replace(experiment, prompts=bundled_problems(experiment.model, num_problems))
    store = JsonlStore(output, {"grid": Path(path).name, **executor.about})
    code = _run(experiment, store, executor)
    if code == DONE:
        _summarize(experiment, store, summary)
    return code


def _run(experiment: Experiment, store: JsonlStore, executor: Processes | Cluster) -> int:
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
        value = f"{len(store.rows)} rows are kept; the same command resumes"
        sys.stderr.write(f"-o: {store.path} cannot be written ({error.strerror}); make room: {value}\n")
        return NOT_WRITTEN
    return DONE


def _summarize(experiment: Experiment, store: JsonlStore, summary: TextIO) -> None:
    """Write a line per arm."""
    labels = {arm.label for arm in experiment.arms}
    for group in gathered([row for row in store.rows.values() if row.label in labels], judged=False):
        error = f" ± {100 * group.accuracy_error:.1f}" if group.accuracy_error is not None else ""
        correct = f"{100 * group.accuracy:.1f}{error} % right on {group.problems} problems, "
        speed = group.total("tokens") / group.total("forwards")
        milliseconds = 1000 * group.total("seconds") / group.total("tokens")
        summary.write(
            f"{group.label}: {correct if experiment.problems.answers else ''}"
            f"{speed:.2f} tokens per forward, {milliseconds:.2f} ms per token\n"
        )
