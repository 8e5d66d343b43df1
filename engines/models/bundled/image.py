"""The studio image model: prompt to picture, with weights that ship in assets/models."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn
from typing_extensions import override

from draftscope.engines.models.bundled.catalog import card_of
from draftscope.engines.models.bundled.image_networks import (
    CODES,
    DRAFTER,
    GRID,
    PATCH,
    Tokenizer,
    Transformer,
    TransformerSize,
    condition_ids,
)
from draftscope.engines.models.bundled.manifest import READS, entry_of, verify
from draftscope.engines.models.bundled.prompts import Prompt, parse_prompt
from draftscope.engines.models.checkpoints.images.image_model import Ids, PictureModel
from draftscope.engines.models.fast_decoder import lean
from draftscope.engines.models.image_rendering import ImageLimits, as_uri
from draftscope.engines.models.sessions.image import PictureShape
from draftscope.engines.paths import ASSETS
from draftscope.traces.schema import Legend, ModelCard, Patches, Token

ID: Final = "studio-image"
FOLDER: Final = ASSETS / "models"
_TOKENIZER: Final = "image-tokenizer"
_MAX_PATCHES: Final = 1024
"""Tokens that a trace has pictures of: about 10 kB."""
_PATCHES_ACROSS: Final = 32
_MODELS: Final = {ID: ("image-ar", TransformerSize()), "studio-image-draft": ("image-draft", DRAFTER)}
"""Name of the weights and size of the transformer; the models share the tokenizer."""
_SILENT: Final = Prompt()


class StudioImage(PictureModel):
    """Transformer over the codes of a VQ tokenizer, conditioned on a thing and a scene."""

    limits = ImageLimits()

    def __init__(self, tokenizer: Tokenizer, transformer: Transformer, device: torch.device, card: ModelCard) -> None:
        book, shape = tokenizer.codebook.detach().to(device), PictureShape(GRID, GRID, CODES)
        super().__init__(transformer.to(device).eval(), transformer.backbone, book, shape, card)
        self._decoder = transformer.backbone = lean(transformer.backbone)
        self._tokenizer = tokenizer.to(device).eval()

    @override
    def prompts(self, prompt: str) -> tuple[Ids, Ids]:
        conditional, unconditional = condition_ids(torch.tensor([parse_prompt(prompt), _SILENT]), codes=0).tolist()
        return tuple(conditional), tuple(unconditional)

    def make_legend(self, canvases: Mapping[int, Sequence[Token | None]], mentioned: Collection[int] = ()) -> Legend:
        """Pictures of the canvas, and of the tokens that are mentioned."""
        return replace(super().make_legend(canvases), patches=self._patches(sorted(mentioned)[:_MAX_PATCHES]))

    def _patches(self, ids: Sequence[int]) -> Patches | None:
        """Each token as it looks among its like: the middle of three by three of it."""
        if not ids:
            return None
        codes = torch.tensor(ids, device=self.device)[:, None, None].expand(-1, 3, 3)
        with torch.inference_mode():
            pictures = self._tokenizer.decode(codes)[:, :, PATCH : 2 * PATCH, PATCH : 2 * PATCH]
        columns = min(_PATCHES_ACROSS, len(ids))
        sheet = pictures.new_zeros(-(-len(ids) // columns) * columns, *pictures.shape[1:])
        sheet[: len(ids)] = pictures
        rows = sheet.unflatten(0, (-1, columns)).permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)  # [H, W, 3]
        array = ((rows + 1) * 127.5).round().clamp(0, 255).byte().cpu().numpy()
        return Patches(image=as_uri(Image.fromarray(array), "WEBP"), size=PATCH, columns=columns, ids=tuple(ids))

    def pixels(self, codes: Tensor) -> Tensor:
        """Codes [B, 144] to images [B, 3, 96, 96] in [-1, 1]."""
        with torch.inference_mode():
            return self._tokenizer.decode(codes.reshape(-1, GRID, GRID).to(self.device))


def load_weights(network: nn.Module, name: str, owner: str = "") -> dict[str, str]:
    """Load shipped weights into a network, in float32.

    Args:
        network: Network with the parameters of the file.
        name: Name of the weights in the manifest, such as "image-tokenizer".
        owner: Model that errors begin with; by default the one that `name` belongs to.

    Returns:
        The files that were read, path -> SHA-256.

    Raises:
        ModelError: If a file is missing or is not the one in the manifest.
    """
    script = name.replace("patch-", "patch ") if name.startswith("patch-") else name.replace("-", "_")
    remedy = f"Restore assets/models from the repository, or retrain it with: python -m training.{script}"
    owner = owner or (name if name.startswith("patch-") else ID)
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
    """Return a studio image model, loaded once per device and shared.

    Args:
        model_id: One of the bundled image models.
        device: A single device, such as "cpu" or "cuda:0".

    Raises:
        ModelError: If a file is missing or is not the one in the manifest.
    """
    file, size = _MODELS[model_id]
    tokenizer, transformer = Tokenizer(), Transformer(size)
    card = card_of(model_id, load_weights(tokenizer, _TOKENIZER) | load_weights(transformer, file, model_id))
    return StudioImage(tokenizer, transformer, torch.device(device), card)
