"""Harmon-0.5B and -1.5B (arXiv 2503.21979), the image generator: the MAR of `mar.py` around a Qwen2.

The output of MAR's encoder for the visible tokens is projected into the Qwen2 and read there after the prompt,
causally: visible tokens in raster order, then the positions that hold a class in MAR. The result is projected back and
added, and MAR's decoder and head continue from it. Invisible tokens, and the padding of a shorter prompt, are masked
out and not counted, which equals leaving them out. A folder is as on the hub: `llm.` is the Qwen2, `mar.` the MAR,
`vae.` KL-16.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import Qwen2Config, Qwen2Model

from draftscope.engines.continuous.denoising import ContinuousTask
from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints import build as assembling
from draftscope.engines.models.checkpoints.conversion import Converted, Request, read_pickle
from draftscope.engines.models.checkpoints.images.autoencoder import UNUSED, kl16_of, read_kl16
from draftscope.engines.models.checkpoints.images.image_model import TextPrompts
from draftscope.engines.models.checkpoints.images.mar import MAR, AnyOrder, MARSize, native_state, size_of
from draftscope.engines.models.memory import MemoryRequirement
from draftscope.engines.models.sessions.denoising import ContinuousSession
from draftscope.engines.models.tokenizer_files import QWEN_CHAT, read_tokenizer
from draftscope.engines.models.torch_model import hidden_states
from draftscope.traces.schema import ModelCard

TITLE: Final = "Harmon"
_REQUEST: Final = "Generate an image: "
_UNCONDITIONAL: Final = "Generate an image."
"""The request for a picture of anything, which guidance leads away from."""
_TURN: Final = ("<|im_start|>", "<|im_end|>")
_QWEN, _MAR, _KL16 = "llm.model.", "mar.", "vae."
_UNBUILT: Final = ("llm.lm_head.", *(f"{_KL16}{name}" for name in UNUSED))
"""How names begin of what writes text, reads pictures or was trained by."""


def _projection(inner: int, outer: int, between: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inner, between), nn.SiLU(), nn.Linear(between, outer))


Prompts = tuple[Float[Tensor, "K P E"], Bool[Tensor, "K P"]]
"""Embedded prompts of sequences times rows, padded at their end, and flags of their tokens."""


class Harmon(nn.Module):
    """The parts that make pictures."""

    def __init__(self, size: MARSize, qwen: Any) -> None:
        super().__init__()
        width = qwen.config.hidden_size
        self.qwen = qwen
        self.mar = MAR(size)
        self.proj_in = _projection(size.width, width, width)
        self.proj_out = _projection(width, size.width, width)

    def embed(self, prompts: Sequence[Sequence[int]], device: torch.device) -> Prompts:
        """Embed prompts once for all passes.

        Args:
            prompts: Ids of every prompt.
            device: Device of the network.

        Returns:
            The embedded prompts, padded at their end, and which of the positions hold a token.
        """
        rows = [torch.tensor(ids, device=device) for ids in prompts]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
        return self.qwen.embed_tokens(ids.clamp(min=0)), ids >= 0

    def forward(
        self, tokens: Float[Tensor, "B N D"], visible: Bool[Tensor, "B N"], row: Int[Tensor, " B"], prompts: Prompts
    ) -> Float[Tensor, "B N H"]:
        """Return the condition of the head at every position.

        Args:
            tokens: Tokens in raster order; invisible ones are not read.
            visible: Which of them are visible.
            row: Index in `prompts` of the prompt of each sequence.
            prompts: Result of `embed`.
        """
        buffer = self.mar.buffer
        encoded = self.mar.encode(tokens, visible, self.mar.fake_latent.expand(len(tokens), -1))
        inside = self.proj_in(encoded)
        text, valid = (part[row] for part in prompts)
        valid = torch.cat([valid, visible, valid.new_ones(len(tokens), buffer)], 1)
        x = torch.cat([text, inside[:, buffer:], inside[:, :buffer]], 1)
        indices = torch.arange(x.shape[1], device=x.device)
        seen = valid[:, None] & (indices <= indices[:, None]) | torch.eye(
            len(indices), dtype=torch.bool, device=x.device
        )
        mask = torch.zeros(seen.shape, device=x.device).masked_fill_(~seen, torch.finfo(torch.float32).min)
        positions = (valid.cumsum(1) - 1).clamp(min=0)
        out = hidden_states(self.qwen, positions, None, mask[:, None], inputs_embeds=x)[:, text.shape[1] :]
        return self.mar.decode(encoded + self.proj_out(torch.cat([out[:, -buffer:], out[:, :-buffer]], 1)), visible)


@dataclass(frozen=True, slots=True)
class TextTask(ContinuousTask):
    """A picture of a text; drafter and target each read it by their own tokenizer."""

    text: str = ""


class HarmonModel(AnyOrder):
    """A Harmon as a model of the family continuous-ar."""

    def __init__(
        self, network: Harmon, autoencoder: Any, card: ModelCard, device: torch.device, tokenizer: Tokenizer
    ) -> None:
        super().__init__(network, autoencoder, card, device)
        self._harmon, self._prompts = network, TextPrompts(tokenizer, card.id, *_TURN)
        height, width = self.canvas().shape
        self.token_space = f"KL-16, {height}x{width}, drawn to a text"

    def make_task(self, prompt: str, config: Any) -> TextTask:
        """Build the task; raises ValueError as `TextPrompts.checked` does."""
        checked = self._prompts.checked(prompt)
        return TextTask(self.canvas(), 0, self.device, width=self._width, gaps=True, text=checked)

    def open_session(self, tasks: Sequence[TextTask], guided: bool) -> ContinuousSession:
        """Open a session, one sequence per task."""
        requests = [text for task in tasks for text in (_REQUEST + task.text, _UNCONDITIONAL)[: 1 + guided]]
        with torch.inference_mode():
            ids = [self._prompts.ids(QWEN_CHAT[0] + text + QWEN_CHAT[1]) for text in requests]
            prompts = self._harmon.embed(ids, self.device)
            rows = torch.arange(len(requests), device=self.device).unflatten(0, (len(tasks), -1))
            return self.session(lambda tokens, visible, row: self._harmon(tokens, visible, row, prompts), tasks, rows)


def load(source: CheckpointDir, settings: Mapping[str, Any], device: str, _: torch.dtype) -> HarmonModel:
    """Load the model of a folder, always in float32."""
    state = source.tensors(_UNBUILT)
    network = _network(source, settings, {n: part for n, part in state.items() if not n.startswith(_KL16)})
    autoencoder = read_kl16(source, network.mar.z_proj.in_features, assembling.part_of(state, _KL16))
    card = assembling.card_of(source, TITLE)
    return HarmonModel(network, autoencoder, card, torch.device(device), read_tokenizer(source))


def needs(source: CheckpointDir, _: Mapping[str, Any]) -> MemoryRequirement:
    """Return the memory requirement of the model in a folder, all of it in float32."""
    return MemoryRequirement(0, source.count(_UNBUILT))


def convert(request: Request) -> Converted:
    """harmon_1.5b-o.pth or another, with config.json and tokenizer.json of its copy on the hub, and MAR's kl16.ckpt."""
    source = request.file(
        "Put config.json and tokenizer.json of hf download wusize/Harmon-1_5B, or of -0_5B, next to its .pth."
    )
    settings = source.read_json("config.json")
    state = read_pickle(source, ("state_dict", "model"))
    _network(source, settings, {name: part for name, part in state.items() if not name.startswith(_UNBUILT)})
    merged = state | {f"{_KL16}{name}": part for name, part in kl16_of(request).items()}
    tokenizer = source.folder / "tokenizer.json"
    if not tokenizer.is_file():
        raise source.incomplete(f"tokenizer.json is missing in {source.folder}")
    return Converted({"": merged}, settings, [tokenizer])


def _network(source: CheckpointDir, settings: Mapping[str, Any], state: assembling.State) -> Harmon:
    """The network of all tensors but those of KL-16; sizes of the MAR are those of its tensors."""
    mar, text = source.section(settings, "mar"), source.section(settings, "llm")
    source.check_fixed(text, {"model_type": "qwen2", "use_sliding_window": False}, TITLE)
    heads = source.number(mar, "encoder_num_heads") if "encoder_num_heads" in mar else None
    size = size_of(source, assembling.part_of(state, _MAR), heads)
    fixed = {"patch_size": 1, "class_num": 1000, "encoder_embed_dim": size.width, "vae_embed_dim": size.token}
    source.check_fixed(mar, fixed, f"{TITLE} with these tensors")
    config = assembling.native_config(source, Qwen2Config, text)
    qwen = assembling.native_network(source, Qwen2Model, config, assembling.part_of(state, _QWEN), torch.float32)
    network = assembling.on_meta(lambda: Harmon(size, qwen))
    mar_state = {name: part for name, part in state.items() if not name.startswith(_QWEN)}
    qwen_state = {f"qwen.{name}": part for name, part in qwen.state_dict().items()}
    return assembling.load_state(source, network, {**native_state(mar_state), **qwen_state}, torch.float32)
