"""Language models on native transformers classes: causal, block-causal or bidirectional, aligned or right-shifted."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from engines.diffusion_lm.sequence import BlockSettings, TextTask, text_canvas
from engines.models.block_session import BlockSession, Network
from engines.models.lean import lean
from engines.models.memory import cached_numbers, check_cache
from engines.models.token_session import TokenSession
from engines.protocol import Family, Task
from engines.sampling.distributions import GuidedSampling
from traces.schema import Canvas, Legend, ModelCard, Output

_WHOLE_VOCABULARY: Final = 4096
"""Vocabularies up to this size go into a trace as a whole; of larger ones, what occurs."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What sets a family of language models apart from another one of the same class."""

    mask: int | None
    """Id of an open position; None for a causal model, which knows none and is right-shifted."""
    ends: tuple[int, ...]
    """Ids that the text is cut at."""
    shift: bool = False
    full: bool = False
    sizes: tuple[int, ...] = ()
    """Block sizes that were trained; empty for any."""
    longest: int = 512
    """Positions, prompt included."""
    asks: tuple[str, str] = ("", "\n")
    """What stands before and behind a prompt."""
    begins: tuple[int, ...] = ()
    """Ids that every text begins with."""
    read: Callable[[str], str] = str.strip
    """A prompt as it is put, without these; raises ValueError for one that the model was not made for."""
    causal: bool = False
    """Whether a finished block is stored as a causal model would store it."""


class DiffusionLM:
    """A model of the family diffusion-lm, or, without a mask, a causal one."""

    def __init__(
        self, network: nn.Module, tokenizer: Tokenizer, kind: Kind, card: ModelCard, device: torch.device
    ) -> None:
        """Wrap a transformers causal-LM class, whose own attention mask is always overruled.

        One that `engines.models.spread` has put on several devices, the first of them `device`, stays there.
        """
        self.card, self.device, self.kind = card, device, kind
        # With blocks of one token a block-causal model is a causal one; a bidirectional one never is.
        blocks: tuple[Family, ...] = () if kind.mask is None else ("diffusion-lm",)
        self.families: tuple[Family, ...] = blocks if kind.full else (*blocks, "discrete-ar")
        self.parameters = sum(weight.numel() for weight in network.parameters())
        native: Any = network.eval()
        self._homes = list(dict.fromkeys(weight.device for weight in network.parameters()))
        if len(self._homes) == 1:
            self._homes = [device]
            native.to(device)
            native.model = lean(native.model)
        self._network = native
        self._tokenizer = tokenizer
        # A head may be wider than its vocabulary, for the sake of speed: what lies beyond is no token.
        self._width = max(tokenizer.get_vocab().values()) + 1
        names = {i: token.content for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        self._banned = () if kind.mask is None else (kind.mask,)
        self._special = names | {mask: tokenizer.id_to_token(mask) or "" for mask in self._banned}

    @property
    def dtype(self) -> torch.dtype:
        """What the network computes in."""
        found: torch.dtype = next(self._network.parameters()).dtype  # transformers' own walks all modules, every pass
        return found

    @property
    def tokens(self) -> Mapping[str, int]:
        """Ids by token. A model judges another's drafts only where both have the same."""
        found: Mapping[str, int] = self._tokenizer.get_vocab()
        return found

    def encode(self, text: str) -> tuple[int, ...]:
        """The ids of a text."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def pose(self, prompt: str, config: BlockSettings | GuidedSampling) -> Task:
        """See `engines.protocol.Model.pose`."""
        ids = self._read(prompt, config.length)
        kind = self.kind
        if isinstance(config, GuidedSampling):
            if config.guided:
                raise ValueError(f"guidance: {self.card.id} cannot run without its prompt, as guidance does; use 1.")
            line = Canvas(kind="text", shape=(config.length,))
            return Task(line, self._width, self.device, prompt=ids, ends=kind.ends)
        if kind.sizes and config.size not in kind.sizes:
            raise ValueError(f"block: {self.card.id} knows no blocks of {config.size}; use {_either(kind.sizes)}.")
        assert kind.mask is not None  # a causal model runs no method for blocks
        canvas = text_canvas(config.length, config.size, 0 if kind.full or kind.causal else len(ids))
        traits = (kind.mask, kind.shift, kind.full, self.card, kind.causal)
        return TextTask(canvas, self._width, self.device, None, ids, kind.ends, *traits)

    def _read(self, prompt: str, length: int) -> tuple[int, ...]:
        """The ids of a prompt as the model wants it put, with room behind it for `length` tokens."""
        if not prompt.strip():
            raise ValueError("prompt: is empty; ask a question.")
        for name in filter(None, self._special.values()):
            if name in prompt:
                raise ValueError(f"prompt: holds {name!r}, which {self.card.id} keeps for itself; leave it out.")
        before, behind = self.kind.asks
        ids = self.kind.begins + self.encode(before + self.kind.read(prompt) + behind)
        room = self.kind.longest - length
        if room < 1:
            raise ValueError(
                f"length: {length} is too much for {self.card.id}, which has room for {self.kind.longest} tokens, the "
                "prompt's included; use a smaller one."
            )
        if len(ids) > room:
            raise ValueError(
                f"prompt: has {len(ids)} tokens, and {self.card.id} has room for {room} beside an answer of "
                f"{length}; shorten it or lower length."
            )
        return ids

    def start(self, tasks: Sequence[Task], guided: bool) -> BlockSession | TokenSession:
        """See `engines.protocol.Model.start`."""
        slots = max(len(task.prompt) + task.length for task in tasks)
        layers = len(self._network.model.layers)
        if not self.kind.full:
            needed = len(tasks) * slots * cached_numbers(self._network.config) * self.dtype.itemsize
            check_cache(self.card.id, needed, ",".join(map(str, self._homes)), len(tasks))
        network = Network(self._hidden, self._logits, layers, self._banned, self.device, len(self._homes) > 1)
        blocks = BlockSession(network, len(tasks), slots + 1)
        if isinstance(tasks[0], TextTask):
            return blocks
        return TokenSession(blocks, [task.prompt for task in tasks], self.kind.mask or 0, shift=self.kind.shift)

    def legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """The text of the tokens."""
        size = self._tokenizer.get_vocab_size()
        met = {token for canvas in canvases.values() for token in canvas if token is not None}.union(mentioned)
        ids = range(size) if size <= _WHOLE_VOCABULARY else sorted(met)
        return Legend(vocabulary={i: self._piece(i) for i in ids}, ends=self.kind.ends)

    def output(self, tokens: Sequence[int | None]) -> Output:
        """The text up to its end."""
        kept = list(tokens)
        kept = kept[: next((i for i, token in enumerate(kept) if token in self.kind.ends), len(kept))]
        text = self._tokenizer.decode([token for token in kept if token is not None])
        return Output(tokens=tuple(tokens), text=text)

    def _hidden(self, ids: Tensor, positions: Tensor, mask: Tensor, cache: Any) -> Tensor:
        states: Tensor = self._network.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask.to(self.dtype),
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        return states

    def _logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self._network.lm_head(states)[..., : self._width]
        return logits

    def _piece(self, token: int) -> str:
        if token in self._special:
            return self._special[token]
        name = self._tokenizer.id_to_token(token) or ""
        return name if name.startswith("<") and name.endswith(">") else self._tokenizer.decode([token])


def _either(values: Sequence[int]) -> str:
    return ", ".join(map(str, values[:-1])) + f" or {values[-1]}"
