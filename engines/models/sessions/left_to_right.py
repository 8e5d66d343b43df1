"""A language model from left to right: a causal one, or a block-diffusion one with blocks of one token.

A position is predicted at a mask that stands there and sees all tokens before it. To verify drafts, such a mask is put
beside every one of them, as S2D2 does (arXiv 2603.25702, eq. 3): tokens are causal and see no mask. A right-shifted
model, as every causal one is, predicts a token at the one before it and needs no masks. What was fed stays stored,
drafts too: a rejected one's slot is not seen, and is overwritten by the token in its place.
"""

from collections.abc import Mapping, Sequence

import torch

from engines.ar.request import Forward
from engines.diffusion_lm.request import BlockForward
from engines.models.sessions.block import BlockSession
from engines.protocol import Answer, Lap
from engines.sampling.distributions import Sampling


class TokenSession:
    """Sequences of a block-diffusion language model that are decoded from left to right."""

    def __init__(self, blocks: BlockSession, prompts: Sequence[tuple[int, ...]], mask: int, *, shift: bool) -> None:
        """Open a session on one of blocks that serves it alone, with a slot for every position and one more."""
        self._blocks, self._mask, self._shift = blocks, mask, shift
        self._prompts = [torch.tensor(prompt, dtype=torch.long, device=blocks.device) for prompt in prompts]
        self._stored = [0] * len(prompts)

    def answer(self, requests: Mapping[int, Forward], sampling: Sampling, lap: Lap) -> dict[int, Answer]:
        """See `engines.protocol.Session.answer`."""
        translated = {sequence: self._translate(sequence, request) for sequence, request in requests.items()}
        return self._blocks.answer(translated, sampling, lap)

    def _translate(self, sequence: int, request: Forward) -> BlockForward:
        """[tokens that are not stored, drafts | masks], or the tokens alone where outputs are shifted."""
        prompt = self._prompts[sequence]
        text = torch.cat([prompt, request.tokens])  # on the model's device, where it was drawn
        final = len(prompt) + request.done
        # A shifted model reads at the last final token, too.
        stored = min(self._stored[sequence], len(prompt) + request.cached, final - int(self._shift))
        self._stored[sequence] = len(text)
        place = torch.arange(stored, len(text))
        masks = torch.arange(final, len(text) + 1)[: 0 if self._shift else None]
        position = torch.cat([place, masks])
        copy = torch.arange(len(position)) >= len(place)
        before = position[None, :] + copy[:, None].long() <= position[:, None]  # a mask sees what stands before it
        seen = torch.where(copy[None, :], torch.eye(len(position), dtype=torch.bool), before)
        return BlockForward(
            tokens=torch.cat([text[stored:], text.new_full(masks.shape, self._mask)])[None],
            position=position,
            read=torch.arange(final - 1 - stored, len(place)) if self._shift else len(place) + torch.arange(len(masks)),
            finished=stored,
            seen=seen,
            keep=len(place),
            role=request.role,
            mode=request.mode,
        )
