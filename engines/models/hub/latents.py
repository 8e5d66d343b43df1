"""Models whose tokens are latents of KL-16, or groups of them: how a canvas is drawn, and what else they share.

All of them are held in float32: steps of denoising are narrow, down to a standard deviation of 0.006, and half
precision would blur them.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Final

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor, nn

from engines.models.hub.assembling import PIXELS, folder_in
from engines.models.hub.compvis import PixelDecoder, read_decoder
from engines.models.picture_model import frames, images
from engines.models.pictures import as_uri
from engines.models.weights import Source
from engines.protocol import Family
from traces.schema import Legend, ModelCard, Output, Token

SCALE: Final = 0.2325
"""Standard deviation that tokens have after the autoencoder's latents were multiplied by it."""


class LatentPictures(ABC):
    """A model of the family continuous-ar that draws by an autoencoder."""

    families: ClassVar[tuple[Family, ...]] = ("continuous-ar",)
    dtype: ClassVar[torch.dtype] = torch.float32

    def __init__(
        self, network: nn.Module, decoder: PixelDecoder, card: ModelCard, device: torch.device, width: int
    ) -> None:
        """Wrap a network and the decoder of its tokens, which have `width` numbers, and put both where they run."""
        self.card, self.device, self._width = card, device, width
        self._network, self._decoder = network.to(device).eval(), decoder.to(device).eval()

    @property
    def parameters(self) -> int:
        """See `engines.protocol.Model.parameters`; the autoencoder's decoder is counted, too."""
        return sum(weight.numel() for part in (self._network, self._decoder) for weight in part.parameters())

    @abstractmethod
    def raster(self, tokens: Float[Tensor, "B N D"]) -> Float[Tensor, "B C h w"]:
        """Tokens in the order of generation, on the CPU, as the latents of pictures."""

    def legend(self, canvases: Mapping[int, Sequence[Token | None]], mentioned: Collection[int] = ()) -> Legend:
        """Pictures of the canvas, drafts included; open positions hold the mean token, and viewers mark them."""
        return Legend(frames=frames(canvases, self._drawn))

    def output(self, tokens: Sequence[Token | None]) -> Output:
        """The finished picture."""
        return Output(tokens=tuple(tokens), image=as_uri(self._drawn([tokens])[0], "PNG"))

    def _drawn(self, canvases: Sequence[Sequence[Token | None]]) -> list[Image.Image]:
        blank = (0.0,) * self._width
        tokens = torch.tensor([[t if isinstance(t, tuple) else blank for t in canvas] for canvas in canvases])
        with torch.inference_mode():
            return images(self._decoder(self.raster(tokens).to(self.device) / SCALE))


def decoder_of(source: Source, channels: int) -> PixelDecoder:
    """The autoencoder's decoder in the folder `pixels` of a checkpoint, on the CPU.

    Raises:
        ModelError: when it is not whole, or has other channels than the model's tokens.
    """
    decoder = read_decoder(folder_in(source, PIXELS), "KL-16", codes=False)
    check_channels(source, decoder, channels)
    return decoder


def check_channels(source: Source, decoder: PixelDecoder, channels: int) -> None:
    """See that a decoder takes a model's tokens.

    Raises:
        ModelError: where it does not.
    """
    if decoder.dim != channels:
        raise source.lacks(f"its tokens have {channels} channels, and its autoencoder {decoder.dim}")
