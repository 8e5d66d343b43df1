"""Where a text that is decoded from left to right ends."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from engines.protocol import FATE_CODES, NO_ENTRY, Task
from engines.transfer import to_device
from traces.schema import Fate

_FINAL = torch.tensor([code for fate, code in FATE_CODES.items() if fate.final])


def cut_at_end(task: Task, after: Int[Tensor, " E"], gain: Int[Tensor, ""]) -> tuple[Int[Tensor, ""], Int[Tensor, ""]]:
    """How many of the first `gain` tokens `after` a pass, up to the first that ends a text, and whether one does."""
    if not task.ends:
        return gain, torch.zeros_like(gain)
    slot = torch.arange(len(after), device=after.device)
    ends = ends_text(task, after) & (slot < gain)
    first = torch.where(ends, slot, len(after)).min()
    return torch.minimum(gain, first + 1), ends.any().long()


def ends_text(task: Task, tokens: Int[Tensor, " E"]) -> Bool[Tensor, " E"]:
    """Which tokens end a text."""
    return torch.isin(tokens, to_device(torch.tensor(task.ends), tokens.device))


def fates_up_to(gain: Int[Tensor, ""], fate: Int[Tensor, " E"]) -> Int[Tensor, " E"]:
    """Fates in which none but the first `gain` tokens are final."""
    final = torch.isin(fate, to_device(_FINAL, fate.device))
    dropped = torch.where(fate == FATE_CODES[Fate.ACCEPTED], FATE_CODES[Fate.DISCARDED], NO_ENTRY)
    return torch.where((torch.arange(len(fate), device=fate.device) >= gain) & final, dropped, fate)
