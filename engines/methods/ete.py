"""ETE-style decoding: reveal across blocks, and now and then something unsure (after Fu et al., arXiv 2511.21103).

Our reading of the abstract and of one line in PSD (arXiv 2605.15609, App. B.2), as docs/methods/ete-style.md says.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import torch

from draftscope.engines.diffusion_lm import unmasking
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, GreedyOnly, TextTask, sample_open_positions
from draftscope.engines.protocol import Decoder, as_ints, as_probs
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.settings import SettingInfo
from draftscope.engines.transfer import to_device

_ENOUGH: Final = 2
"""Tokens that a pass reveals without exploring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(GreedyOnly):
    """Settings of ETE-style decoding."""

    k: Annotated[
        int, SettingInfo("Blocks", "Blocks (k) a pass looks at. More reveal further ahead and cost more.", 1, 8, 1)
    ] = 3
    tau: unmasking.Threshold = 0.9
    explore: Annotated[
        bool, SettingInfo("Explore", "Where little is sure, reveal the least sure token above the floor.")
    ] = True
    floor: Annotated[
        float, SettingInfo("Floor", "The least confidence of a token revealed to explore.", 0.0, 1.0, 0.05)
    ] = 0.5


def deviation(config: Config) -> str:
    """Return how the distribution deviates from that of block size 1."""
    later = {"later blocks are filled in before the ones they follow": config.k > 1}
    return unmasking.deviation_text(later, config.size > 1 or config.k > 1)


def decode(task: TextTask, config: Config, rng: RandomSource) -> Decoder:
    """Exploit and explore, until the text ends."""
    row, iteration = BlockSequence(task, config.size), 0
    while not row.ended:
        window = torch.arange(row.block.start, min(row.block.start + config.k * config.size, len(row.tokens)))
        position = row.open if row.reuses_store_pass else window[row.tokens[window] == task.mask]
        probs = as_probs((yield row.request_open_positions(read=position, blocks=config.k)))
        token, confidence = sample_open_positions(probs, position, iteration, rng, config.mode)
        device_position = to_device(position, probs.device)
        sure = unmasking.above_threshold(confidence, device_position, config.tau)
        first = device_position < row.block.stop
        inside = torch.where(first, confidence, -torch.inf)
        unsure = torch.where(first & (confidence >= config.floor) & ~sure, -confidence, -torch.inf)
        explored = unmasking.top_confident(unsure if config.explore else inside, 1)
        best = unmasking.top_confident(inside, 1)
        explored = torch.where(explored.any(), explored, best)
        is_few = sure.sum() < (_ENOUGH if config.explore else 1)
        rescued = explored & is_few & ~sure
        accepted = sure | rescued | to_device(row.carried(position), probs.device)
        decided = token, partial(unmasking.fates, accepted, rescued), accepted
        answer = yield row.decision(position, decided, probs, confidence, open=len(position), confident=sure.sum())
        row.write(position, as_ints(answer))
        row.move_on()
        iteration += 1
    return row.tokens[row.prompt_length :]
