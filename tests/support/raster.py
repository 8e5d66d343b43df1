"""Finished runs of the toy raster, which needs no weights and takes a fraction of a second."""

from functools import cache

from engines.config import make_config
from engines.methods import METHODS
from engines.models.catalog import load_model
from engines.runtime.driver import Job
from engines.testing.conformance import finish
from traces import Trace

MODEL = "toy-raster"


def job(method: str, seed: int = 0, **settings: object) -> Job:
    chosen = METHODS[method]
    return Job(chosen, load_model(MODEL), "", make_config(chosen.config, settings), seed)


@cache
def decoded(method: str, seed: int = 0, **settings: object) -> Trace:
    return finish(job(method, seed, **settings))
