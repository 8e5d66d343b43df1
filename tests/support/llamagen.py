"""LlamaGen of classes at a small size: c2i_B_256.pt and vq_ds16_c2i.pt as published, and another implementation.

Neighbours in a head turn together here, as in the release; nothing is shared with the code under test.
"""

import math
from pathlib import Path

import torch
from support import compvis
from support.compvis import Codec, Decoder
from torch import Tensor

SIDE, CODES, WIDTH, INNER, CLASSES = 4, 24, 32, 48, 10
CODEC = Codec(dim=4, codes=CODES, vq16=True, attends=(True, True))
DECODER = Decoder(
    heads=2,
    groups=2,
    size=16,
    q="q",
    k="k",
    v="v",
    o="attention.wo",
    gate="feed_forward.w1",
    up="feed_forward.w3",
    down="feed_forward.w2",
    before="attention_norm",
    behind="ffn_norm",
)


def weights(seed: int = 3) -> dict[str, Tensor]:
    """The tensors of the model."""
    noise = torch.Generator().manual_seed(seed + 30)
    own = DECODER.weights(WIDTH, INNER, seed)
    for i in range(DECODER.layers):
        parts = [own.pop(f"layers.{i}.{kind}.weight") for kind in "qkv"]
        own[f"layers.{i}.attention.wqkv.weight"] = torch.cat(parts)
    return own | {
        "tok_embeddings.weight": torch.randn(CODES, WIDTH, generator=noise),
        "cls_embedding.embedding_table.weight": torch.randn(CLASSES + 1, WIDTH, generator=noise),
        "output.weight": compvis.drawn((CODES, WIDTH), noise),
    }


def turned(x: Tensor) -> Tensor:
    """Queries or keys [N, size] of a class and the codes behind it: one pair of neighbours at a time."""
    out = torch.zeros_like(x)  # the class stays at 0
    quarter = x.shape[1] // 4
    for n in range(1, len(x)):
        row, column = divmod(n - 1, SIDE)
        for pair in range(x.shape[1] // 2):
            axis, k = (row, pair) if pair < quarter else (column, pair - quarter)
            angle = axis * 10_000 ** (-2 * k / (x.shape[1] // 2))
            a, b = x[n, 2 * pair], x[n, 2 * pair + 1]
            out[n, 2 * pair] = a * math.cos(angle) - b * math.sin(angle)
            out[n, 2 * pair + 1] = b * math.cos(angle) + a * math.sin(angle)
    return out


def forward(tensors: dict[str, Tensor], label: int, codes: Tensor) -> Tensor:
    """Logits [1 + N, K] of every code of a row that has N of them, in float64."""
    own = dict(tensors)
    for i in range(DECODER.layers):
        parts = own.pop(f"layers.{i}.attention.wqkv.weight").split(WIDTH)
        own |= {f"layers.{i}.{kind}.weight": part for kind, part in zip("qkv", parts, strict=True)}
    first = own["cls_embedding.embedding_table.weight"][label][None]
    h = DECODER.forward(own, torch.cat([first, own["tok_embeddings.weight"][codes]]).double(), turned)
    return h @ own["output.weight"].double().T


def pixels(codes: Tensor) -> Tensor:
    """Pictures of codes [B, N]."""
    tensors = compvis.weights(CODEC)
    return compvis.decode(CODEC, tensors, compvis.looked_up(tensors, codes, SIDE, unit=True))


def write(folder: Path, seed: int = 3) -> Path:
    """The two files."""
    folder.mkdir(parents=True)
    torch.save({"model": weights(seed) | {"freqs_cis": torch.zeros(3)}, "steps": 7}, folder / "c2i_B_256.pt")
    codec = compvis.weights(CODEC) | {"quantize.codebook_used": torch.zeros(8)}
    torch.save({"ema": codec, "model": {"a": torch.zeros(1)}}, folder / "vq_ds16_c2i.pt")
    return folder
