"""The checks of shapes and types that run beside every test."""

import ast

import pytest
import torch
from jaxtyping import TypeCheckError
from jaxtyping._import_hook import JaxtypingTransformer, Typechecker
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


def test_a_function_within_another_is_not_decorated_in_every_call() -> None:
    tree = ast.parse(
        "def outer():\n def inner(): ...\n class Local:\n  def method(self): ...\nclass A:\n def of(self): ..."
    )
    changed = JaxtypingTransformer(typechecker=Typechecker(None)).visit(tree)
    functions = [node for node in ast.walk(changed) if isinstance(node, ast.FunctionDef)]
    assert {node.name: len(node.decorator_list) for node in functions} == {"outer": 1, "inner": 0, "method": 0, "of": 1}
