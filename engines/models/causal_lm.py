"""Any causal language model of transformers that is handed over as an object, with a tokenizer or without.

It keeps its own attention, cache and masks: a pass feeds the tokens behind the cached ones, and rejected drafts are
cut off the cache. A model whose memory cannot be cut (a recurrent one) is fed the whole text in every pass.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from transformers import DynamicCache

from engines.ar.request import Forward
from engines.models.discrete import DiscreteSession
from engines.protocol import Family, Task
from engines.sampling.distributions import GuidedSampling
from traces.schema import Canvas, Legend, ModelCard, Output

_CUT: Final = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
"""Layers whose memory is keys and values, which can be cut off at any token."""


class CausalLM:
    """A model of the family discrete-ar around an object of transformers."""

    families: tuple[Family, ...] = ("discrete-ar",)

    def __init__(self, network: Any, field: str = "target", tokenizer: Any = None, ids: Any = None) -> None:
        """Wrap a network as it is.

        Args:
            network: A transformers model with a head that predicts the next token.
            field: What messages call it.
            tokenizer: Reads prompts and names tokens; None where ids are all there is.
            ids: The prompt as ids, a list or a tensor [N] or [1, N]; None where prompts are texts.

        Raises:
            ValueError: for a model that does not predict the next token or is in training mode, and for ids that it
                cannot read.
        """
        check_network(network, field)
        self._network, self._tokenizer = network, tokenizer
        self.device: torch.device = network.device
        config = network.config.get_text_config()
        self._width = int(config.vocab_size)
        self._longest = int(getattr(config, "max_position_embeddings", 0) or 0)
        self._ids = None if ids is None else read_ids(ids, self.device, self._width)
        name = str(getattr(network.config, "name_or_path", "") or "")
        kind = type(network).__name__
        self.card = ModelCard(id=(Path(name).name if Path(name).is_dir() else name) or kind, title=kind)

    @property
    def dtype(self) -> torch.dtype:
        """What the network computes in."""
        found: torch.dtype = self._network.dtype
        return found

    @property
    def tokens(self) -> int:
        """How many ids there are: all that two models without a common tokenizer can be compared by."""
        return self._width

    @property
    def parameters(self) -> int:
        """See `engines.protocol.Model.parameters`."""
        return sum(weight.numel() for weight in self._network.parameters())

    @property
    def ends(self) -> tuple[int, ...]:
        """Ids behind which nothing counts, as the model's generation config has them."""
        settings = getattr(self._network, "generation_config", None)
        found = getattr(settings, "eos_token_id", None)
        return () if found is None else tuple(found) if isinstance(found, list | tuple) else (int(found),)

    @property
    def prompt(self) -> str:
        """The prompt's text, as far as there is a tokenizer to tell it."""
        return self.text_of(self._ids or ())

    def text_of(self, ids: Sequence[int]) -> str:
        """The text of some ids; empty without a tokenizer."""
        return "" if self._tokenizer is None else str(self._tokenizer.decode(list(ids)))

    def asked_as(self, other: "CausalLM") -> "CausalLM":
        """The same network, asked what another is asked."""
        found = copy(self)
        found._ids = other._ids
        return found

    def pose(self, prompt: str, config: GuidedSampling) -> Task:
        """See `engines.protocol.Model.pose`."""
        if config.guided:
            raise ValueError(f"guidance: {self.card.id} cannot run without its prompt, as guidance does; use 1.")
        ids = self._ids if self._ids is not None else self._read(prompt)
        room = self._longest - config.length
        if self._longest and len(ids) > room:
            raise ValueError(
                f"ids: the prompt has {len(ids)} tokens, and {self.card.id} has room for {room} beside an answer of "
                f"{config.length}; shorten it or lower length."
            )
        canvas = Canvas(kind="text", shape=(config.length,))
        return Task(canvas, self._width, self.device, prompt=ids, ends=self.ends)

    def _read(self, prompt: str) -> tuple[int, ...]:
        if self._tokenizer is None:
            raise ValueError("ids: are missing; give ids=..., or tokenizer=... to read a prompt with.")
        return read_ids(self._tokenizer(prompt)["input_ids"], self.device, self._width)

    def start(self, tasks: Sequence[Task], guided: bool) -> "CausalLMSession":
        """See `engines.protocol.Model.start`."""
        return CausalLMSession(self._network, [task.prompt for task in tasks], self._width)

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


class CausalLMSession(DiscreteSession):
    """Each lane has a cache of its own; lanes that ask together are answered one behind the other."""

    def __init__(self, network: Any, prompts: Sequence[tuple[int, ...]], width: int) -> None:
        self._network, self._width = network, width
        self.prefix = max(map(len, prompts))
        self._prompts = [torch.tensor(prompt, device=network.device) for prompt in prompts]
        self._caches: list[Any] = [DynamicCache() if can_cut(network) else None for _ in prompts]

    @torch.inference_mode()
    def logits(self, requests: Mapping[int, Forward]) -> Tensor:
        """See `engines.models.discrete.DiscreteSession.logits`."""
        rows = [self._row(lane, request) for lane, request in requests.items()]
        most = max(len(row) for row in rows)
        return torch.stack([torch.nn.functional.pad(row, (0, 0, 0, most - len(row))) for row in rows])[:, None]

    def _row(self, lane: int, request: Forward) -> Tensor:
        """Logits [W, V] of the positions that a lane asks for."""
        text = torch.cat([self._prompts[lane], request.tokens.to(self._prompts[lane])])
        first = len(self._prompts[lane]) + request.done - 1
        cache = self._caches[lane]
        start = 0
        if cache is not None:
            stored = cache.get_seq_length()
            start = min(stored, len(self._prompts[lane]) + request.cached, first)
            if start < stored:
                cache.crop(start - stored)
        out = self._network(
            input_ids=text[start:][None], past_key_values=cache, use_cache=cache is not None, return_dict=True
        )
        logits: Tensor = out.logits[0, first - start :, : self._width]
        return logits

    def cost(self, request: Forward) -> tuple[int, int]:
        """See `engines.protocol.Session.cost`."""
        if self._caches[0] is None:
            return 1, self.prefix + len(request.tokens)
        return super().cost(request)


def can_cut(network: Any) -> bool:
    """Whether rejected drafts can be cut off the network's memory."""
    layers = getattr(network.config.get_text_config(), "layer_types", None) or ()
    return not getattr(network, "_is_stateful", False) and set(layers) <= _CUT


def check_network(given: object, field: str) -> None:
    """See that an object is a causal language model of transformers, ready to be asked.

    Raises:
        ValueError: where it is not; the message says what it is and what to do.
    """
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


def check_drafter(target: CausalLM, draft: CausalLM) -> None:
    """See that one model can draft for another.

    Raises:
        ValueError: where their vocabularies differ in size, or they live on different devices.
    """
    if draft.tokens != target.tokens:
        raise ValueError(
            f"draft: {draft.card.id} has {draft.tokens} tokens and {target.card.id} has {target.tokens}, so one cannot "
            "verify the other's drafts; give a smaller model of the same vocabulary."
        )
    if draft.device != target.device:
        raise ValueError(
            f"draft: is on {draft.device} and the target on {target.device}; use draft.to({str(target.device)!r})."
        )


def read_ids(ids: Any, device: torch.device, vocabulary: int) -> tuple[int, ...]:
    """A prompt's ids on the host.

    Raises:
        ValueError: for ids on another device, of several texts, or that are no tokens; the message says what to do.
    """
    found = ids["input_ids"] if isinstance(ids, Mapping) else ids
    if isinstance(found, Tensor):
        if found.device != device:
            raise ValueError(f"ids: are on {found.device} and the model on {device}; use ids.to({str(device)!r}).")
        found = found.tolist()
    rows = list(found) if isinstance(found, Sequence) and not isinstance(found, str) else []
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
