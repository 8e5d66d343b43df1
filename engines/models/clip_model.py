"""Continuing a clip: what models of video have in common, whatever their networks are.

A clip is codes, latent frame by latent frame. Those of its first frames are given and go before the canvas; the others
are the canvas. A prompt that reads `codes ...` holds the given ones, two bytes each, in base64: what a file of one's
own is turned into, so that a trace says all that was given and the file is not needed.
"""

import base64
import binascii
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from engines.config import ConfigError
from engines.models.causal_session import CausalSession
from engines.models.clip_files import read_clip
from engines.models.networked import Networked
from engines.models.pictures import as_uri
from engines.protocol import Family, Task
from engines.sampling.distributions import Sampling
from traces.schema import Canvas, Frame, Legend, ModelCard, Output

_CODES: Final = re.compile(r"codes\s+([A-Za-z0-9+/]+={0,2})")


@dataclass(frozen=True, slots=True)
class ClipShape:
    """Of what size clips are, and how much of them is given."""

    frames: int
    given_frames: int
    span: int
    """Frames to a latent frame; the first has one of its own."""
    rows: int
    """Of codes in a latent frame."""
    columns: int
    cell: int
    """Pixels to a code, each way."""
    codes: int
    """Different ones; at most 2 ** 16."""

    @property
    def plane(self) -> int:
        """Codes of a latent frame."""
        return self.rows * self.columns

    @property
    def latents(self) -> int:
        """Latent frames of a clip."""
        return 1 + (self.frames - 1) // self.span

    @property
    def given(self) -> int:
        """Codes that are given."""
        return (1 + (self.given_frames - 1) // self.span) * self.plane

    @property
    def canvas(self) -> tuple[int, int, int]:
        """What is decoded: latent frames, rows, columns."""
        return self.latents - self.given // self.plane, self.rows, self.columns


@dataclass(frozen=True, slots=True)
class Pictures:
    """How much of a clip a trace holds as pictures."""

    most: int = 64
    """Pictures of the canvas, spread evenly over the passes of a run."""
    together: int = 16
    """Clips that are decoded at once for them."""
    longest: int | None = None
    """Pixels of the longer side that larger frames are shrunk to; None leaves all as they are."""


def pack(codes: Sequence[int]) -> str:
    """The prompt that gives a clip by the codes of its first frames."""
    return "codes " + base64.b64encode(np.asarray(codes, "<u2").tobytes()).decode()


def unpack(prompt: str, count: int, codes: int) -> tuple[int, ...] | None:
    """The codes of a prompt that `pack` made; None for a prompt of another kind.

    Args:
        prompt: as it was said.
        count: how many codes are given.
        codes: how many different ones there are.

    Raises:
        ConfigError: where it is not `count` codes.
    """
    match = _CODES.fullmatch(prompt.strip())
    if match is None:
        return None
    try:
        data = base64.b64decode(match[1], validate=True)
    except binascii.Error:
        data = b""
    found = tuple(np.frombuffer(data, "<u2").tolist()) if len(data) == 2 * count else ()
    if not found or max(found) >= codes:
        raise ConfigError(f"prompt: these are not {count} codes below {codes}; give the clip's file again.")
    return found


class ClipModel(Networked):
    """A model of the family discrete-ar that continues clips."""

    families: tuple[Family, ...] = ("discrete-ar",)

    def __init__(self, card: ModelCard, device: torch.device, shape: ClipShape, pictures: Pictures) -> None:
        self.card, self.device = card, device
        self.shape, self._pictures = shape, pictures

    @property
    @abstractmethod
    def embedding(self) -> Float[Tensor, "K D"]:
        """Where codes lie."""

    @property
    @abstractmethod
    def blank(self) -> int:
        """The code that stands for open positions in pictures."""

    @property
    @abstractmethod
    def tokens(self) -> str:
        """What its tokens mean: models with the same tokenizer can draft for each other."""

    @abstractmethod
    def logits(
        self, ids: Tensor, positions: Tensor, cache: object = None, mask: Tensor | None = None
    ) -> Float[Tensor, "B N K"]:
        """What `engines.models.causal_session.CausalSession` calls its network as."""

    @abstractmethod
    def given_by(self, prompt: str) -> tuple[int, ...]:
        """The given codes that a prompt asks for.

        Raises:
            ConfigError: for a prompt that names no clip.
        """

    @abstractmethod
    def encode(self, frames: UInt8[Tensor, "F H W 3"]) -> Int[Tensor, " N"]:
        """Codes of the first frames of a clip, in the order of the canvas."""

    @abstractmethod
    def decode(self, codes: Int[Tensor, "B N"]) -> UInt8[Tensor, "B F H W 3"]:
        """Codes, whole latent frames of them from a clip's first on, to frames, on the CPU."""

    def pose(self, prompt: str, config: Sampling) -> Task:
        """See `engines.protocol.Model.pose`; a prompt is never a path."""
        if config.guided:
            raise ValueError(f"guidance: {self.card.id} cannot run without its clip, as guidance does; use 1.")
        given = self.given_by(prompt)
        canvas = Canvas(kind="video", shape=self.shape.canvas)
        return Task(canvas, self.shape.codes, self.device, self.embedding, given, drawing=self._drawing(given))

    def start(self, tasks: Sequence[Task], guided: bool) -> CausalSession:
        """See `engines.protocol.Model.start`."""
        prefixes = torch.tensor([[task.prompt] for task in tasks], device=self.device)
        return CausalSession(self.logits, prefixes, tasks[0].length, self.layers)

    @property
    @abstractmethod
    def layers(self) -> int:
        """Layers whose keys and values are cached."""

    def legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """See `engines.protocol.Drawing.legend`; without a prompt, `blank` stands for what was given."""
        return self._drawing((self.blank,) * self.shape.given).legend(canvases, mentioned)

    def output(self, tokens: Sequence[int | None]) -> Output:
        """See `engines.protocol.Drawing.output`; without a prompt, `blank` stands for what was given."""
        return self._drawing((self.blank,) * self.shape.given).output(tokens)

    def prompt_for(self, data: bytes) -> str:
        """The prompt that gives the first frames of a GIF or MP4.

        Raises:
            ConfigError: see `engines.models.clip_files.read_clip`.
        """
        shape = self.shape
        clip = read_clip(data, shape.given_frames, shape.cell * shape.rows, shape.cell * shape.columns)
        return pack(self.encode(clip.to(self.device)).tolist())

    def examples(self, count: int) -> Sequence[tuple[str, str]]:
        """Prompts to begin with, at most `count`, each with what it shows; none where no clip ships."""
        return ()

    def given(self, prompt: str) -> UInt8[Tensor, "F H W 3"]:
        """The frames that a prompt gives, as they come out of their codes."""
        return self.decode(torch.tensor([self.given_by(prompt)]))[0]

    def continued(self, prompt: str, tokens: Sequence[int]) -> UInt8[Tensor, "F H W 3"]:
        """The whole clip: what the prompt gives, and its continuation by `tokens`."""
        return self.decode(torch.tensor([[*self.given_by(prompt), *tokens]]))[0]

    def _drawing(self, given: tuple[int, ...]) -> "ClipDrawing":
        return ClipDrawing(self.decode, given, self.blank, self.shape, self._pictures)


@dataclass(frozen=True, slots=True)
class ClipDrawing:
    """Draws the canvas behind the codes that were given: a latent frame is decoded with those before it."""

    decode: Callable[[Tensor], Tensor]
    given: tuple[int, ...]
    blank: int
    shape: ClipShape
    pictures: Pictures

    def legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """Pictures of the canvas, drafts included: the last frame of every predicted latent frame, side by side."""
        steps, together = sorted(canvases), self.pictures.together
        if len(steps) > self.pictures.most:
            steps = [steps[round(i)] for i in np.linspace(0, len(steps) - 1, self.pictures.most)]
        frames: list[Frame] = []
        for i in range(0, len(steps), together):
            chunk = steps[i : i + together]
            clips = self._clips([canvases[step] for step in chunk])
            last = clips[:, self.shape.given_frames + self.shape.span - 1 :: self.shape.span]
            frames += [
                Frame(step=step, image=as_uri(_side_by_side([self._shrunk(frame) for frame in strip]), "WEBP"))
                for step, strip in zip(chunk, last, strict=True)
            ]
        return Legend(frames=tuple(frames))

    def output(self, tokens: Sequence[int | None]) -> Output:
        """All frames of the clip; the given ones as they come out of their codes."""
        video = tuple(as_uri(self._shrunk(frame), "PNG") for frame in self._clips([tokens])[0])
        return Output(tokens=tuple(tokens), video=video, given=self.shape.given_frames)

    def _clips(self, canvases: Sequence[Sequence[int | None]]) -> UInt8[Tensor, "B F H W 3"]:
        """Open positions hold `blank`, and viewers mark them."""
        return self.decode(
            torch.tensor([[*self.given, *(self.blank if t is None else t for t in tokens)] for tokens in canvases])
        )

    def _shrunk(self, frame: UInt8[Tensor, "H W 3"]) -> Image.Image:
        picture, longest = Image.fromarray(frame.numpy()), self.pictures.longest
        if longest is not None and max(picture.size) > longest:
            picture.thumbnail((longest, longest), Image.Resampling.BOX)
        return picture


def _side_by_side(pictures: Sequence[Image.Image]) -> Image.Image:
    return Image.fromarray(np.concatenate([np.asarray(picture) for picture in pictures], 1))
