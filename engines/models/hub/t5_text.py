"""Features of texts: the encoder of FLAN-T5 (arXiv 2210.11416), from which LlamaGen's models of texts draw.

It is read from a folder of transformers' layout; the decoder beside it is neither checked nor loaded.
"""

from collections.abc import Sequence
from typing import Any, Final

import torch
from jaxtyping import Float
from tokenizers import Tokenizer
from torch import Tensor
from transformers import T5Config, T5EncoderModel

from engines.models.hub.assembling import check_fixed, check_whole, filled, numbers, outlined, shapes_of
from engines.models.hub.prompts import TextPrompts
from engines.models.hub.published import read_tokenizer
from engines.models.weights import Source, read_tensors

TITLE: Final = "T5"
_END: Final = "</s>"
_SIZES: Final[dict[str, int | float]] = {
    "vocab_size": 32128,
    "d_model": 2048,
    "d_kv": 64,
    "d_ff": 5120,
    "num_layers": 24,
    "num_heads": 32,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
}
"""Of FLAN-T5 XL, where config.json is silent."""
_FIXED: Final = {"feed_forward_proj": "gated-gelu"}
_TWIN: Final = "encoder.embed_tokens.weight"
"""The embedding under another name, which some files have beside it."""
UNUSED: Final = ("decoder.", "lm_head.", _TWIN)
"""How names begin of what is not read."""
_DEEPEST: Final = 1000


class TextFeatures:
    """An encoder with its tokenizer."""

    def __init__(self, encoder: Any, tokenizer: Tokenizer, owner: str) -> None:
        """Wrap an encoder that lies on its device; `owner` is the model that messages speak of."""
        self._encoder = encoder
        self._text = TextPrompts(tokenizer, owner, _END)
        self.words = int(self._encoder.shared.num_embeddings)
        """Different ids."""
        self.width = int(self._encoder.shared.embedding_dim)
        """Numbers to a token."""

    def ids(self, prompt: str) -> tuple[int, ...]:
        """A visitor's prompt in small letters and its end; see `TextPrompts.checked`."""
        said = " ".join(self._text.checked(prompt).lower().split())
        return (*self._text.ids(said), self._text.named(_END))

    @torch.inference_mode()
    def features(self, ids: Sequence[int]) -> Float[Tensor, "N D"]:
        """What the encoder makes of a text."""
        found: Tensor = self._encoder(input_ids=torch.tensor([ids], device=self._encoder.shared.weight.device))[0]
        return found[0]


def read_features(source: Source, owner: str, device: str, dtype: torch.dtype) -> TextFeatures:
    """The encoder of a folder.

    Args:
        source: Where it is.
        owner: The model that draws from it.
        device: cpu, cuda, ...
        dtype: Of its weights; in float16, which its sums overflow, it is float32 in its place.

    Raises:
        ModelError: when it is not whole, or asks for another network.
    """
    settings = source.read_json("config.json")
    check_fixed(source, {"model_type": None, **settings}, {"model_type": "t5"} | _FIXED, TITLE)
    sizes = numbers(source, settings, _SIZES)
    if sizes["num_layers"] > _DEEPEST:
        raise source.lacks(f"config.json has {sizes['num_layers']} for 'num_layers', which is no network")
    config = T5Config(**sizes, **_FIXED)
    encoder = outlined(lambda: T5EncoderModel(config))
    wanted = {name: shape for name, shape in shapes_of(encoder).items() if name != _TWIN}
    found = read_tensors(source, wanted, TITLE, ignored=UNUSED)
    number = torch.float32 if dtype == torch.float16 else dtype
    encoder = filled(encoder, found | {_TWIN: found["shared.weight"]}, number)
    check_whole(encoder)
    tokenizer = read_tokenizer(source)
    if max(tokenizer.get_vocab().values()) >= config.vocab_size:
        raise source.lacks(f"config.json has {config.vocab_size} for 'vocab_size', and its tokenizer has more tokens")
    return TextFeatures(encoder.to(device), tokenizer, owner)
