"""Diffusion language models on networks of transformers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from draftscope.engines.diffusion_lm.block_sequence import TextSampling, TextTask, text_canvas
from draftscope.engines.models.chat import check_guidance, check_length, check_no_special_tokens, check_not_empty
from draftscope.engines.models.fast_decoder import lean
from draftscope.engines.models.memory import cached_numbers, check_cache
from draftscope.engines.models.sessions.block import BlockSession, Network, TokenSession
from draftscope.engines.models.token_texts import decoded_text, token_text
from draftscope.engines.models.torch_model import Networked, count_parameters, hidden_states
from draftscope.engines.protocol import Family, Task
from draftscope.engines.sampling.distributions import GuidedSampling
from draftscope.traces.schema import Canvas, Legend, ModelCard, Output

_WHOLE_VOCABULARY: Final = 4096
"""Vocabularies up to this size go into a trace as a whole; of larger ones, what occurs."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Differences between families of diffusion language models; see `TextTask`."""

    mask: int
    ends: tuple[int, ...]
    shift: bool = False
    full: bool = False
    sizes: tuple[int, ...] = ()
    """Block sizes that were trained; empty for any."""
    longest: int = 512
    prompt_form: tuple[str, str] = ("", "\n")
    """Text before and after a prompt."""
    begins: tuple[int, ...] = ()
    """Ids that every text begins with."""
    read: Callable[[str], str] = str.strip
    """A prompt as it is put, without these; raises ValueError for one that the model was not made for."""
    causal: bool = False


class DiffusionLM(Networked):
    """A model of the family diffusion-lm; with blocks of one token a block-causal one is a causal one, too."""

    def __init__(
        self, network: nn.Module, tokenizer: Tokenizer, kind: Traits, card: ModelCard, device: torch.device
    ) -> None:
        """Wrap a causal-LM class of transformers, whose own attention mask is always overridden.

        A network on several devices, of which `device` is the first, stays there.
        """
        self.card, self.device, self.kind = card, device, kind
        self.families: tuple[Family, ...] = ("diffusion-lm",) if kind.full else ("diffusion-lm", "discrete-ar")
        self.num_parameters = count_parameters(network)
        self.network = network.eval()
        if len({weight.device for weight in network.parameters()}) == 1:
            self.network.to(device)
            self.network.model = lean(self.network.model)
        self._tokenizer = tokenizer
        # A head may be wider than its vocabulary, for speed: further ids are not tokens.
        self._width = max(tokenizer.get_vocab().values()) + 1
        self._special = {i: token.content for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        self._special[kind.mask] = tokenizer.id_to_token(kind.mask) or ""

    @property
    def token_space(self) -> Mapping[str, int]:
        """Ids by token. A model verifies another's drafts only where both have the same."""
        return cast("Mapping[str, int]", self._tokenizer.get_vocab())

    def encode(self, text: str) -> tuple[int, ...]:
        """The ids of a text."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def read(self, prompt: str, length: int) -> tuple[int, ...]:
        """Return the ids of a prompt in the form that the model was trained on.

        Args:
            prompt: Text of the user.
            length: Tokens of the output, which must fit after the prompt.

        Raises:
            ValueError: If the prompt is empty, holds a special token, or is too long.
        """
        check_not_empty(prompt, "ask a question")
        check_no_special_tokens(prompt, filter(None, self._special.values()), self.card.id)
        before, suffix = self.kind.prompt_form
        ids = self.kind.begins + self.encode(before + self.kind.read(prompt) + suffix)
        check_length(len(ids), length, self.kind.longest, self.card.id)
        return ids

    def make_legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """The text of the tokens."""
        size = self._tokenizer.get_vocab_size()
        met = {token for canvas in canvases.values() for token in canvas if token is not None}.union(mentioned)
        ids = range(size) if size <= _WHOLE_VOCABULARY else sorted(met)
        return Legend(vocabulary={i: self._piece(i) for i in ids}, ends=self.kind.ends)

    def render_output(self, tokens: Sequence[int | None]) -> Output:
        """The text up to its end, without a last character that is not whole."""
        stop = next((i for i, token in enumerate(tokens) if token in self.kind.ends), len(tokens))
        text = decoded_text(self._tokenizer, [token for token in tokens[:stop] if token is not None])
        return Output(tokens=tuple(tokens), text=text)

    def _piece(self, token: int) -> str:
        if token in self._special:
            return self._special[token]
        name = self._tokenizer.id_to_token(token) or ""
        return name if name.startswith("<") and name.endswith(">") else token_text(self._tokenizer, token)

    def make_task(self, prompt: str, config: TextSampling | GuidedSampling) -> Task:
        """Build the decoding task of a prompt."""
        kind = self.kind
        if isinstance(config, GuidedSampling):
            check_guidance(config.uses_guidance, self.card.id)
            line = Canvas(kind="text", shape=(config.length,))
            return Task(
                line, self._width, self.device, prompt_ids=self.read(prompt, config.length), eos_token_ids=kind.ends
            )
        ids = self.read(prompt, config.length)
        if kind.sizes and config.size not in kind.sizes:
            sizes = ", ".join(map(str, kind.sizes[:-1])) + f" or {kind.sizes[-1]}"
            raise ValueError(f"block: {self.card.id} knows no blocks of {config.size}; use {sizes}.")
        canvas = text_canvas(config.length, config.size, 0 if kind.full or kind.causal else len(ids))
        traits = (kind.mask, kind.shift, kind.full, self.card, kind.causal)
        return TextTask(canvas, self._width, self.device, None, ids, kind.ends, *traits)

    def open_session(self, tasks: Sequence[Task], guided: bool) -> BlockSession | TokenSession:
        """Open a session, one sequence per task."""
        slots = (
            max(len(task.prompt_ids) + task.length for task in tasks) + 64
        )  # tokens that are not stored come after a text
        layers = len(self.network.model.layers)
        if not self.kind.full:
            needed = len(tasks) * slots * cached_numbers(self.network.config) * self.dtype.itemsize
            check_cache(self.card.id, needed, str(self.device), len(tasks))
        network = Network(self._hidden, self._logits, layers, self.kind.mask, self.device)
        blocks = BlockSession(network, len(tasks), slots)
        if isinstance(tasks[0], TextTask):
            return blocks
        return TokenSession(blocks, [task.prompt_ids for task in tasks], self.kind.mask, shift=self.kind.shift)

    def _hidden(self, ids: Tensor, positions: Tensor, mask: Tensor, cache: Any) -> Tensor:
        states = hidden_states(self.network.model, positions, cache, mask, input_ids=ids)
        return states.to(self.device)  # where it has several

    def _logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self.network.lm_head(states)[..., : self._width]
        return logits.to(self.device)
