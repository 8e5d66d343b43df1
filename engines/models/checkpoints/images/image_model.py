"""Common parts of published image models: prompts, codes or latents, pictures of the canvas."""

import hashlib
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

import torch
from jaxtyping import Float, Int
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from draftscope.engines.continuous.denoising import ContinuousTask
from draftscope.engines.models.chat import check_no_special_tokens, check_not_empty
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.image_rendering import ImageLimits, RendersImages
from draftscope.engines.models.memory import cached_numbers, check_cache
from draftscope.engines.models.sessions.image import PictureSession, PictureShape, Prompts
from draftscope.engines.models.torch_model import Networked, count_parameters, hidden_states
from draftscope.engines.protocol import Family, Task
from draftscope.engines.sampling.distributions import GuidedSampling
from draftscope.traces.schema import Canvas, ModelCard, Token

_LIMITS: Final = ImageLimits(max_patches=16, together=4, longest=512)
"""Decoders of published models take seconds a picture on a CPU."""
CLASSES: Final = 1000
"""Number of ImageNet classes."""
Ids = tuple[int, ...]


class TextPrompts:
    """A tokenizer, and the special tokens that a model's prompts are made with."""

    def __init__(self, tokenizer: Tokenizer, owner: str, *special: str) -> None:
        self._tokenizer, self.owner = tokenizer, owner
        self.special: dict[str, int] = {}
        for name in special:
            token = tokenizer.token_to_id(name)
            if token is None:
                raise ModelError(f"{owner}: its tokenizer has no {name}. Fetch its tokenizer.json again.")
            self.special[name] = token
        added = tokenizer.get_added_tokens_decoder().values()
        self._reserved = {token.content for token in added if token.special} | set(special)

    def ids(self, text: str) -> Ids:
        """The ids of a text, with nothing added."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def checked(self, prompt: str) -> str:
        """A visitor's prompt; raises ValueError for one that is empty or holds a special token."""
        check_not_empty(prompt, "describe the picture")
        check_no_special_tokens(prompt, sorted(self._reserved), self.owner)
        return prompt.strip()


@dataclass(frozen=True, slots=True)
class ClassTask(ContinuousTask):
    """A picture of a class of ImageNet."""

    label: int = 0


def class_of(prompt: str) -> int:
    """The class of ImageNet that a prompt names; raises ValueError for anything but the number of one."""
    if not prompt.isdecimal() or int(prompt) >= CLASSES:
        raise ValueError(f"prompt: {prompt!r} is not an ImageNet class; give a number from 0 to {CLASSES - 1}.")
    return int(prompt)


@dataclass(frozen=True, slots=True)
class PictureTask(Task):
    """A picture to decode."""

    prompts: tuple[Ids, Ids] = ((), ())
    """Ids of the conditional prompt and of the unconditional one."""


class PictureModel(Networked, RendersImages):
    """A model of the family discrete-ar that draws pictures, and is guided by its prompt."""

    families: tuple[Family, ...] = ("discrete-ar",)
    limits = _LIMITS
    unit: ClassVar[bool] = False
    """Whether codes are on the unit sphere."""

    def __init__(
        self, network: nn.Module, decoder: Any, book: Float[Tensor, "K D"], shape: PictureShape, card: ModelCard
    ) -> None:
        """Wrap a network on the device of the codebook; its native `decoder` has the KV cache."""
        self.card, self.device, self.shape = card, book.device, shape
        self.network, self._decoder, self.num_parameters = network, decoder, count_parameters(network)
        self.embedding = F.normalize(book.double(), dim=-1) if self.unit else book.double()
        """Embeddings of the codes."""
        stored = book.detach().cpu().to(torch.bfloat16).view(torch.int16).numpy().tobytes()
        self.token_space = hashlib.sha256(str(tuple(book.shape)).encode() + stored).hexdigest()
        """Names the codebook, whatever number format it was stored in."""
        self.blank = int((self.embedding - self.embedding.mean(0)).square().sum(-1).argmin())
        """Code nearest to the mean of the codebook, drawn at open positions."""
        self.layers: int = len(decoder.layers)
        self._cached = cached_numbers(decoder.config)

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the transformer's computations; pixels are computed in float32."""
        return cast(torch.dtype, self._decoder.dtype)

    def logits(self, ids: Tensor, positions: Tensor, cache: Any = None, mask: Tensor | None = None) -> Tensor:
        """Logits [B, N, K] of the codes, as `CausalSession` asks for them; ids from K on belong to the prompt."""
        return cast(Tensor, self.network(ids, positions, cache, mask))

    @abstractmethod
    def prompts(self, prompt: str) -> tuple[Ids, Ids]:
        """Return the ids before the picture, with the prompt and without it.

        Raises ValueError for an unreadable prompt.
        """

    @abstractmethod
    def pixels(self, codes: Int[Tensor, "B N"]) -> Float[Tensor, "B 3 H W"]:
        """Codes in the order of the canvas to pictures in [-1, 1], which may be overstepped."""

    def make_task(self, prompt: str, config: GuidedSampling) -> PictureTask:
        """Build the decoding task of a prompt."""
        shape, prompts = self.shape, self.prompts(prompt)
        room = shape.longest - shape.fed
        if shape.longest and room < 1:
            raise ValueError(
                f"model: {self.card.id} has room for {shape.longest} tokens, and a picture alone takes {shape.fed}; "
                "correct the size of its picture or 'max_position_embeddings' in its config.json."
            )
        if shape.longest and len(prompts[0]) > room:
            raise ValueError(
                f"prompt: has {len(prompts[0])} tokens, and {self.card.id} has room for {room} before its picture; "
                "shorten it."
            )
        canvas = Canvas(kind="image", shape=(shape.rows, shape.columns))
        conditional, unconditional = (tuple(i + shape.codes for i in ids) for ids in prompts)
        return PictureTask(canvas, shape.codes, self.device, self.embedding, prompts=(conditional, unconditional))

    def open_session(self, tasks: Sequence[PictureTask], guided: bool) -> PictureSession:
        """Open a session; raises ModelError if there is no memory for the KV cache."""
        prompts: list[Prompts] = [task.prompts[: 1 + guided] for task in tasks]
        rows, longest = sum(map(len, prompts)), max(len(row) for rows in prompts for row in rows)
        positions = rows * (longest + self.shape.fed)
        check_cache(self.card.id, positions * self._cached * self.dtype.itemsize, str(self.device), len(prompts))
        return PictureSession(self.logits, prompts, self.shape, self.layers, self.device)

    def pixels_of(self, canvases: Sequence[Sequence[Token | None]]) -> Float[Tensor, "B 3 H W"]:
        """Draw canvases; open positions hold `blank`."""
        codes = [[t if isinstance(t, int) else self.blank for t in tokens] for tokens in canvases]
        return self.pixels(torch.tensor(codes, device=self.device))


class SharedVocabularyModel(PictureModel):
    """A model whose codes are tokens of the vocabulary that it writes in; its output layer keeps their rows alone."""

    def __init__(
        self, network: Any, decoder: Any, ids: Tensor, book: Float[Tensor, "K D"], shape: PictureShape, card: ModelCard
    ) -> None:
        """Wrap a network on its device, whose output layer is its own `lm_head`; `ids` [K] are the codes'."""
        super().__init__(network, decoder, book, shape, card)
        self._head, self._ids = network.lm_head, ids.to(book.device)
        self._head.weight = nn.Parameter(self._head.weight[self._ids], requires_grad=False)

    @override
    def logits(self, ids: Tensor, positions: Tensor, cache: Any = None, mask: Tensor | None = None) -> Tensor:
        codes = self.shape.codes
        words = torch.where(ids < codes, self._ids[ids.clamp(max=codes - 1)], ids - codes)
        return cast(Tensor, self._head(hidden_states(self._decoder, positions, cache, mask, input_ids=words)))


class LatentPictures(Networked, RendersImages):
    """A model of the family continuous-ar that draws latents of KL-16, or groups of them.

    All are held in float32: steps of denoising are narrow, down to a standard deviation of 0.006, and half precision
    would blur them.
    """

    families: ClassVar[tuple[Family, ...]] = ("continuous-ar",)
    limits = _LIMITS
    scale: ClassVar[float] = 0.2325
    """Standard deviation that tokens have after the autoencoder's latents were multiplied by it."""

    def __init__(
        self, network: nn.Module, autoencoder: Any, card: ModelCard, device: torch.device, width: int, sequence: Tensor
    ) -> None:
        """Wrap a network and the AutoencoderKL of its tokens: `width` numbers of latents in the `sequence` [L] each."""
        self.card, self.device, self._width = card, device, width
        self._sequence, self._side = sequence, math.isqrt(len(sequence))
        self.network, self._autoencoder = network.to(device).eval(), autoencoder.to(device).eval()
        self.num_parameters = count_parameters(self.network, self._autoencoder)

    def raster(self, tokens: Float[Tensor, "B N D"]) -> Float[Tensor, "B C h w"]:
        """Tokens in the order of generation, on the CPU, as the latents of pictures."""
        row = tokens.reshape(len(tokens), len(self._sequence), -1)
        placed = torch.zeros(row.shape).index_copy(1, self._sequence, row).transpose(1, 2)
        return cast(Tensor, placed.unflatten(2, (self._side, self._side)))

    def pixels(self, tokens: Float[Tensor, "B N D"]) -> Float[Tensor, "B 3 H W"]:
        """Pictures of tokens, nominally in [-1, 1]."""
        return cast(Tensor, self._autoencoder.decode(self.raster(tokens).to(self.device) / self.scale).sample)

    def pixels_of(self, canvases: Sequence[Sequence[Token | None]]) -> Float[Tensor, "B 3 H W"]:
        """Draw canvases; open positions hold the mean token."""
        blank = (0.0,) * self._width
        return self.pixels(
            torch.tensor([[t if isinstance(t, tuple) else blank for t in canvas] for canvas in canvases])
        )
