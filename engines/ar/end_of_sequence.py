"""End of a text that is decoded from left to right."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from draftscope.engines.protocol import FATE_CODES, UNUSED_ENTRY, Task
from draftscope.engines.transfer import to_device
from draftscope.traces.schema import Fate

_FINAL = torch.tensor([code for fate, code in FATE_CODES.items() if fate.final])


def truncate_at_eos(
    task: Task, after: Int[Tensor, " E"], gain: Int[Tensor, ""]
) -> tuple[Int[Tensor, ""], Int[Tensor, ""]]:
    """Cut the tokens of a pass after the first one that ends the text.

    Args:
        task: Task with the ids that end a text; without any nothing is cut.
        after: Tokens after the pass.
        gain: How many of them are final.

    Returns:
        How many are final up to the end, and 1 if the text ended, else 0.
    """
    if not task.eos_token_ids:
        return gain, torch.zeros_like(gain)
    slot = torch.arange(len(after), device=after.device)
    ends = is_eos(task, after) & (slot < gain)
    first = torch.where(ends, slot, len(after)).min()
    return torch.minimum(gain, first + 1), ends.any().long()


def is_eos(task: Task, tokens: Int[Tensor, " E"]) -> Bool[Tensor, " E"]:
    """Return which tokens end a text.

    Args:
        task: Task, whose `eos_token_ids` count; without any, none ends it.
        tokens: Token ids.
    """
    return torch.isin(tokens, to_device(torch.tensor(task.eos_token_ids), tokens.device))


def keep_final_fates(gain: Int[Tensor, ""], fate: Int[Tensor, " E"]) -> Int[Tensor, " E"]:
    """Return the fates with only some tokens final: accepted drafts after them are discarded, other entries unused.

    Args:
        gain: Number of tokens that are final, from the first on.
        fate: Codes of FATE_CODES, in the order of the positions.
    """
    final = torch.isin(fate, to_device(_FINAL, fate.device))
    dropped = torch.where(fate == FATE_CODES[Fate.ACCEPTED], FATE_CODES[Fate.DISCARDED], UNUSED_ENTRY)
    return torch.where((torch.arange(len(fate), device=fate.device) >= gain) & final, dropped, fate)
