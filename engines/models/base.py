"""What a model offers to the driver."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from engines.methods.method import Family
from engines.protocol import Task
from traces.schema import Legend, Model, Output


class ModelError(RuntimeError):
    """A model that cannot be had; the message names the model, what is missing and the remedy."""


@runtime_checkable
class Session(Protocol):
    """Sequences that are decoded together; caches live here."""

    rows: int
    """Rows per sequence: 2 with classifier-free guidance."""
    prefix: int
    """Prompt tokens a row is fed before its first canvas token."""

    def logits(self, requests: Any) -> Float[Tensor, "B *K R T V"]:
        """One forward pass for the lanes that ask; `requests` maps lanes to requests of the kind the model answers.

        Returns:
            For the i-th lane of `requests`, entry i holds the logits of what it asked for, left-aligned and padded:
            R rows of guidance, and K drafts before them where requests have several.
        """
        ...


@runtime_checkable
class DiscreteAR(Protocol):
    """A model that gives the distributions of all positions behind a prefix in one causal pass."""

    card: Model
    device: torch.device

    @property
    def dtype(self) -> torch.dtype:
        """What the network computes in."""
        ...

    def pose(self, prompt: str, config: Any) -> Task:
        """What a prompt asks for.

        Raises:
            ValueError: for a prompt that the model cannot read or a setting it does not have; the message says what
                it can.
        """
        ...

    def start(self, tasks: Sequence[Any], guided: bool) -> Session:
        """Open a session, one lane per task."""
        ...

    def legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """What is needed to draw a trace.

        Args:
            canvases: The tokens after each step.
            mentioned: Further tokens that the trace speaks of.
        """
        ...

    def output(self, tokens: Sequence[int | None]) -> Output:
        """The tokens as a person sees them."""
        ...


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One line of the catalogue."""

    id: str
    title: str
    family: Family
    needs: str
    """What must be there to load it."""
    default_prompt: str
    prompt_help: str
    small: str = ""
    """Id of the small model of the same vocabulary that drafts for it."""


def dtype_name(dtype: torch.dtype) -> str:
    """float32 rather than torch.float32."""
    return str(dtype).removeprefix("torch.")
