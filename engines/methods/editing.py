"""Token editing, the decoding of LLaDA2.1: reveal early, repair later (its released code; no paper gives the rule).

docs/methods/editing.md has the rule.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import torch

from draftscope.engines.diffusion_lm import unmasking
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, BlockSettings, TextTask, sample_open_positions
from draftscope.engines.diffusion_lm.token_editing import MAX_PASSES, edit_until_stable, fates, propose_edits
from draftscope.engines.protocol import Decoder, as_ints, as_probs
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.settings import SettingInfo
from draftscope.engines.transfer import to_device


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(BlockSettings):
    """Settings of token editing."""

    threshold: Annotated[
        float, SettingInfo("Threshold", "Confidence from which a mask is filled in (tau_mask).", 0.0, 1.0, 0.05)
    ] = 0.95
    edit_threshold: Annotated[
        float,
        SettingInfo("Edit threshold", "Replace tokens where another is as sure (tau_edit). 1 is off.", 0.0, 1.0, 0.05),
    ] = 0.9
    max_edit_passes: Annotated[
        int, SettingInfo("Repair passes", "Passes, at most, that read a finished block again to repair it.", 0, 32, 1)
    ] = MAX_PASSES


PRESETS: Final[dict[str, dict[str, object]]] = {
    "LLaDA2.1 quality": {"block": "32", "threshold": 0.7, "edit_threshold": 0.5},
    "LLaDA2.1 conservative": {"block": "32", "threshold": 0.95, "edit_threshold": 0.9},
}
"""The pairs of thresholds that S2D2 (arXiv 2603.25702, Table 3) compares with."""


def deviation(config: Config) -> str:
    """Return how the distribution deviates from that of block size 1."""
    edits = {"tokens that were filled in are replaced": config.edit_threshold < 1}
    return unmasking.deviation_text(edits, config.size > 1)


def decode(task: TextTask, config: Config, rng: RandomSource) -> Decoder:
    """Reveal and edit tokens until the text ends."""
    row, iteration = BlockSequence(task, config.size), 0
    while not row.ended:
        position, written = row.open, row.written[: None if config.edit_threshold < 1 else 0]
        both, count = torch.cat([position, written]), len(position)
        all_probs = as_probs((yield row.request_open_positions(read=both)))
        token, confidence = sample_open_positions(all_probs[:count], position, iteration, rng, config.mode)
        chosen = unmasking.dynamic(confidence, config.threshold, 1) | to_device(row.carried(position), all_probs.device)
        rescued = chosen & (confidence <= config.threshold)
        repaired, sure, edited = propose_edits(all_probs[count:], row.tokens[written], config.edit_threshold)
        after, accepted = torch.cat([token, repaired]), torch.cat([chosen, edited])
        decided = after, partial(torch.cat, [unmasking.fates(chosen, rescued), fates(edited)]), accepted
        sure = torch.cat([confidence, sure])
        answer = yield row.decision(both, decided, all_probs, sure, open=count, committed=chosen.sum())
        row.write(both, as_ints(answer))
        if row.block_is_full:
            yield from edit_until_stable(row, config.edit_threshold, config.max_edit_passes)
        row.move_on()
        iteration += 1
    return row.tokens[row.prompt_length :]
