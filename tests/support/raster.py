"""Finished runs of the toy raster, which needs no weights and takes a fraction of a second."""

from functools import cache

from engines.runtime.driver import Job
from engines.runtime.request import Request
from engines.testing.conformance import finish
from traces import Trace

MODEL = "toy-raster"


def job(method: str, seed: int = 0, **settings: object) -> Job:
    return Request(method, MODEL, "", seed=seed, settings=settings).job()


@cache
def decoded(method: str, seed: int = 0, **settings: object) -> Trace:
    return finish(job(method, seed, **settings))
