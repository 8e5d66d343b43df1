"""Causal language models of transformers, as objects or from a folder.

They keep their own attention, cache and masks: a pass feeds the tokens after the cached ones, and rejected drafts are
removed from the cache. A model whose state cannot be cut (a recurrent one) is fed the whole text in every pass. A
folder is loaded with the class that AutoModelForCausalLM selects for its `model_type`.
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, GenerationConfig
from typing_extensions import override

from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.models.chat import ChatOptions, RenderedPrompt, check_guidance, check_length
from draftscope.engines.models.checkpoint_files import GENERATION, LARGEST, CheckpointDir
from draftscope.engines.models.checkpoints.build import built_network, card_of, meta_network
from draftscope.engines.models.checkpoints.causal_network import (
    NetworkTraits,
    check_network,
    ends_of,
    estimate_cached_numel,
    feed,
    new_cache,
    traits_of,
)
from draftscope.engines.models.checkpoints.families import type_of
from draftscope.engines.models.devices import parse_devices
from draftscope.engines.models.errors import ModelWarning
from draftscope.engines.models.fast_decoder import LeanCausalLM, is_supported
from draftscope.engines.models.memory import MemoryRequirement, cached_numbers, check_cache
from draftscope.engines.models.sessions.causal import SlotCache
from draftscope.engines.models.sessions.discrete import DiscreteSession
from draftscope.engines.models.token_texts import decoded_text, token_text
from draftscope.engines.models.tokenizer_files import encode_template, encode_text, read_chat_tokenizer, special_tokens
from draftscope.engines.models.torch_model import Networked, count_parameters
from draftscope.engines.models.transformers_api import input_device, use_default_attention
from draftscope.engines.models.vocabularies import check_vocabularies
from draftscope.engines.protocol import Family, Model, Task
from draftscope.engines.sampling.distributions import GuidedSampling
from draftscope.traces.schema import Canvas, Legend, ModelCard, Output


@dataclass(frozen=True, slots=True)
class SharedTokens:
    """Tokens that a drafter has in common with its target."""

    width: int
    """Size of the target's vocabulary."""
    ids: Int[Tensor, " N"]
    """The ids that may be drafted."""
    rows: int
    """Tokens that the drafter can read; others, of its target, are replaced by token 0."""

    def read(self, text: Int[Tensor, " T"]) -> Int[Tensor, " T"]:
        """The text as the drafter reads it."""
        return torch.where(text < self.rows, text, 0)

    def spread(self, logits: Float[Tensor, "W D"]) -> Float[Tensor, "W V"]:
        """Logits over the target's vocabulary, -inf for tokens that are not drafted."""
        spread = logits.new_full((len(logits), self.width), -torch.inf)
        spread[:, self.ids] = logits[:, self.ids]
        return spread


class CausalText(Networked):
    """A model of the family discrete-ar that writes: what objects and folders share."""

    families: tuple[Family, ...] = ("discrete-ar",)
    card: ModelCard
    device: torch.device
    ends: tuple[int, ...]
    """End-of-sequence ids."""
    _tokenizer: Any
    _traits: NetworkTraits
    _width: int
    _longest: int
    """Positions, prompt included; 0 for any number."""
    _ids: tuple[int, ...] | None = None
    """The prompt as ids; None where prompts are texts."""
    _chat = ChatOptions()
    _shared: SharedTokens | None = None
    """Common tokens of a drafter and a target with another vocabulary; None for the same one."""

    @property
    def vocabulary(self) -> Mapping[str, int] | None:
        """Ids by token; None without a tokenizer that lists them."""
        listed = getattr(self._tokenizer, "get_vocab", None)
        return None if listed is None else cast("Mapping[str, int]", listed())

    def drafting_for(self, target: Model, tasks: Sequence[Task]) -> "CausalText":
        """Return the same network as a drafter for another model.

        Args:
            target: Model that verifies the drafts. The drafter may have further tokens, which are not drafted, and lack
                some, for which it never proposes a draft.
            tasks: Tasks of the run; their prompts and lengths must fit the drafter.

        Raises:
            ValueError: If an id is of two tokens, a token has two ids, or the texts are too long for it; the message
                names a token.
        """
        for task in tasks if self._longest else ():
            check_length(len(task.prompt_ids), task.length, self._longest, self.card.id)
        one, other = target.vocabulary if isinstance(target, CausalText) else None, self.vocabulary
        if one is None or other is None or (one == other and tasks[0].vocab_size == self._width):
            check_vocabularies(target, cast(Model, self))
            return self
        names = {number: token for token, number in one.items()}
        if any(one.get(token, number) != number for token, number in other.items()) or any(
            names.get(number, token) != token for token, number in other.items()
        ):
            check_vocabularies(target, cast(Model, self))
        largest = min(tasks[0].vocab_size, self._width)
        ids = torch.tensor(sorted(i for i in names.keys() & set(other.values()) if i < largest), device=self.device)
        rows = int(self.network.config.get_text_config().vocab_size)
        same = copy(self)
        same._shared = SharedTokens(tasks[0].vocab_size, ids, rows)
        return same

    @property
    def prompt(self) -> str:
        """The prompt's text, as far as there is one without being given."""
        return self._chat.question or self.text_of(self._ids or ())

    def text_of(self, ids: Sequence[int]) -> str:
        """The text of some ids; empty without a tokenizer."""
        return "" if self._tokenizer is None else decoded_text(self._tokenizer, ids)

    @property
    def has_template(self) -> bool:
        """Whether its tokenizer has a chat template."""
        return bool(getattr(self._tokenizer, "chat_template", None))

    def answer_text(self, tokens: Sequence[int | None]) -> str:
        """The text of an answer as a conversation continues it: up to its end, without special tokens."""
        stop = next((i for i, token in enumerate(tokens) if token in self.ends), len(tokens))
        special = special_tokens(self._tokenizer)
        return self.text_of([token for token in tokens[:stop] if token is not None and token not in special])

    def with_chat(self, chat: ChatOptions) -> "CausalText":
        """Return the same network with other chat options."""
        same = copy(self)
        same._chat = chat
        return same

    def make_task(self, prompt: str, config: GuidedSampling) -> Task:
        """Build the decoding task of a prompt."""
        check_guidance(config.uses_guidance, self.card.id)
        field, ids, rendered = "ids", self._ids, RenderedPrompt("", False, {})
        if ids is None:
            field, (rendered, ids) = "prompt", self._read(prompt)
        if self._longest:
            check_length(len(ids), config.length, self._longest, self.card.id, field)
        canvas = Canvas(kind="text", shape=(config.length,))
        about: dict[str, Any] = {"rendered_prompt": rendered.text, "chat": rendered.record}
        return Task(canvas, self._width, self.device, prompt_ids=ids, eos_token_ids=self.ends, **about)

    def _read(self, prompt: str) -> tuple[RenderedPrompt, tuple[int, ...]]:
        """The prompt as the model reads it, and its ids."""
        if self._tokenizer is None:
            raise ValueError("ids: are missing; give ids=..., or tokenizer=... to read a prompt with.")
        rendered = self._chat.render(self._tokenizer, prompt, self.card.id)
        encode = encode_template if rendered.is_template else encode_text
        return rendered, read_ids(encode(self._tokenizer, rendered.text), self.device, self._width)

    def make_legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """The text of the tokens that occur."""
        if self._tokenizer is None:
            return Legend(ends=self.ends)
        met = {token for canvas in canvases.values() for token in canvas if token is not None}.union(mentioned)
        return Legend(vocabulary={i: token_text(self._tokenizer, i) for i in sorted(met)}, ends=self.ends)

    def render_output(self, tokens: Sequence[int | None]) -> Output:
        """The text up to its end, without a last character that is not whole."""
        if self._tokenizer is None:
            return Output(tokens=tuple(tokens))
        stop = next((i for i, token in enumerate(tokens) if token in self.ends), len(tokens))
        return Output(tokens=tuple(tokens), text=self.text_of([token for token in tokens[:stop] if token is not None]))

    def open_session(self, tasks: Sequence[Task], guided: bool) -> "CausalLMSession":
        """Open a session, one sequence per task."""
        return CausalLMSession(self.network, tasks, self._width, self._traits, self._shared)


class CausalLM(CausalText):
    """A network of transformers, given as an object."""

    def __init__(self, network: Any, field: str = "target", tokenizer: Any = None, ids: Any = None) -> None:
        """Wrap a network.

        Args:
            network: A causal language model of transformers.
            field: Name of the network in messages.
            tokenizer: Reads prompts and names tokens; None for prompts given as ids.
            ids: Prompt as a list or a tensor [N] or [1, N], instead of text.

        Raises:
            ValueError: As `check_network` and `read_ids`.
        """
        check_network(network, field)
        self._traits = traits_of(network, field)
        self.network, self._tokenizer, self.num_parameters = network, tokenizer, count_parameters(network)
        self.device = input_device(network)
        config = network.config.get_text_config()
        self._width = int(config.vocab_size)
        self._longest = int(getattr(config, "max_position_embeddings", 0) or 0)
        self._ids = None if ids is None else read_ids(ids, self.device, self._width)
        self.ends = ends_of(network)
        name = str(getattr(network.config, "name_or_path", "") or "")
        kind = type(network).__name__
        self.card = ModelCard(id=(Path(name).name if Path(name).is_dir() else name) or kind, title=kind)

    @property
    def token_space(self) -> int:
        """How many ids there are: all that two models without a common tokenizer can be compared by."""
        return self._width

    def with_prompt_of(self, other: "CausalLM") -> "CausalLM":
        """Return the same network with the prompt of another."""
        same = copy(self)
        same._ids, same._chat = other._ids, other._chat
        return same


class CausalCheckpoint(CausalText):
    """A network that was read from a folder, with its tokenizer."""

    def __init__(self, network: Any, tokenizer: Any, card: ModelCard, device: torch.device) -> None:
        """Wrap a network, in its lean form (`engines.models.fast_decoder`) where it has one; prompts go to `device`."""
        self.num_parameters, self.card, self.device = count_parameters(network), card, device
        self.ends, self._longest, self._traits = ends_of(network), _longest(network.config), traits_of(network, "model")
        self.network = LeanCausalLM(network) if is_supported(getattr(network, "model", None)) else network
        self._tokenizer = tokenizer
        # A head may be wider than its vocabulary, for speed, and a tokenizer have tokens that no head predicts.
        self._width = min(max(self.token_space.values()) + 1, int(network.config.get_text_config().vocab_size))

    @property
    def token_space(self) -> Mapping[str, int]:
        """Ids by token. A model verifies another's drafts only where both have the same."""
        return cast("Mapping[str, int]", self._tokenizer.get_vocab())

    @override
    def open_session(self, tasks: Sequence[Task], guided: bool) -> "CausalLMSession":
        positions = sum(len(task.prompt_ids) + task.length for task in tasks)
        needed = positions * self._traits.cached_numel * self.dtype.itemsize
        check_cache(self.card.id, needed, str(self.device), len(tasks))
        return super().open_session(tasks, guided)


def is_causal(model_type: str | None) -> bool:
    """Whether transformers has a causal language model of this `model_type`."""
    return model_type in CONFIG_MAPPING and CONFIG_MAPPING[model_type] in MODEL_FOR_CAUSAL_LM_MAPPING


def load(source: CheckpointDir, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> CausalCheckpoint:
    """The model of a folder; see `families`."""
    (kind, config), tokenizer = _class_and_config(source), read_chat_tokenizer(source)
    card = card_of(source, type_of(settings) or "")
    network, unused = built_network(source, kind, config, source.tensors(), dtype, device)
    network.generation_config = _generation_config(source, config)
    try:
        check_network(network, type_of(settings) or "")
        model = CausalCheckpoint(network, tokenizer, card, torch.device(parse_devices(device)[0]))
    except ValueError as error:
        raise source.unsupported(str(error)) from error
    if unused:
        others = f", and so are {len(unused) - 1} more" if unused[1:] else ""
        message = f"{source.name}: tensor {unused[0]!r} is not used{others}; {kind.__name__} has no place for it."
        warnings.warn(message, ModelWarning, stacklevel=2)
    return model


def needs(source: CheckpointDir, settings: Mapping[str, Any]) -> MemoryRequirement:
    """The memory that the model of a folder needs; see `families`."""
    kind, config = _class_and_config(source)
    network = meta_network(source, kind, config)
    position = estimate_cached_numel(network)
    if position is None:
        position = cached_numbers(config)
    return MemoryRequirement(count_parameters(network), position=position, stored=source.format())


def _class_and_config(source: CheckpointDir) -> tuple[Any, Any]:
    """The class that AutoModelForCausalLM selects for a folder, and its config, as transformers reads it."""
    try:
        config = AutoConfig.from_pretrained(source.folder, local_files_only=True, trust_remote_code=False)
        use_default_attention(config)
    except Exception as error:  # of many kinds, also of validators
        raise source.unsupported(f"config.json is refused: {error}") from error
    return MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], config


def _generation_config(source: CheckpointDir, config: Any) -> Any:
    """The options of `generate`: those of generation_config.json or, where there is no such file, of config.json."""
    if not (source.folder / GENERATION).is_file():
        return GenerationConfig.from_model_config(config)
    try:
        return GenerationConfig.from_pretrained(source.folder, local_files_only=True)
    except Exception as error:  # of many kinds, also of validators
        raise source.unsupported(f"{GENERATION} is refused: {error}") from error


def _longest(config: Any) -> int:
    """How many positions a text may have, as a config says."""
    text = config.get_text_config()
    longest = int(getattr(text, "max_position_embeddings", 0) or LARGEST)
    rope = getattr(text, "rope_parameters", None) or {}
    # After the original length of longrope the cached keys would need another rotation.
    original = rope.get("original_max_position_embeddings") if rope.get("rope_type") == "longrope" else None
    return min(longest, int(original or longest))


class CausalLMSession(DiscreteSession):
    """Each sequence has a cache of its own; requests of one call are answered one after the other."""

    def __init__(
        self,
        network: Any,
        tasks: Sequence[Task],
        width: int,
        traits: NetworkTraits,
        shared: SharedTokens | None = None,
    ) -> None:
        self.network, self._width, self._traits, self._shared = network, width, traits, shared
        self._is_lean = isinstance(network, LeanCausalLM)  # `network` may be wrapped later, to time it
        self.prefix = max(len(task.prompt_ids) for task in tasks)
        home = input_device(network)
        self._prompts = [torch.tensor(task.prompt_ids, device=home) for task in tasks]
        self._caches: list[Any] = [self._new_cache(len(task.prompt_ids) + task.length) for task in tasks]
        self._taps: tuple[int, ...] = ()
        self._seen: dict[int, tuple[int, Tensor]] = {}

    def _new_cache(self, positions: int) -> Any:
        """An empty cache for a text; None for a network whose cache cannot be cut."""
        if self._is_lean:
            return SlotCache(len(self.network.model.layers), positions)
        return new_cache(self.network) if self._traits.has_cache else None

    def record_hidden_states(self, taps: tuple[int, ...]) -> None:
        """Record the hidden states after these layers of a fast network, and the last, until `pop_hidden_states`."""
        self._taps = taps

    def pop_hidden_states(self, sequence: int) -> tuple[int, Float[Tensor, "T S"]] | None:
        """Return the first index of the hidden states recorded since the last call, and the states, concatenated.

        Or None.
        """
        return self._seen.pop(sequence, None)

    @override
    @torch.inference_mode()
    def logits(self, requests: Mapping[int, ProbsRequest]) -> Tensor:
        rows = [self._row(sequence, request) for sequence, request in requests.items()]
        rows = [self._shared.spread(row) for row in rows] if self._shared else rows
        max_length = max(len(row) for row in rows)
        return torch.stack([torch.nn.functional.pad(row, (0, 0, 0, max_length - len(row))) for row in rows])[:, None]

    def _row(self, sequence: int, request: ProbsRequest) -> Tensor:
        """Logits [W, V] of the positions that a sequence asks for."""
        text = torch.cat([self._prompts[sequence], request.tokens.to(self._prompts[sequence])])
        text = self._shared.read(text) if self._shared else text
        first = len(self._prompts[sequence]) + request.num_final - 1
        cache, start, wanted = self._caches[sequence], 0, len(text) - first
        if cache is not None:
            stored = cache.get_seq_length()
            start = min(stored, len(self._prompts[sequence]) + request.num_cached, first)
            if start < stored:
                cache.crop(start - stored)
        ids = text[start:][None]
        if not self._is_lean:
            return feed(self.network, self._traits, ids, cache, start, wanted)[:, : self._width]
        out = self.network(ids, cache, wanted, self._taps)
        if self._taps:
            states = torch.cat([*out.tapped, out.last_hidden_state], -1)[0]
            first, earlier = self._seen.get(sequence, (start, states[:0]))
            self._seen[sequence] = (first, torch.cat([earlier[: start - first], states]))
        assert out.logits is not None
        return cast(Tensor, out.logits[0, :, : self._width])

    @override
    def cost(self, request: ProbsRequest) -> tuple[int, int]:
        if self._caches[0] is None:
            return 1, self.prefix + len(request.tokens)
        return super().cost(request)


def read_ids(ids: Any, device: torch.device, vocabulary: int) -> tuple[int, ...]:
    """Return a prompt's ids on the host.

    Args:
        ids: Output of a tokenizer: a list, a tensor of shape [n] or [1, n], or a mapping with `input_ids`.
        device: Device of the model, on which a tensor must be.
        vocabulary: Number of ids that the model has.

    Raises:
        ValueError: If there are several texts, the tensor is on another device, or an id is out of range.
    """
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
        raise ValueError("ids: must be a list of at least one integer; give what the tokenizer returns.")
    wrong = next((i for i in rows if not 0 <= i < vocabulary), None)
    if wrong is not None:
        raise ValueError(f"ids: {wrong} is outside the vocabulary of {vocabulary}; use the tokenizer of the model.")
    return tuple(rows)
