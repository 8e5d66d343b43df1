"""LlamaGen at a small size, of classes and of texts: its files as published, and another implementation.

Neighbours in a head turn together here, as in the release; nothing is shared with the code under test.
"""

import math
from pathlib import Path

import torch
from support import compvis, t5
from support.compvis import Codec, Decoder
from torch import Tensor

SIDE, CODES, WIDTH, INNER, CLASSES, SLOTS = 4, 24, 32, 48, 10, 12
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


def turned(x: Tensor, before: int = 1) -> Tensor:
    """Queries or keys [N, size] of a class or a text and the codes behind it: one pair of neighbours at a time."""
    out = torch.zeros_like(x)  # what stands before the codes stays at 0
    quarter = x.shape[1] // 4
    for n in range(before, len(x)):
        row, column = divmod(n - before, SIDE)
        for pair in range(x.shape[1] // 2):
            axis, k = (row, pair) if pair < quarter else (column, pair - quarter)
            angle = axis * 10_000 ** (-2 * k / (x.shape[1] // 2))
            a, b = x[n, 2 * pair], x[n, 2 * pair + 1]
            out[n, 2 * pair] = a * math.cos(angle) - b * math.sin(angle)
            out[n, 2 * pair + 1] = b * math.cos(angle) + a * math.sin(angle)
    return out


def worded(seed: int = 3) -> dict[str, Tensor]:
    """The tensors of a model of texts."""
    noise = torch.Generator().manual_seed(seed + 60)
    own = weights(seed)
    own.pop("cls_embedding.embedding_table.weight")
    return own | {
        "cls_embedding.cap_proj.fc1.weight": torch.randn(WIDTH, t5.WIDTH, generator=noise) / t5.WIDTH**0.5,
        "cls_embedding.cap_proj.fc2.weight": torch.randn(WIDTH, WIDTH, generator=noise) * 2 / WIDTH**0.5,
        "cls_embedding.uncond_embedding": torch.randn(SLOTS, t5.WIDTH, generator=noise),
    }


def forward_text(tensors: dict[str, Tensor], text: str, silent: bool, codes: Tensor) -> Tensor:
    """Logits [1 + N, K] of every code of a row that has N of them behind a text; see `forward`."""
    ids = t5.ids(text)
    learned = tensors["cls_embedding.uncond_embedding"].double()[SLOTS - len(ids) :]
    h = (learned if silent else t5.forward(ids)) @ tensors["cls_embedding.cap_proj.fc1.weight"].double().T
    h = h * 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
    return forward(tensors, h @ tensors["cls_embedding.cap_proj.fc2.weight"].double().T, codes)


def forward(tensors: dict[str, Tensor], asked: int | Tensor, codes: Tensor) -> Tensor:
    """Logits [1 + N, K] of every code of a row that has N of them behind a class, or a text's, in float64."""
    own = dict(tensors)
    for i in range(DECODER.layers):
        parts = own.pop(f"layers.{i}.attention.wqkv.weight").split(WIDTH)
        own |= {f"layers.{i}.{kind}.weight": part for kind, part in zip("qkv", parts, strict=True)}
    first = own["cls_embedding.embedding_table.weight"][asked][None] if isinstance(asked, int) else asked
    rows = torch.cat([first.double(), own["tok_embeddings.weight"][codes].double()])
    h = DECODER.forward(own, rows, lambda x: turned(x, len(first)))
    return (h @ own["output.weight"].double().T)[len(first) - 1 :]


def pixels(codes: Tensor) -> Tensor:
    """Pictures of codes [B, N]."""
    tensors = compvis.weights(CODEC)
    return compvis.decode(CODEC, tensors, compvis.looked_up(tensors, codes, SIDE, unit=True))


def write(folder: Path, seed: int = 3, *, texts: bool = False) -> Path:
    """The two files, and a text encoder's folder where it is needed."""
    folder.mkdir(parents=True)
    tensors = worded(seed) if texts else weights(seed) | {"freqs_cis": torch.zeros(3)}
    torch.save({"model": tensors, "steps": 7}, folder / ("t2i_XL_stage1_256.pt" if texts else "c2i_B_256.pt"))
    codec = compvis.weights(CODEC) | {"quantize.codebook_used": torch.zeros(8)}
    torch.save({"ema": codec, "model": {"a": torch.zeros(1)}}, folder / f"vq_ds16_{'t2i' if texts else 'c2i'}.pt")
    return folder
