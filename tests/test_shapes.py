"""The checks of shapes and types that run beside every test."""

import pytest
import torch
from jaxtyping import TypeCheckError
from support import shapes

from engines.sampling.coupling import residual

TWO, THREE = torch.full((1, 2), 0.5), torch.full((1, 3), 0.3)


def test_a_wrong_shape_is_caught() -> None:
    with pytest.raises(TypeCheckError, match="residual"):
        residual(TWO, THREE)


def test_the_first_calls_of_a_function_are_checked_anew_in_every_test() -> None:
    for _ in range(shapes.CALLS):
        residual(TWO, TWO)
    with pytest.raises(RuntimeError, match="size of tensor"):  # torch's own, since nothing checks any more
        residual(TWO, THREE)
    shapes.begin()
    with pytest.raises(TypeCheckError, match="residual"):
        residual(TWO, THREE)


def test_a_function_that_is_made_in_every_call_is_checked_the_first_times_alone() -> None:
    def made(count: int) -> list[bool]:
        return [hasattr(shapes.checker(_stub), "__wrapped__") for _ in range(count)]

    shapes.begin()
    assert made(shapes.CALLS + 2) == [True] * shapes.CALLS + [False] * 2
    shapes.begin()
    assert made(1) == [True]


def _stub(x: int) -> None: ...
