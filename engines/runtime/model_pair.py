"""Two models under one decoder: one drafts, one verifies, each with a cache of its own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from draftscope.engines.continuous.denoising import ContinuousTask
from draftscope.engines.diffusion_lm.block_sequence import TextTask
from draftscope.engines.protocol import ForwardResult, Model, Role, Session, StageCallback, Task
from draftscope.engines.settings import ConfigError


class PairSession:
    """Hands every request to the session of its role; sequences may ask for different roles in one round."""

    def __init__(self, sessions: Mapping[Role, Session], devices: Mapping[Role, torch.device] | None = None) -> None:
        """Combine sessions of the same sequences and tokens; `devices` names the device of each, if they differ."""
        self._sessions, self._devices = sessions, devices or {}

    def forward(self, requests: Mapping[int, Any], sampling: Any, lap: StageCallback) -> dict[int, ForwardResult]:
        """Run one forward pass for the requesting sequences."""
        answers: dict[int, ForwardResult] = {}
        for role in dict.fromkeys(request.role for request in requests.values()):
            own_requests = {sequence: request for sequence, request in requests.items() if request.role == role}
            answers |= self._answer(role, own_requests, sampling, lap)
        return {sequence: answers[sequence] for sequence in requests}

    def _answer(
        self, role: Role, requests: dict[int, Any], sampling: Any, lap: StageCallback
    ) -> Mapping[int, ForwardResult]:
        """The answers of one session; of a drafter elsewhere, on the target's device, where verdicts are made."""
        if self._devices.get(role) == self._devices.get("target"):
            return self._sessions[role].forward(requests, sampling, lap)
        drafter_device, here = self._devices[role], self._devices["target"]
        moved = {
            sequence: replace(request, tokens=request.tokens.to(drafter_device))
            for sequence, request in requests.items()
        }
        answers = self._sessions[role].forward(moved, sampling, lap)
        return {sequence: replace(answer, value=answer.value.to(here)) for sequence, answer in answers.items()}


class InPlaceSession:
    """Session of a drafter whose tokens are read in place, for requests to a right-shifted model.

    A distribution that would be read at the token to the left of a position is read at the mask there.
    """

    def __init__(self, session: Session) -> None:
        """Take a session of the drafter."""
        self._session = session

    def forward(self, requests: Mapping[int, Any], sampling: Any, lap: StageCallback) -> Mapping[int, ForwardResult]:
        """Run one forward pass for the requesting sequences."""
        moved = {i: replace(request, output_index=request.output_index + 1) for i, request in requests.items()}
        return self._session.forward(moved, sampling, lap)


def differs_in_shift(task: Task, draft_task: Task) -> bool:
    """Return whether a drafter predicts the token at each position, and its target the token after it.

    Args:
        task: Task of the target.
        draft_task: Task of the drafter.
    """
    return isinstance(task, TextTask) and isinstance(draft_task, TextTask) and task.shift and not draft_task.shift


def check_prompt_compatibility(target: Model, draft: Model, task: Task, draft_task: Task) -> None:
    """Raise ValueError if models of one vocabulary do not predict the same positions of the same text.

    Args:
        target: Target, which the error names.
        draft: Drafter, which the error names.
        task: Task of the target; other tasks than those of texts pass.
        draft_task: Task of the drafter.
    """
    if not (isinstance(task, TextTask) and isinstance(draft_task, TextTask)):
        return
    alike = (task.mask, task.full, task.causal) == (draft_task.mask, draft_task.full, draft_task.causal)
    if not alike or (draft_task.shift and not task.shift):
        raise ValueError(
            f"drafter: {draft.card.id} is {_reads(draft_task)}, and {target.card.id} {_reads(task)}, so their "
            "distributions belong to different positions; give a drafter of the same kind, or set drafter=itself."
        )


def check_heads(drafter: str, task: ContinuousTask, name: str, draft_task: Task) -> None:
    """Raise ConfigError where a drafter mixes Gaussians and the setting is for one that denoises, or vice versa.

    Args:
        drafter: The setting: "mixture", "small", or another one, which passes.
        task: Task of the target.
        name: Drafter, which the error names.
        draft_task: Task of the drafter.
    """
    mixes = isinstance(draft_task, ContinuousTask) and draft_task.mixture
    if drafter == "mixture" and not mixes:
        raise ConfigError(
            f"drafter: 'mixture' is for models that mix Gaussians, as patch-mixture does; {name} denoises, set "
            "drafter=small."
        )
    if drafter == "small" and mixes and not task.mixture:
        raise ConfigError(f"drafter: 'small' is for models that denoise; {name} mixes Gaussians, set drafter=mixture.")


def _reads(task: TextTask) -> str:
    sight = "bidirectional" if task.full else "causal before its block" if task.causal else "block-causal"
    return f"{sight} and {'right-shifted' if task.shift else 'aligned'} with the mask {task.mask}"
