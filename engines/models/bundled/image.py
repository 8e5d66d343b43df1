"""The studio image model: prompt to picture, with weights that ship in assets/models."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn

from engines.assets import ASSETS
from engines.models.bundled.manifest import READS, entry_of, verify
from engines.models.bundled.networks import (
    CODES,
    DRAFTER,
    GRID,
    Classifier,
    PictureDecoder,
    Tokenizer,
    Transformer,
    TransformerSize,
    condition_ids,
)
from engines.models.bundled.prompts import parse_prompt
from engines.models.lean import lean
from engines.models.networked import count_parameters
from engines.models.pictures import Draws, as_uri
from engines.models.sessions.causal import CausalSession
from engines.protocol import Family, Task
from engines.sampling.distributions import Sampling
from traces.schema import Canvas, Legend, ModelCard, Patches, Token

ID: Final = "studio-image"
FOLDER: Final = ASSETS / "models"
_TOKENIZER: Final = "image-tokenizer"
_DECODER: Final = "image-decoder"
_MOST_PATCHES: Final = 1024
"""Tokens that a trace has pictures of: about 10 kB."""
_PATCHES_ACROSS: Final = 32


@dataclass(frozen=True, slots=True)
class _Entry:
    """One of the studio image models, which share the tokenizer."""

    title: str
    file: str
    size: TransformerSize


_ENTRIES: Final = {
    ID: _Entry("Studio image model, 96x96", "image-ar", TransformerSize()),
    "studio-image-draft": _Entry("Studio image model, small drafter", "image-draft", DRAFTER),
}


@dataclass(frozen=True, slots=True)
class PromptTask(Task):
    """A picture to decode."""

    conditions: tuple[int | None, int | None, int | None] = (None, None, None)
    """Garment, tint and background; None where the prompt leaves it open."""


class StudioImage(Draws):
    """Transformer over the codes of a VQ tokenizer, conditioned on garment, tint and background, and their decoder."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        decoder: PictureDecoder,
        transformer: Transformer,
        device: torch.device,
        card: ModelCard,
    ) -> None:
        self.card = card
        self.device, self.dtype = device, torch.float32
        self.families: tuple[Family, ...] = ("discrete-ar",)
        self.tokens = card.weights.get(f"{_TOKENIZER}.safetensors", "")
        """What its tokens mean: models with the same tokenizer can draft for each other."""
        self._codebook = tokenizer.codebook.detach().to(device)
        self._decoder = decoder.to(device).eval()
        self._transformer = transformer.to(device).eval()
        self.parameters = count_parameters(transformer)
        transformer.backbone = lean(transformer.backbone)
        self._embedding = self._codebook.double()

    def make_task(self, prompt: str, config: Sampling) -> "PromptTask":
        """See `engines.protocol.Model.make_task`."""
        canvas = Canvas(kind="image", shape=(GRID, GRID))
        parsed = parse_prompt(prompt)
        conditions = (parsed.garment, parsed.tint, parsed.background)
        return PromptTask(canvas, CODES, self.device, self._embedding, conditions=conditions)

    def start(self, tasks: Sequence["PromptTask"], guided: bool) -> CausalSession:
        """See `engines.protocol.Model.start`."""
        rows = [[-1 if value is None else value for value in task.conditions] for task in tasks]
        values = torch.tensor([[row, [-1] * len(row)] if guided else [row] for row in rows], device=self.device)
        prefixes = condition_ids(values.flatten(0, 1)).reshape(values.shape)
        return CausalSession(self._transformer, prefixes, GRID**2, len(self._transformer.backbone.layers))

    def legend(self, canvases: Mapping[int, Sequence[Token | None]], mentioned: Collection[int] = ()) -> Legend:
        """Pictures of the canvas, and of the tokens that are mentioned."""
        return replace(super().legend(canvases), patches=self._patches(sorted(mentioned)[:_MOST_PATCHES]))

    def _patches(self, ids: Sequence[int]) -> Patches | None:
        """Each token as it looks among its like: the middle of three by three of it."""
        if not ids:
            return None
        size = self._decoder.patch
        codes = torch.tensor(ids, device=self.device)[:, None, None].expand(-1, 3, 3)
        pictures = self._drawn(codes)[:, :, size : 2 * size, size : 2 * size]
        columns = min(_PATCHES_ACROSS, len(ids))
        sheet = pictures.new_zeros(-(-len(ids) // columns) * columns, *pictures.shape[1:])
        sheet[: len(ids)] = pictures
        rows = sheet.unflatten(0, (-1, columns)).permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)  # [H, W, 3]
        array = ((rows + 1) * 127.5).round().clamp(0, 255).byte().cpu().numpy()
        return Patches(image=as_uri(Image.fromarray(array), "WEBP"), size=size, columns=columns, ids=tuple(ids))

    def pixels(self, codes: Tensor) -> Tensor:
        """Codes [B, 144] to images [B, 3, 96, 96] in [-1, 1]."""
        return self._drawn(codes.reshape(-1, GRID, GRID).to(self.device))

    def _drawn(self, codes: Tensor) -> Tensor:
        """Codes [B, H, W] to images in [-1, 1]."""
        with torch.inference_mode():
            pictures: Tensor = self._decoder(self._codebook[codes])
        return pictures.clamp(-1, 1)

    def pixels_of(self, canvases: Sequence[Sequence[Token | None]]) -> Tensor:
        """See `Draws.pixels_of`; open positions hold the code nearest to the mean of the codebook."""
        book = self._codebook
        blank = int((book - book.mean(0)).square().sum(-1).argmin())
        return self.pixels(torch.tensor([[blank if t is None else t for t in tokens] for tokens in canvases]))


def load_weights(network: nn.Module, name: str) -> dict[str, str]:
    """Load shipped weights in float32, from one file or from a folder of shards.

    Returns:
        File -> sha256, as the manifest has them. Shards are named with their folder.

    Raises:
        ModelError: when a file is missing or is not the one in the manifest.
    """
    script = name.replace("patch-", "patch ") if name.startswith("patch-") else name.replace("-", "_")
    remedy = f"Restore assets/models from the repository, or retrain it with: python -m training.{script}"
    others = {entry.file: model_id for model_id, entry in _ENTRIES.items()}
    owner = name if name.startswith("patch-") else "studio-video" if name.startswith("video-") else others.get(name, ID)
    entry = entry_of(FOLDER, name, owner)
    shards: dict[str, str] = entry.get("files", {})
    listed = {f"{name}/{file}": digest for file, digest in shards.items()}
    listed = listed or {f"{name}.safetensors": entry.get("sha256", "")}
    state: dict[str, Tensor] = {}
    verify(FOLDER, {**listed, **entry.get(READS, {})}, owner, remedy)
    for file in listed:
        state |= {key: weight.float() for key, weight in load_file(FOLDER / file).items()}
    network.load_state_dict(state)
    return listed


@cache
def load(model_id: str = ID, device: str = "cpu") -> StudioImage:
    """A studio image model, loaded once per device and shared.

    Raises:
        ModelError: when files are missing or are not those in the manifest.
    """
    entry = _ENTRIES[model_id]
    tokenizer, decoder, transformer = Tokenizer(), PictureDecoder(), Transformer(entry.size)
    weights = load_weights(tokenizer, _TOKENIZER) | load_weights(decoder, _DECODER)
    card = ModelCard(id=model_id, title=entry.title, weights=weights | load_weights(transformer, entry.file))
    return StudioImage(tokenizer, decoder, transformer, torch.device(device), card)


@cache
def load_classifier() -> Classifier:
    """The network that reads garment, tint and background off a picture."""
    network = Classifier()
    load_weights(network, "image-classifier")
    return network.eval()
