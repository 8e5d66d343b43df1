"""Prompt lookup: drafts copied from what followed the same tokens earlier in the text.

Source: Saxena, Prompt Lookup Decoding (2023).
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from draftscope.engines.protocol import Task
from draftscope.engines.transfer import to_device

LONGEST_MATCH: Final = 3
"""Tokens of the end of the text that a lookup tries to find again, at most."""


def look_up(context: Sequence[int], copied_to: int, min_match: int) -> int:
    """Return where to copy drafts from: the index after an earlier occurrence of the text's last tokens.

    The longest match wins; of equally long ones the first at or after `copied_to`, or else the last one.

    Args:
        context: Token ids of prompt and text.
        copied_to: Index where the last copy ended.
        min_match: Tokens that have to match.

    Returns:
        An index of the context; its length if nothing matches.

    Example:
        >>> look_up([3, 1, 2, 0, 3, 1, 2], copied_to=7, min_match=1)  # continues after the earlier [3, 1, 2]
        3
    """
    here = len(context)
    for length in range(min(LONGEST_MATCH, here - 1), min_match - 1, -1):
        end = context[-length:]
        candidates = chain(range(max(copied_to, length), here), range(min(copied_to, here) - 1, length - 1, -1))
        match_end = next((i for i in candidates if context[i - length : i] == end), None)
        if match_end is not None:
            return match_end
    return here


def copied_drafts(tokens: Sequence[int], task: Task) -> tuple[Int[Tensor, " W"], Float[Tensor, "W1 V"]]:
    """Return copied drafts x [W], and their distributions q [W + 1, V]: 1 at the draft, and zeros after the last.

    Args:
        tokens: Ids that were found, W of them, possibly none.
        task: Task, which gives vocabulary size and device.
    """
    x = to_device(torch.tensor(tokens, dtype=torch.long), task.device)
    q = torch.zeros(len(x) + 1, task.vocab_size, dtype=torch.float64, device=task.device)
    return x, q.scatter_(1, x[:, None], 1.0)
