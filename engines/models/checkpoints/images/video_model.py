"""Continuation of clips: common parts of video models.

A clip is codes, latent frame by latent frame. Those of its first frames are given, the others are the canvas. A prompt
`codes ...` holds the given ones, two bytes each, in base64: the form of an uploaded file.
"""

import base64
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from draftscope.engines.models.chat import check_guidance
from draftscope.engines.models.image_rendering import ImageLimits, as_uri, frames, shrunk
from draftscope.engines.models.sessions.causal import CausalSession
from draftscope.engines.models.torch_model import Networked, count_parameters
from draftscope.engines.models.video_files import read_clip
from draftscope.engines.protocol import Family, Task
from draftscope.engines.sampling.distributions import Sampling
from draftscope.engines.settings import ConfigError
from draftscope.traces.schema import Canvas, Legend, ModelCard, Output

_CODES: Final = re.compile(r"codes\s+([A-Za-z0-9+/]+={0,2})")


@dataclass(frozen=True, slots=True)
class ClipShape:
    """Size of clips, and of their given part."""

    frames: int
    given_frames: int
    span: int
    """Frames to a latent frame; the first has one of its own."""
    rows: int
    """Rows of codes in a latent frame."""
    columns: int
    cell: int
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
    def num_given(self) -> int:
        """Codes that are given."""
        return (1 + (self.given_frames - 1) // self.span) * self.plane

    @property
    def canvas(self) -> tuple[int, int, int]:
        """Shape of the canvas: latent frames, rows, columns."""
        return self.latents - self.num_given // self.plane, self.rows, self.columns


def pack(codes: Sequence[int]) -> str:
    """The prompt that gives a clip by the codes of its first frames."""
    return "codes " + base64.b64encode(np.asarray(codes, "<u2").tobytes()).decode()


def unpack(prompt: str, count: int, codes: int) -> tuple[int, ...] | None:
    """Return the codes of a prompt that `pack` made; None for a prompt of another kind.

    Args:
        prompt: Prompt of a run.
        count: Number of codes that it must hold.
        codes: Size of the codebook.

    Raises:
        ConfigError: If it holds another number of codes, or one that is too large.
    """
    match = _CODES.fullmatch(prompt.strip())
    if match is None:
        return None
    try:
        values = tuple(np.frombuffer(base64.b64decode(match[1], validate=True), "<u2").tolist())
    except ValueError:  # no base64, or half a code
        values = ()
    if len(values) != count or max(values) >= codes:
        raise ConfigError(f"prompt: these are not {count} codes below {codes}; give the clip's file again.")
    return values


class ClipModel(Networked, ABC):
    """A model of the family discrete-ar that continues clips."""

    families: tuple[Family, ...] = ("discrete-ar",)
    embedding: Float[Tensor, "K D"]
    placeholder_code: int
    """Code that is drawn at open positions."""
    token_space: str
    """Models with the same tokenizer can draft for each other."""
    layers: int

    def __init__(
        self, network: Any, card: ModelCard, device: torch.device, shape: ClipShape, limits: ImageLimits
    ) -> None:
        self.network, self.num_parameters = network.to(device).eval(), count_parameters(network)
        self.card, self.device, self.shape, self.limits = card, device, shape, limits

    def logits(
        self, ids: Tensor, positions: Tensor, cache: Any = None, mask: Tensor | None = None
    ) -> Float[Tensor, "B N K"]:
        """Run the network; the signature of networks in `draftscope.engines.models.sessions.causal.CausalSession`."""
        return cast(Tensor, self.network(ids, positions, cache, mask))

    @abstractmethod
    def parse_prompt(self, prompt: str) -> tuple[int, ...]:
        """The given codes that a prompt asks for; raises ConfigError for a prompt that names no clip."""

    @abstractmethod
    def encode(self, frames: UInt8[Tensor, "F H W 3"]) -> Int[Tensor, " N"]:
        """Codes of the first frames of a clip, in the order of the canvas."""

    @abstractmethod
    def decode(self, codes: Int[Tensor, "B N"]) -> UInt8[Tensor, "B F H W 3"]:
        """Codes, whole latent frames of them from a clip's first on, to frames, on the CPU."""

    def make_task(self, prompt: str, config: Sampling) -> Task:
        """Build the task; a prompt is never a path."""
        check_guidance(config.uses_guidance, self.card.id, "clip")
        given_ids = self.parse_prompt(prompt)
        canvas = Canvas(kind="video", shape=self.shape.canvas)
        return Task(
            canvas, self.shape.codes, self.device, self.embedding, given_ids, renderer=ClipDrawing(self, given_ids)
        )

    def open_session(self, tasks: Sequence[Task], guided: bool) -> CausalSession:
        """Open a session, one sequence per task."""
        prefixes = torch.tensor([[task.prompt_ids] for task in tasks], device=self.device)
        return CausalSession(self.logits, prefixes, tasks[0].length, self.layers)

    def make_legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """Return the legend; without a prompt, `placeholder_code` replaces the given codes."""
        return ClipDrawing(self, (self.placeholder_code,) * self.shape.num_given).make_legend(canvases, mentioned)

    def render_output(self, tokens: Sequence[int | None]) -> Output:
        """Return the clip."""
        return ClipDrawing(self, (self.placeholder_code,) * self.shape.num_given).render_output(tokens)

    def prompt_for(self, data: bytes) -> str:
        """The prompt that gives the first frames of a GIF or MP4; raises ConfigError as `read_clip` does."""
        shape = self.shape
        clip = read_clip(data, shape.given_frames, shape.cell * shape.rows, shape.cell * shape.columns)
        return pack(self.encode(clip.to(self.device)).tolist())

    def examples(self, count: int) -> Sequence[tuple[str, str]]:
        """Prompts to begin with, at most `count`, each with what it shows; none where no clip ships."""
        return ()

    def continued(self, prompt: str, tokens: Sequence[int] = ()) -> UInt8[Tensor, "F H W 3"]:
        """Return the frames that a prompt gives and their continuation, as they are decoded from codes.

        Args:
            prompt: Prompt of a run.
            tokens: Codes after those of the prompt; none for the given frames alone.
        """
        return self.decode(torch.tensor([[*self.parse_prompt(prompt), *tokens]]))[0]


@dataclass(frozen=True, slots=True)
class ClipDrawing:
    """Draws the canvas after the given codes: a latent frame is decoded together with earlier ones."""

    model: ClipModel
    given_ids: tuple[int, ...]

    def make_legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """Pictures of the canvas, drafts included: the last frame of every predicted latent frame, side by side."""
        return Legend(frames=frames(canvases, self._strips, self.model.limits))

    def render_output(self, tokens: Sequence[int | None]) -> Output:
        """All frames of the clip; the given ones as they come out of their codes."""
        clip = self._clips([tokens])[0].numpy()
        video = tuple(as_uri(shrunk(Image.fromarray(frame), self.model.limits), "PNG") for frame in clip)
        return Output(tokens=tuple(tokens), video=video, given=self.model.shape.given_frames)

    def _clips(self, canvases: Sequence[Sequence[int | None]]) -> UInt8[Tensor, "B F H W 3"]:
        """Open positions hold `blank`, and viewers mark them."""
        codes = [
            [*self.given_ids, *(self.model.placeholder_code if t is None else t for t in tokens)] for tokens in canvases
        ]
        return self.model.decode(torch.tensor(codes))

    def _strips(self, canvases: Sequence[Sequence[int | None]]) -> list[Image.Image]:
        shape, limits = self.model.shape, self.model.limits
        last = self._clips(canvases)[:, shape.given_frames + shape.span - 1 :: shape.span]
        strips = [[shrunk(Image.fromarray(frame), limits) for frame in strip] for strip in last.numpy()]
        return [Image.fromarray(np.concatenate([np.asarray(frame) for frame in strip], 1)) for strip in strips]
