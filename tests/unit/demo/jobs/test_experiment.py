"""Experiments of the page."""

from benchmarks._toy_runs import decode_toy_raster
from draftscope.demo.jobs.experiment import (
    run_here,
    selected_experiment,
)
from draftscope.demo.jobs.links import request_from_trace
from draftscope.experiments import MemoryStore


def test_runs_of_an_address_keep_their_prompts_and_seeds() -> None:
    store = MemoryStore()
    requests = [request_from_trace(decode_toy_raster("scd", seed, window=8)) for seed in (3, 3, 4)]
    assert all(requests)
    list(run_here(selected_experiment([one for one in requests if one]), store, lambda: False))
    assert [trace.seed for trace in store.traces] == [3, 3, 4]  # also one that an address names twice
