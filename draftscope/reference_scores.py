"""Scores of splits by a model of transformers, for engines that give no log-probabilities."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from draftscope.analysis.divergences import GreedyText, Reference, Split
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.loading import source_of
from draftscope.servers.client import ServerError

_MAX_TEXTS: Final = 50
"""Texts on which the rounding of the reference is measured."""


def score(
    model: str | os.PathLike[str], splits: Sequence[Split], a: Sequence[GreedyText], b: Sequence[GreedyText]
) -> Reference:
    """Score both tokens of splits by a model, and measure its rounding in bfloat16.

    Args:
        model: Folder of a checkpoint, GGUF file or id.
        splits: Where the texts part.
        a: Texts of the first engine.
        b: Texts of the second.

    Raises:
        ServerError: If the model cannot be loaded.
    """
    try:
        folder = source_of(os.fspath(model)).folder
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        networks = [
            AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True).eval()
            for dtype in (torch.float32, torch.bfloat16)
        ]
    except (ModelError, OSError, ValueError) as error:
        what = " ".join(str(error).split())[:200].rstrip(".")
        raise ServerError(f"score_with: {os.fspath(model)!r} cannot be used as a reference ({what}).") from None
    scores, noise = {}, list[float]()
    for split in splits:
        if (pair := _scored(networks[0], tokenizer, a[split.text], b[split.text])) is not None:
            scores[split.text] = pair
    for text in a[:_MAX_TEXTS]:
        noise += _rounding(networks, tokenizer, text)
    return Reference(name=Path(model).name, noise=tuple(sorted(noise)), scores=scores)


def _ids(tokenizer: Any, text: GreedyText) -> tuple[int, list[int]]:
    """The number of ids of a prompt, and those of the prompt with its text."""
    written = "".join(text.words or text.tokens)
    prompt_ids, all_ids = (tokenizer(part).input_ids for part in (text.prompt, text.prompt + written))
    return len(prompt_ids), all_ids


def _scored(network: Any, tokenizer: Any, a: GreedyText, b: GreedyText) -> tuple[float, float] | None:
    """Log-probabilities of A's and of B's token where their ids part; None where only one goes on."""
    one, other = (_ids(tokenizer, text)[1] for text in (a, b))
    at = next((i for i, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), None)
    if not at:
        return None
    scores = _log_probs(network, torch.tensor([one[:at]]))[-1]
    return float(scores[one[at]]), float(scores[other[at]])


def _rounding(networks: Sequence[Any], tokenizer: Any, text: GreedyText) -> list[float]:
    """How far bfloat16 moves the margin of the two likeliest tokens, at each position of a text."""
    start, ids = _ids(tokenizer, text)
    if not 0 < start < len(ids):
        return []
    exact, rounded = (_log_probs(network, torch.tensor([ids]))[start - 1 : -1] for network in networks)
    two = exact.topk(2, dim=-1).indices
    margins = [row.gather(-1, two).diff(dim=-1)[:, 0] for row in (exact, rounded)]
    return (margins[0] - margins[1]).abs().tolist()


@torch.inference_mode()
def _log_probs(network: Any, ids: Int64[Tensor, "1 T"]) -> Float[Tensor, "T V"]:
    logits: Tensor = network(input_ids=ids).logits
    return logits[0].float().log_softmax(-1)
