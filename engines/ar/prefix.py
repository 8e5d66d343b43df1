"""Where a text that is decoded from left to right ends."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from engines.protocol import FATE_CODES, NO_ENTRY, Task
from engines.to_device import to_device
from traces.schema import Fate

_FINAL = torch.tensor([code for fate, code in FATE_CODES.items() if fate.final])


def cut_at_end(
    task: Task, after: Int[Tensor, " E"], gain: Int[Tensor, ""], fate: Int[Tensor, " E"]
) -> tuple[Int[Tensor, ""], Int[Tensor, ""], Int[Tensor, " E"]]:
    """Drop what would become final behind the end of a text; the first `gain` of the tokens `after` a pass are final.

    Returns:
        The number up to the first token that ends the text, whether there is one (0 or 1), and fates in which nothing
        behind it is final.
    """
    if not task.ends:
        return gain, torch.zeros_like(gain), fate
    slot = torch.arange(len(after), device=after.device)
    ends: Bool[Tensor, " E"] = torch.isin(after, to_device(torch.tensor(task.ends), after.device)) & (slot < gain)
    first = torch.where(ends, slot, len(after)).min()
    final = torch.isin(fate, to_device(_FINAL, fate.device))
    dropped = torch.where(fate == FATE_CODES[Fate.ACCEPTED], FATE_CODES[Fate.DISCARDED], NO_ENTRY)
    fate = torch.where((slot > first) & final, dropped, fate)
    return torch.minimum(gain, first + 1), ends.any().long(), fate
