"""Cosmos-1.0-Autoregressive, the base models of 4B and 12B (arXiv 2501.03575): nine frames of a clip to the 24 behind.

Read from a folder that `engines.models.hub.cosmos_convert` wrote: the release's config.json and tensor names, in
safetensors, and its tokenizer in a folder of its own.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from transformers import Qwen3ForCausalLM

from engines.config import ConfigError
from engines.models.clip_model import ClipModel, ClipShape, Pictures, unpack
from engines.models.errors import ModelError
from engines.models.hub.assembling import folder_in, stored
from engines.models.hub.cosmos_layout import (
    CONVERT,
    HEAD_NORM_EPSILON,
    NAMES,
    TITLE,
    Layout,
    angles,
    read_layout,
    refuse_conditioned,
)
from engines.models.hub.cosmos_tokenizer import CosmosTokenizer, load_tokenizer, measured
from engines.models.hub.rotary import PlaceRotary
from engines.models.memory import Needs, cached_numbers
from engines.models.weights import (
    Names,
    Source,
    other_hashes,
    parameters,
    read_network,
    sha256,
    tensor_heads,
    weight_hashes,
)
from traces.schema import ModelCard

TOKENIZER: Final = "tokenizer"
"""Folder of the tokenizer, inside the model's."""
GIVEN_FRAMES: Final = 9
"""The longer of the two beginnings that the models were trained to continue; the other is a single frame."""
_PICTURES: Final = Pictures(most=16, together=1, longest=512)
"""Frames of 640x1024 would make a trace larger than one may be."""


class CosmosVideo(ClipModel):
    """A Cosmos-1.0-Autoregressive base model with its tokenizer."""

    def __init__(
        self, network: Any, tokenizer: CosmosTokenizer, shape: ClipShape, card: ModelCard, device: str
    ) -> None:
        """Wrap a Qwen3ForCausalLM whose positions are a clip's."""
        super().__init__(card, torch.device(device), shape, _PICTURES)
        self._network: Any = network.to(device).eval()
        self._tokenizer = tokenizer.to(device)
        every = torch.arange(tokenizer.codes, device=device)
        self._embedding = tokenizer.places(every).double()

    @property
    def network(self) -> nn.Module:
        """See `ClipModel.network`."""
        found: nn.Module = self._network
        return found

    @property
    def layers(self) -> int:
        """See `ClipModel.layers`."""
        return len(self._network.model.layers)

    @property
    def tokens(self) -> str:
        """See `ClipModel.tokens`."""
        return next((digest for name, digest in self.card.weights.items() if name.startswith(f"{TOKENIZER}/")), "")

    @property
    def embedding(self) -> Float[Tensor, "K D"]:
        """See `ClipModel.embedding`."""
        return self._embedding

    @property
    def blank(self) -> int:
        """The code in the middle of all levels."""
        return self._tokenizer.middle

    def logits(
        self, ids: Tensor, positions: Tensor, cache: Any = None, mask: Tensor | None = None
    ) -> Float[Tensor, "B N K"]:
        """See `ClipModel.logits`."""
        out = self._network.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=None if mask is None else mask.to(self.dtype),
            past_key_values=cache,
            use_cache=cache is not None,
        )
        found: Tensor = self._network.lm_head(out.last_hidden_state)
        return found

    def given_by(self, prompt: str) -> tuple[int, ...]:
        """See `ClipModel.given_by`; no clips come with these models."""
        codes = unpack(prompt, self.shape.given, self.shape.codes)
        if codes is None:
            raise ConfigError(
                f"prompt: {prompt!r:.60} names no clip; give the path of a GIF or MP4 on the command line, "
                "or what prompt_for(bytes) makes of one."
            )
        return codes

    def encode(self, frames: UInt8[Tensor, "F H W 3"]) -> Int[Tensor, " N"]:
        """See `ClipModel.encode`."""
        with torch.inference_mode():
            clip = frames.permute(3, 0, 1, 2)[None].float() / 127.5 - 1
            return self._tokenizer.encode(clip).flatten()

    def decode(self, codes: Int[Tensor, "B N"]) -> UInt8[Tensor, "B F H W 3"]:
        """See `ClipModel.decode`; clip by clip, as one of 640x1024 takes gigabytes on the way."""
        planes = codes.reshape(len(codes), -1, self.shape.rows, self.shape.columns).to(self.device)
        with torch.inference_mode():
            clips = [((self._tokenizer.decode(one[None])[0] + 1) * 127.5).round().byte().cpu() for one in planes]
        return torch.stack(clips).permute(0, 2, 3, 4, 1).contiguous()


def needs(source: Source, settings: Mapping[str, Any]) -> Needs:
    """What the model of a folder takes; see `assembling.Measure`. Of a broken tokenizer, loading will tell."""
    layout, beside = read_layout(source, settings), folder_in(source, TOKENIZER)
    exact, positions = 0, 0
    with suppress(ModelError):
        size = measured(beside)
        latents = 1 + (layout.frames - 1) // size.span
        exact, positions = stored(beside), latents * (layout.height // size.cell) * (layout.width // size.cell)
    return Needs(parameters(Qwen3ForCausalLM, layout.config), exact, cached_numbers(layout.config), positions)


def load(source: Source, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> CosmosVideo:
    """The model of a converted folder; see `assembling.Loader`. Its tokenizer, a fiftieth of it, is in float32."""
    layout = read_layout(source, settings)
    once = replace(source, remedy=f"Convert it once with: {CONVERT}")
    if not any((source.folder / name).is_file() for name in ("model.safetensors", "model.safetensors.index.json")):
        pickled = (source.folder / "model.pt").is_file()
        problem = "model.pt is a pickle, which is never read here" if pickled else "model.safetensors is missing"
        raise once.lacks(f"{problem} in {source.folder}")
    refuse_conditioned(source, {}, tensor_heads(source))
    tokenizer, file = load_tokenizer(replace(once, folder=source.folder / TOKENIZER, name=f"{source.name}/{TOKENIZER}"))
    shape = shape_of(once, layout, tokenizer)
    network: Any = read_network(once, Qwen3ForCausalLM, layout.config, dtype, Names(NAMES))
    network.model.rotary_emb = PlaceRotary(angles(layout, (shape.latents, shape.rows, shape.columns)))
    for layer in network.model.layers:
        layer.self_attn.q_norm.variance_epsilon = layer.self_attn.k_norm.variance_epsilon = HEAD_NORM_EPSILON
    weights = weight_hashes(source) | {f"{TOKENIZER}/{file}": sha256(source.folder / TOKENIZER / file)}
    title = f"{TITLE}: {source.name.rpartition('/')[2]}"
    card = ModelCard(id=source.name, title=title, weights=weights, files=other_hashes(source))
    return CosmosVideo(network, tokenizer, shape, card, device)


def shape_of(source: Source, layout: Layout, tokenizer: CosmosTokenizer) -> ClipShape:
    """The size of clips, in pixels and in codes.

    Raises:
        ModelError: where config.json and tokenizer do not fit each other.
    """
    cell, span, codes = tokenizer.size.cell, tokenizer.size.span, layout.network["vocab_size"]
    if codes != tokenizer.codes or codes > 2**16:
        raise source.lacks(f"config.json has {codes} for 'vocab_size', and its tokenizer makes {tokenizer.codes} codes")
    if layout.height % cell or layout.width % cell or (layout.frames - 1) % span or (GIVEN_FRAMES - 1) % span:
        size = f"{layout.frames} frames of {layout.height}x{layout.width}"
        raise source.lacks(f"config.json has clips of {size}, which codes of {span}x{cell}x{cell} do not fill")
    if layout.frames <= GIVEN_FRAMES:
        raise source.lacks(f"config.json has {layout.frames} for 'num_video_frames', and {GIVEN_FRAMES} are given")
    shape = ClipShape(layout.frames, GIVEN_FRAMES, span, layout.height // cell, layout.width // cell, cell, codes)
    found = (shape.latents, shape.rows, shape.columns)
    if layout.claimed not in (None, found):
        raise source.lacks(f"config.json has {list(layout.claimed or ())} for 'video_latent_shape', not {list(found)}")
    return shape
