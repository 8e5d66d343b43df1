"""The engine's work around the network is bounded by counts, which are the same on every machine; a time is not.

`python -m benchmarks.overhead` measures times, for `docs/measured.md`.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import pytest
import torch
from support.shapes import CALLS
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks import _reference_loops as _by_hand
from benchmarks._reference_loops import Case, FixedLogits, verified
from benchmarks._timing import decode, job, prompts
from draftscope.engines.models.bundled.image_networks import Transformer
from draftscope.engines.models.catalog import load_model

LIMIT = 1.25


@dataclass(frozen=True)
class Work:
    """Calls of functions, of Python and C, and elements of tensors read or written by PyTorch's operations."""

    calls: float
    elements: float

    def __sub__(self, other: "Work") -> "Work":
        return Work(self.calls - other.calls, self.elements - other.elements)

    def __truediv__(self, other: "Work") -> "Work":
        return Work(self.calls / other.calls, self.elements / other.elements)

    def exceeds(self, expected: "Work") -> bool:
        return self.calls > LIMIT * expected.calls or self.elements > LIMIT * expected.elements


class _Elements(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            leaves = tree_leaves((args, kwargs, result))
            self.count += sum(leaf.numel() for leaf in leaves if isinstance(leaf, Tensor))
        return result


def work(do: Callable[[], object]) -> Work:
    calls = 0

    def called(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for _ in range(CALLS):  # what is prepared once, and the checks of shapes
        do()
    before = sys.getprofile()
    sys.setprofile(called)
    try:
        do()
    finally:
        sys.setprofile(before)
    with _Elements() as elements:
        do()
    return Work(calls, elements.count)


@pytest.fixture(scope="module")
def model() -> Any:
    return load_model("studio-image")


@pytest.fixture(scope="module")
def prompt() -> str:
    return prompts("studio-image", 1)[0]


@pytest.fixture(scope="module")
def ordinary(model: Any, prompt: str) -> Work:
    return work(partial(decode, [job("ar", model, prompt, 0)]))


@pytest.mark.slow
def test_ordinary_decoding_is_a_loop_written_by_hand_and_little_more(model: Any, prompt: str, ordinary: Work) -> None:
    ratio = ordinary / work(partial(_by_hand.picture, model, prompt, 0))
    assert not ratio.exceeds(Work(calls=1.55, elements=1.0)), ratio


@pytest.mark.slow
def test_a_coupled_picture_is_less_work_than_ordinary_decoding(model: Any, prompt: str, ordinary: Work) -> None:
    """In a third of the passes, over up to 16 tokens each."""
    ratio = work(partial(decode, [job("maximal", model, prompt, 0, window=16)])) / ordinary
    assert not ratio.exceeds(Work(calls=0.49, elements=0.46)), ratio


def test_the_lean_network_is_less_work_than_that_of_transformers(model: Any) -> None:
    position = torch.arange(4)[None]
    lean, other = (
        work(partial(torch.no_grad()(network), position, position)) for network in (model.network, Transformer().eval())
    )
    assert not (lean / other).exceeds(Work(calls=0.25, elements=0.94)), lean / other


@pytest.mark.parametrize(
    ("coupling", "calls", "times"), [("none", 222, 20.3), ("maximal", 204, 30.2), ("gumbel", 231, 23.3)]
)
def test_a_pass_of_verification_touches_its_distributions_some_twenty_times(
    coupling: str, calls: int, times: float
) -> None:
    case = Case(coupling, 16_384, 32)
    session = FixedLogits(case)
    passes = work(partial(verified, case, session, 3)) - work(partial(verified, case, session, 1))
    a_pass = passes / Work(calls=2, elements=2 * case.vocabulary * case.window)
    assert not a_pass.exceeds(Work(calls, times)), a_pass
