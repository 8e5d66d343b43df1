"""A GPU that is lent, as on a ZeroGPU Space: by a stand-in for the package `spaces` that does what it does."""

import importlib
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.raster import MODEL, decoded

from demo import gpu
from demo.decoding import Asked, Ended, Opened, race
from demo.experiments import EXPERIMENTS, Experiment, conduct_on
from demo.limits import GPU_MOST_SECONDS
from demo.sessions import Visitor
from engines.config import ConfigError, make_config
from engines.methods import METHODS
from engines.models.errors import ModelError


class Lender(ModuleType):
    """The package: what goes there and comes back is pickled, and an error says no more than its kind."""

    def __init__(self) -> None:
        super().__init__("spaces")
        self.seconds: list[int] = []

    def GPU(self, task: Callable[..., Iterator[Any]], *, duration: Callable[..., int]) -> Callable[..., Iterator[Any]]:
        def lent(*args: Any) -> Iterator[Any]:
            self.seconds.append(duration(*args))
            there = task(*pickle.loads(pickle.dumps(args)))
            while True:
                try:
                    value = next(there)
                except StopIteration:
                    return
                except Exception as error:
                    raise RuntimeError(f"ZeroGPU worker error: {type(error).__name__}") from None
                yield pickle.loads(pickle.dumps(value))

        return lent


@pytest.fixture
def lender(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lender]:
    package = Lender()
    package.__spec__ = importlib.machinery.ModuleSpec("spaces", None)
    with monkeypatch.context() as changed:
        changed.setitem(sys.modules, "spaces", package)
        changed.setenv("SPACES_ZERO_GPU", "true")
        importlib.reload(gpu)
        yield package
    importlib.reload(gpu)


def asked(method: str, prompt: str = "", model: str = MODEL, **settings: object) -> Asked:
    return Asked(method, model, prompt, make_config(METHODS[method].config, settings), 0)


def test_a_race_goes_through_the_lent_gpu(lender: Lender, tmp_path: Path) -> None:
    assert gpu.LENT
    opened, *turns, ended = gpu.through(33, race, [asked("ar"), asked("scd", window=16)], Visitor(tmp_path).stopped)
    assert lender.seconds == [33]
    assert isinstance(opened, Opened) and [head["method"] for head in opened.heads] == ["ar", "scd"]
    assert isinstance(ended, Ended) and len(turns) == ended.traces[0].summary.forwards
    assert [trace.output for trace in ended.traces] == [decoded("ar").output, decoded("scd", window=16).output]


def test_a_visitor_stops_what_runs_there(lender: Lender, tmp_path: Path) -> None:
    visitor = Visitor(tmp_path)
    told = gpu.through(33, race, [asked("ar")], visitor.stopped)
    next(told), next(told)
    visitor.stop()
    (ended,) = [one for one in told if isinstance(one, Ended)]
    assert not ended.traces[0].summary.complete


def test_an_experiment_goes_through_the_lent_gpu(lender: Lender, tmp_path: Path) -> None:
    whole = EXPERIMENTS["window"]
    small = Experiment(title="t", question="q", figure="window", arms=whole.arms[-1:], seeds=1)
    *_, last = gpu.through(40, conduct_on, MODEL, small, "", 1, {}, Visitor(tmp_path).stopped)
    assert (last.done, lender.seconds) == (1, [40])


@pytest.mark.parametrize(
    ("wrong", "kind", "told"),
    [
        (asked("ar", prompt="a boot"), ConfigError, "prompt: toy-raster draws without a prompt"),
        (asked("ar", model="none-such"), ModelError, "model: there is no 'none-such'"),
    ],
)
def test_what_was_wrong_there_is_told_here(
    wrong: Asked, kind: type[Exception], told: str, lender: Lender, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=told):
        list(gpu.through(33, race, [wrong], Visitor(tmp_path).stopped))


def test_without_the_package_nothing_changes() -> None:
    assert not gpu.LENT
    assert list(gpu.through(33, range_of, 3)) == [0, 1, 2]
    assert gpu._lent is gpu._work


def range_of(count: int) -> Iterator[int]:
    yield from range(count)


def test_a_gpu_is_asked_for_no_longer_than_it_may_be() -> None:
    short = asked("blockwise", model="text-target", length=16)
    assert 0 < short.seconds < asked("blockwise", model="text-target", length=256).seconds <= GPU_MOST_SECONDS
    assert gpu.seconds(10**6) == GPU_MOST_SECONDS
