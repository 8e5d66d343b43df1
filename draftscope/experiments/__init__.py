"""Experiments: every arm (a method with settings) on every prompt with every seed.

The grid, the seed table and the experiments of the page, `draftscope bench` and sweeps over held-out problems are
experiments: definition.py defines the runs, executors.py schedules them, stores.py keeps the results.
"""

from draftscope.experiments.cluster import Cluster
from draftscope.experiments.definition import Arm, Experiment, PlannedRun, ProblemSet, Runner
from draftscope.experiments.executors import Batched, Executor, Processes, RunOutcome, Serial
from draftscope.experiments.run import Progress, run_experiment
from draftscope.experiments.stores import JsonlStore, MemoryStore, ResultStore

__all__ = [
    "Arm",
    "Batched",
    "Cluster",
    "Executor",
    "Experiment",
    "JsonlStore",
    "MemoryStore",
    "PlannedRun",
    "ProblemSet",
    "Processes",
    "Progress",
    "ResultStore",
    "RunOutcome",
    "Runner",
    "Serial",
    "run_experiment",
]
