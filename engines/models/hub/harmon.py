"""Harmon (arXiv 2503.21979), its half that draws: the MAR of `engines.models.hub.mar` with a Qwen2 in its middle.

What MAR's encoder makes of the visible tokens is projected into the Qwen2 and read there behind the prompt, causally:
visible tokens in raster order, then the places that held a class in MAR. What comes out is projected back and added,
and MAR's decoder and head go on from it.

Positions in the Qwen2 count what a row can see: the prompt's own tokens, then the visible ones. Whoever is not visible,
and the padding of a shorter prompt, is masked out, which equals leaving it out. As with MAR nothing can be cached, and
a row is needed for every prefix.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import Qwen2Config, Qwen2Model

from engines.continuous.denoising import ContinuousTask
from engines.models.denoising_session import ContinuousSession
from engines.models.hub.compvis import PixelDecoder
from engines.models.hub.families import QWEN_ASKS
from engines.models.hub.mar import MAR, AnyOrder, MARSize
from engines.models.hub.prompts import TextPrompts
from traces.schema import ModelCard

_ASKED: Final = "Generate an image: "
_SILENT: Final = "Generate an image."
"""The request for a picture of anything, which guidance leads away from."""
_TURN: Final = ("<|im_start|>", "<|im_end|>")


def _projection(inner: int, outer: int, between: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inner, between), nn.SiLU(), nn.Linear(between, outer))


@dataclass(frozen=True, slots=True)
class Prompts:
    """Embedded prompts of lanes times rows, padded behind their end."""

    embedded: Float[Tensor, "K P E"]
    there: Bool[Tensor, "K P"]
    """Where a prompt has a token."""


class Harmon(nn.Module):
    """The parts that make pictures, by the release's names."""

    def __init__(self, size: MARSize, text: Qwen2Config) -> None:
        super().__init__()
        self.llm = nn.ModuleDict({"model": Qwen2Model(text)})
        self.mar = MAR(size)
        self.proj_in = _projection(size.width, text.hidden_size, text.hidden_size)
        self.proj_out = _projection(text.hidden_size, size.width, text.hidden_size)

    def embed(self, prompts: Sequence[Sequence[int]], device: torch.device) -> Prompts:
        """Prompts, embedded once."""
        rows = [torch.tensor(ids, device=device) for ids in prompts]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
        table: Any = self.llm["model"].get_submodule("embed_tokens")
        return Prompts(table(ids.clamp(min=0)), ids >= 0)

    def forward(
        self,
        tokens: Float[Tensor, "B N D"],
        visible: Bool[Tensor, "B N"],
        row: Int[Tensor, " B"],
        prompts: Prompts,
    ) -> Float[Tensor, "B N H"]:
        """Conditions of the head at every position.

        Args:
            tokens: in raster order; what is not visible may hold anything.
            visible: which of them may be seen.
            row: of `prompts`, by row.
            prompts: what the rows are told.
        """
        buffer = self.mar.buffer
        encoded = self.mar.encode(tokens, visible, self.mar.fake_latent.expand(len(tokens), -1))
        inside = self.proj_in(encoded)
        text, there = prompts.embedded[row], prompts.there[row]
        there = torch.cat([there, visible, there.new_ones(len(tokens), buffer)], 1)
        out = self._read(torch.cat([text, inside[:, buffer:], inside[:, :buffer]], 1), there)[:, text.shape[1] :]
        return self.mar.decode(encoded + self.proj_out(torch.cat([out[:, -buffer:], out[:, :-buffer]], 1)), visible)

    def _read(self, x: Float[Tensor, "B L E"], there: Bool[Tensor, "B L"]) -> Float[Tensor, "B L E"]:
        """The Qwen2 over rows of which only some places are there."""
        places = torch.arange(x.shape[1], device=x.device)
        seen = there[:, None] & (places <= places[:, None]) | torch.eye(len(places), dtype=torch.bool, device=x.device)
        mask = torch.zeros(seen.shape, dtype=x.dtype, device=x.device).masked_fill_(~seen, torch.finfo(x.dtype).min)
        positions = (there.cumsum(1) - 1).clamp(min=0)
        out: Tensor = self.llm["model"](
            inputs_embeds=x, attention_mask=mask[:, None], position_ids=positions, use_cache=False
        ).last_hidden_state
        return out


def stretch(mar: MAR, side: int) -> None:
    """Give a MAR's learnt positions another side, by linear interpolation, as the release does for larger pictures."""
    for name, front in (
        ("encoder_pos_embed_learned", mar.buffer),
        ("decoder_pos_embed_learned", mar.buffer),
        ("diffusion_pos_embed_learned", 0),
    ):
        table = getattr(mar, name).detach()
        old = round((table.shape[1] - front) ** 0.5)
        if old != side:
            grid = table[:, front:].transpose(1, 2).unflatten(2, (old, old))
            grid = F.interpolate(grid, size=(side, side), mode="bilinear").flatten(2).transpose(1, 2)
            setattr(mar, name, nn.Parameter(torch.cat([table[:, :front], grid], 1), requires_grad=False))


@dataclass(frozen=True, slots=True)
class TextTask(ContinuousTask):
    """A picture of a text; drafter and target each read it by their own tokenizer."""

    text: str = ""


class HarmonModel(AnyOrder):
    """A Harmon as a model of the family continuous-ar."""

    def __init__(
        self, network: Harmon, decoder: PixelDecoder, card: ModelCard, device: torch.device, tokenizer: Tokenizer
    ) -> None:
        """See `AnyOrder`.

        Raises:
            ModelError: for a tokenizer without the tokens of a turn.
        """
        super().__init__(network, network.mar, decoder, card, device)
        self._whole, self._prompts = network, TextPrompts(tokenizer, card.id, *_TURN)
        height, width = self.canvas().shape
        self.tokens = f"KL-16, {height}x{width}, drawn to a text"

    def pose(self, prompt: str, config: Any) -> TextTask:
        """See `engines.protocol.Model.pose`.

        Raises:
            ValueError: for a prompt that is empty or holds a special token.
        """
        checked = self._prompts.checked(prompt)
        return TextTask(self.canvas(), 0, self.device, width=self._width, gaps=True, text=checked)

    def start(self, tasks: Sequence[TextTask], guided: bool) -> ContinuousSession:
        """See `engines.protocol.Model.start`."""
        requests = [text for task in tasks for text in (_ASKED + task.text, _SILENT)[: 1 + guided]]
        before, behind = QWEN_ASKS
        with torch.inference_mode():
            prompts = self._whole.embed([self._prompts.ids(before + text + behind) for text in requests], self.device)
            rows = torch.arange(len(requests), device=self.device).unflatten(0, (len(tasks), -1))
            return self.session(lambda tokens, visible, row: self._whole(tokens, visible, row, prompts), tasks, rows)
