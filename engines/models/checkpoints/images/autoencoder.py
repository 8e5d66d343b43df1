"""Decoders of CompVis's autoencoders in diffusers' classes: KL-16 of MAR, Chameleon's VQGAN, and MoVQGAN.

Tensors have CompVis's names, and sizes follow from them; the encoders in the same files are not read. In MoVQGAN (arXiv
2209.09002) every normalisation is scaled and shifted by the latents, and the coarsest resolution has attention.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

import torch
from diffusers import AutoencoderKL, VQModel

from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints.build import PIXELS, State, counted, load_state, on_meta
from draftscope.engines.models.checkpoints.conversion import Request, read_pickle
from draftscope.engines.settings import ConfigError

UNUSED: Final = ("encoder.", "quant_conv.", "loss.", "ema_")
"""How names begin of what makes codes or latents, and of what it was trained by."""
COMPVIS: Final = (
    (r"\.mid\.block_1\.", ".mid_block.resnets.0."),
    (r"\.mid\.block_2\.", ".mid_block.resnets.1."),
    (r"\.([qkv])\.", r".to_\1."),
    (r"\.proj_out\.", ".to_out.0."),
    (r"\.nin_shortcut\.", ".conv_shortcut."),
)
"""Parts of tensor names as CompVis has them, and diffusers' for them; Cosmos has the same."""
_NAMES: Final = (
    (r"\.(attn\w*(?:\.\d+)?)\.norm\.", r".\1.{norm}."),
    (r"\.mid\.attn_1\.", ".mid_block.attentions.0."),
    *COMPVIS,
    (r"\.norm_out\.", ".conv_norm_out."),
)
"""Those of its pictures' autoencoders, applied in this order; levels are in `native_name`."""
_PARTS: Final = {"block": "resnets", "attn": "attentions", "downsample": "downsamplers.0", "upsample": "upsamplers.0"}


def decoder_of(source: CheckpointDir, state: State) -> Any:
    """Return the decoder that tensors make up, in float32: a VQModel where there is a codebook, else an AutoencoderKL.

    Args:
        source: Folder that errors name.
        state: Tensors by their names in CompVis's code; those of the encoder are not used.

    Raises:
        ModelError: If they are not those of such an autoencoder.
    """
    decoder_state = {name: part for name, part in state.items() if not name.startswith(UNUSED)}
    try:
        network, from_coarse = _network(decoder_state)
    except (KeyError, IndexError, ValueError) as error:
        raise source.unsupported(f"its tensors are not those of an autoencoder of CompVis's kind: no {error}") from None
    levels, spatial = len(network.config.block_out_channels), network.config.get("norm_type") == "spatial"
    norm, levels = "spatial_norm" if spatial else "group_norm", 0 if from_coarse else levels
    names = [(published, native.replace("{norm}", norm)) for published, native in _NAMES]
    renamed = {native_name(name, names, levels): part for name, part in decoder_state.items()}
    flat = {name: part.flatten(1) if ".to_" in name and part.dim() == 4 else part for name, part in renamed.items()}
    return load_state(source, network, flat, torch.float32)


def _network(state: State) -> tuple[Any, bool]:
    """A network of the sizes that tensors have, and whether levels are counted from the coarsest on."""
    first = "decoder.up.{}.block.0.conv1.weight"
    levels = counted(state, first)
    widths = tuple(state[first.format(level)].shape[0] for level in range(levels))
    latent, dim = state["post_quant_conv.weight"].shape[:2]
    from_coarse = widths[0] > widths[-1]
    attends = f"decoder.up.{0 if from_coarse else levels - 1}.attn.0.q.weight" in state
    coarsest = "AttnUpDecoderBlock2D" if attends else "UpDecoderBlock2D"
    sizes: dict[str, Any] = {
        "down_block_types": ("DownEncoderBlock2D",) * levels,
        "up_block_types": (coarsest, *("UpDecoderBlock2D",) * (levels - 1)),
        "block_out_channels": widths[::-1] if from_coarse else widths,
        "layers_per_block": counted(state, "decoder.up.0.block.{}.conv1.weight") - 1,
        "latent_channels": latent,
    }
    book = state.get("quantize.embedding.weight")
    if book is None:
        network = on_meta(lambda: AutoencoderKL(**sizes))
    else:
        sizes |= {"vq_embed_dim": dim, "num_vq_embeddings": len(book), "lookup_from_codebook": True}
        sizes |= {"norm_type": "spatial"} if "decoder.norm_out.conv_y.weight" in state else {}
        network = on_meta(lambda: VQModel(**sizes))
    del network.encoder, network.quant_conv
    return network, from_coarse


def native_name(name: str, names: Iterable[tuple[str, str]], levels: int) -> str:
    """Return diffusers' name of a tensor.

    Args:
        name: Published name.
        names: Pairs of a regular expression and what replaces it, applied in this order.
        levels: Number of levels of the decoder, which are counted in reverse; 0 if the file counts them as diffusers
            does.
    """
    for published, native in names:
        name = re.sub(published, native, name)
    match = re.match(rf"(encoder\.down|decoder\.up)\.(\d+)\.({'|'.join(_PARTS)})\.", name)
    if match is None:
        return name
    level = levels - 1 - int(match[2]) if levels and match[1] == "decoder.up" else int(match[2])
    return f"{match[1]}_blocks.{level}.{_PARTS[match[3]]}.{name[match.end() :]}"


def read_kl16(source: CheckpointDir, channels: int, state: State | None = None) -> Any:
    """Return the autoencoder KL-16 of a checkpoint.

    Args:
        source: Folder of the checkpoint.
        channels: Channels of a token, which the autoencoder must have, too.
        state: Tensors; by default those of the folder `pixels` in `source`.

    Raises:
        ModelError: If the tensors are not those of an autoencoder, or it has other channels.
    """
    folder = source.inside(PIXELS) if state is None else source
    autoencoder = decoder_of(folder, folder.tensors() if state is None else state)
    if (latent := autoencoder.config.latent_channels) != channels:
        raise source.unsupported(f"its tokens have {channels} channels, and its autoencoder {latent}")
    return autoencoder


def kl16_of(request: Request) -> State:
    """The tensors of the decoder in MAR's kl16.ckpt, the second file of a conversion; ConfigError without one."""
    if request.second is None:
        raise ConfigError("SECOND: is missing. Give MAR's kl16.ckpt.")
    return read_published(CheckpointDir(request.second.name, request.second.parent, "Give MAR's kl16.ckpt."))


def read_published(source: CheckpointDir) -> State:
    """The tensors of the decoder in a pickle that a source is named after."""
    state = read_pickle(source, ("state_dict", "model"))
    state = {name: part for name, part in state.items() if not name.startswith(UNUSED)}
    decoder_of(source, state)
    return state
