"""Any causal language model of transformers: handed over as an object, or read from a folder.

It keeps its own attention, cache and masks: a pass feeds the tokens behind the cached ones, and rejected drafts are
cut off the cache. A model whose memory cannot be cut (a recurrent one) is fed the whole text in every pass. A folder is
read by the class that AutoModelForCausalLM names for its `model_type`.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from inspect import signature
from pathlib import Path
from typing import Any, Final, cast

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, DynamicCache
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from engines.ar.probs_request import Forward
from engines.models.chat import Chat, refuse_guidance, refuse_too_long
from engines.models.checkpoint_files import LARGEST, Source
from engines.models.checkpoints.build import card_of, native_config, native_network, parameters
from engines.models.checkpoints.families import type_of
from engines.models.devices import split
from engines.models.fast_decoder import LeanCausalLM, fits
from engines.models.memory import Needs, cached_numbers, check_cache
from engines.models.sessions.causal import SlotCache
from engines.models.sessions.discrete import DiscreteSession
from engines.models.tokenizer_files import ends_of, read_chat_tokenizer, size_of
from engines.models.torch_model import Networked, count_parameters
from engines.protocol import Family, Task
from engines.sampling.distributions import GuidedSampling
from traces.schema import Canvas, Legend, ModelCard, Output

_CUT: Final = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
"""Layers whose memory is a KV cache, which can be cut off at any token."""
_NOT_CAUSAL: Final = ("xlm", "xlnet")
"""Have a class for causal language models whose attention is not causal."""


class CausalText(Networked):
    """A model of the family discrete-ar that writes: what objects and folders share."""

    families: tuple[Family, ...] = ("discrete-ar",)
    card: ModelCard
    device: torch.device
    ends: tuple[int, ...]
    """Ids behind which nothing counts."""
    _tokenizer: Any
    _width: int
    _longest: int
    """Positions, prompt included; 0 for any number."""
    _ids: tuple[int, ...] | None = None
    """The prompt as ids; None where prompts are texts."""
    _chat = Chat()

    @property
    def prompt(self) -> str:
        """The prompt's text, as far as there is one without being given."""
        return self._chat.question or self.text_of(self._ids or ())

    def text_of(self, ids: Sequence[int]) -> str:
        """The text of some ids; empty without a tokenizer."""
        return "" if self._tokenizer is None else str(self._tokenizer.decode(list(ids)))

    def asked(self, chat: Chat) -> "CausalText":
        """The same network, whose prompts are put another way."""
        same = copy(self)
        same._chat = chat
        return same

    def make_task(self, prompt: str, config: GuidedSampling) -> Task:
        """See `engines.protocol.Model.make_task`."""
        refuse_guidance(config.guided, self.card.id)
        field, ids, text = "ids", self._ids, ""
        if ids is None:
            field, (text, ids) = "prompt", self._read(prompt)
        if self._longest:
            refuse_too_long(len(ids), config.length, self._longest, self.card.id, field)
        canvas = Canvas(kind="text", shape=(config.length,))
        return Task(canvas, self._width, self.device, prompt=ids, ends=self.ends, rendered=text)

    def _read(self, prompt: str) -> tuple[str, tuple[int, ...]]:
        """The prompt as the model reads it, and its ids."""
        if self._tokenizer is None:
            raise ValueError("ids: are missing; give ids=..., or tokenizer=... to read a prompt with.")
        text, whole = self._chat.render(self._tokenizer, prompt, self.card.id)
        given = self._tokenizer(text, add_special_tokens=False) if whole else self._tokenizer(text)
        return text, read_ids(given["input_ids"], self.device, self._width)

    def legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """The text of the tokens that occur."""
        if self._tokenizer is None:
            return Legend(ends=self.ends)
        met = {token for canvas in canvases.values() for token in canvas if token is not None}.union(mentioned)
        return Legend(vocabulary={i: str(self._tokenizer.decode([i])) for i in sorted(met)}, ends=self.ends)

    def output(self, tokens: Sequence[int | None]) -> Output:
        """The text up to its end."""
        if self._tokenizer is None:
            return Output(tokens=tuple(tokens))
        stop = next((i for i, token in enumerate(tokens) if token in self.ends), len(tokens))
        text = self._tokenizer.decode([token for token in tokens[:stop] if token is not None])
        return Output(tokens=tuple(tokens), text=str(text))

    def start(self, tasks: Sequence[Task], guided: bool) -> "CausalLMSession":
        """See `engines.protocol.Model.start`."""
        return CausalLMSession(self._network, tasks, self._width)


class CausalLM(CausalText):
    """A network of transformers that was handed over."""

    def __init__(self, network: Any, field: str = "target", tokenizer: Any = None, ids: Any = None) -> None:
        """Wrap a network as it is; messages call it `field`.

        The `tokenizer` reads prompts and names tokens, where there is one. `ids` are the prompt as a list or a tensor
        [N] or [1, N], where prompts are no texts. Raises ValueError as `check_network` and `read_ids` do.
        """
        check_network(network, field)
        self._network, self._tokenizer, self.parameters = network, tokenizer, count_parameters(network)
        self.device = network.device
        config = network.config.get_text_config()
        self._width = int(config.vocab_size)
        self._longest = int(getattr(config, "max_position_embeddings", 0) or 0)
        self._ids = None if ids is None else read_ids(ids, self.device, self._width)
        ends = getattr(getattr(network, "generation_config", None), "eos_token_id", None)
        self.ends = () if ends is None else tuple(ends) if isinstance(ends, list | tuple) else (int(ends),)
        name = str(getattr(network.config, "name_or_path", "") or "")
        kind = type(network).__name__
        self.card = ModelCard(id=(Path(name).name if Path(name).is_dir() else name) or kind, title=kind)

    @property
    def tokens(self) -> int:
        """How many ids there are: all that two models without a common tokenizer can be compared by."""
        return self._width

    def asked_as(self, other: "CausalLM") -> "CausalLM":
        """The same network, asked what another is asked."""
        same = copy(self)
        same._ids, same._chat = other._ids, other._chat
        return same


class CausalCheckpoint(CausalText):
    """A network that was read from a folder, with its tokenizer."""

    def __init__(
        self, network: Any, tokenizer: Any, card: ModelCard, place: torch.device, longest: int, ends: tuple[int, ...]
    ) -> None:
        """Wrap a network, in its lean form (`engines.models.fast_decoder`) where it has one; prompts go to `place`."""
        self.parameters, self.card, self.device = count_parameters(network), card, place
        self._network = LeanCausalLM(network) if fits(getattr(network, "model", None)) else network
        self._tokenizer, self._longest, self.ends = tokenizer, longest, ends
        # A head may be wider than its vocabulary, for the sake of speed: what lies beyond is no token.
        self._width = max(self.tokens.values()) + 1

    @property
    def tokens(self) -> Mapping[str, int]:
        """Ids by token. A model verifies another's drafts only where both have the same."""
        return cast("Mapping[str, int]", self._tokenizer.get_vocab())

    def start(self, tasks: Sequence[Task], guided: bool) -> "CausalLMSession":
        """See `engines.protocol.Model.start`."""
        positions = sum(len(task.prompt) + task.length for task in tasks)
        needed = positions * cached_numbers(self._network.config) * self.dtype.itemsize
        check_cache(self.card.id, needed, str(self.device), len(tasks))
        return super().start(tasks, guided)


def is_causal(model_type: str | None) -> bool:
    """Whether transformers has a causal language model of this `model_type`."""
    return model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and model_type not in _NOT_CAUSAL


def load(source: Source, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> CausalCheckpoint:
    """The model of a folder; see `table`."""
    (kind, config), tokenizer = _class_and_config(source, settings), read_chat_tokenizer(source)
    size = size_of(source, tokenizer, int(config.get_text_config().vocab_size))
    ends, card = ends_of(source, settings, size), card_of(source, type_of(settings) or "")
    network = native_network(source, kind, config, source.tensors(), dtype, device=device)
    try:
        check_network(network, type_of(settings) or "")
    except ValueError as error:
        raise source.unsupported(str(error)) from error
    return CausalCheckpoint(network, tokenizer, card, torch.device(split(device)[0]), _longest(config), ends)


def needs(source: Source, settings: Mapping[str, Any]) -> Needs:
    """The memory that the model of a folder needs; see `table`."""
    kind, config = _class_and_config(source, settings)
    return Needs(parameters(source, kind, config), position=cached_numbers(config), stored=source.format())


def _class_and_config(source: Source, settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """The class of a config.json whose attention is causal, and its config."""
    config = native_config(source, CONFIG_MAPPING[settings["model_type"]], settings)
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "is_decoder", True) is False:
        raise source.unsupported(f"a {config.model_type} is an encoder, which does not predict the next token")
    return MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], config


def _longest(config: Any) -> int:
    """How many positions a text may have, as a config says."""
    text = config.get_text_config()
    longest = int(getattr(text, "max_position_embeddings", 0) or LARGEST)
    rope = getattr(text, "rope_parameters", None) or {}
    # Behind the original length of longrope the keys that are cached would have to turn again.
    original = rope.get("original_max_position_embeddings") if rope.get("rope_type") == "longrope" else None
    return min(longest, int(original or longest))


class CausalLMSession(DiscreteSession):
    """Each sequence has a cache of its own; those that ask together are answered one behind the other."""

    def __init__(self, network: Any, tasks: Sequence[Task], width: int) -> None:
        self._network, self._width = network, width
        self.prefix = max(len(task.prompt) for task in tasks)
        self._prompts = [torch.tensor(task.prompt, device=network.device) for task in tasks]
        self._caches: list[Any] = [_cache(network, len(task.prompt) + task.length) for task in tasks]
        self._keeps = "logits_to_keep" in signature(network.forward).parameters
        self._taps: tuple[int, ...] = ()
        self._seen: dict[int, tuple[int, Tensor]] = {}

    def watch(self, taps: tuple[int, ...]) -> None:
        """Keep the hidden states behind these layers of a lean network, and the last, until they are `taken`."""
        self._taps = taps

    def taken(self, sequence: int) -> tuple[int, Float[Tensor, "T S"]] | None:
        """Where the hidden states of all passes since this was called begin, and they, side by side; None without."""
        return self._seen.pop(sequence, None)

    @torch.inference_mode()
    def logits(self, requests: Mapping[int, Forward]) -> Tensor:
        """See `engines.models.sessions.discrete.DiscreteSession.logits`."""
        rows = [self._row(sequence, request) for sequence, request in requests.items()]
        most = max(len(row) for row in rows)
        return torch.stack([torch.nn.functional.pad(row, (0, 0, 0, most - len(row))) for row in rows])[:, None]

    def _row(self, sequence: int, request: Forward) -> Tensor:
        """Logits [W, V] of the positions that a sequence asks for."""
        text = torch.cat([self._prompts[sequence], request.tokens.to(self._prompts[sequence])])
        first = len(self._prompts[sequence]) + request.done - 1
        cache, start, wanted = self._caches[sequence], 0, len(text) - first
        if cache is not None:
            stored = cache.get_seq_length()
            start = min(stored, len(self._prompts[sequence]) + request.cached, first)
            if start < stored:
                cache.crop(start - stored)
        given = {"past_key_values": cache, "use_cache": cache is not None, "return_dict": True}
        given |= {"logits_to_keep": wanted} if self._keeps else {}
        out = self._network(input_ids=text[start:][None], **given, **({"taps": self._taps} if self._taps else {}))
        if self._taps:
            states = torch.cat([*out.tapped, out.last_hidden_state], -1)[0]
            first, earlier = self._seen.get(sequence, (start, states[:0]))
            self._seen[sequence] = (first, torch.cat([earlier[: start - first], states]))
        return cast(Tensor, out.logits[0, -wanted:, : self._width])

    def cost(self, request: Forward) -> tuple[int, int]:
        """See `DiscreteSession.cost`."""
        if self._caches[0] is None:
            return 1, self.prefix + len(request.tokens)
        return super().cost(request)


def _cache(network: Any, positions: int) -> Any:
    """An empty cache for a text; None for a network whose memory cannot be cut."""
    if isinstance(network, LeanCausalLM):
        return SlotCache(len(network.model.layers), positions)
    layers = getattr(network.config.get_text_config(), "layer_types", None) or ()
    return DynamicCache() if set(layers) <= _CUT and not getattr(network, "_is_stateful", False) else None


def check_network(given: object, field: str) -> None:
    """Raise ValueError for what is no causal language model of transformers that is ready to be asked."""
    network: Any = given
    kind = type(given).__name__
    remedy = "give a causal language model, as AutoModelForCausalLM loads it."
    if not (isinstance(given, torch.nn.Module) and hasattr(network, "config") and hasattr(network, "device")):
        raise ValueError(f"{field}: a {kind} is no model of transformers; {remedy}")
    if getattr(network.config, "is_encoder_decoder", False):
        raise ValueError(f"{field}: {kind} is an encoder-decoder, which has no prompt to go on from; {remedy}")
    if not getattr(network, "can_generate", lambda: False)() or network.get_output_embeddings() is None:
        raise ValueError(f"{field}: {kind} has no head that predicts the next token; {remedy}")
    if network.training:
        raise ValueError(f"{field}: {kind} is in training mode, where dropout changes every pass; call {field}.eval().")


def read_ids(ids: Any, device: torch.device, vocabulary: int) -> tuple[int, ...]:
    """A prompt's ids on the host; raises ValueError for several texts, another device, or what is no token."""
    values = ids["input_ids"] if isinstance(ids, Mapping) else ids
    if isinstance(values, Tensor):
        if values.device != device:
            raise ValueError(f"ids: are on {values.device} and the model on {device}; use ids.to({str(device)!r}).")
        values = values.tolist()
    rows = list(values) if isinstance(values, Sequence) and not isinstance(values, str) else []
    if len(rows) == 1 and isinstance(rows[0], Sequence):
        rows = list(rows[0])
    if rows and isinstance(rows[0], Sequence):
        raise ValueError(f"ids: hold {len(rows)} texts; give one, such as ids[:1].")
    if not rows or any(isinstance(i, bool) or not isinstance(i, int) for i in rows):
        raise ValueError("ids: are no list of at least one whole number; give what the tokenizer returns.")
    wrong = next((i for i in rows if not 0 <= i < vocabulary), None)
    if wrong is not None:
        raise ValueError(f"ids: {wrong} is outside the vocabulary of {vocabulary}; use the tokenizer of the model.")
    return tuple(rows)
