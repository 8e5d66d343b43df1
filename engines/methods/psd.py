"""PSD, parallel speculative decoding: reveal in parallel, draft the steps to come, keep the deepest draft that holds.

Shengyin Sun et al., arXiv 2605.15609, Alg. 1; docs/methods/psd.md has its symbols, and what we read into it. With a
policy that reveals one token a step this is Spiffy (arXiv 2509.18085).
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

import torch
from torch.nn.functional import pad

from draftscope.engines.diffusion_lm import draft_rows as branches
from draftscope.engines.diffusion_lm import unmasking
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, GreedyOnly, Size, TextTask
from draftscope.engines.diffusion_lm.draft_graphs import ROOT, accept_nodes, chain
from draftscope.engines.diffusion_lm.graph_calibration import draft_graph
from draftscope.engines.methods.method import POLICY, Reference
from draftscope.engines.protocol import UNUSED_ENTRY, Decision, Decoder, SubDecoder, as_ints, as_probs
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.settings import SettingInfo
from draftscope.engines.transfer import to_device


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(GreedyOnly):
    """Settings of PSD."""

    block: Annotated[
        Size,
        SettingInfo("Block size", "Tokens decoded together; the paper takes 32. Small blocks leave little to draft."),
    ] = "32"
    policy: Annotated[
        Literal["confidence", "localleap", "greedy"],
        SettingInfo(
            "Policy",
            "Masks a pass reveals (pi). confidence: all above the threshold. localleap: and nearly sure neighbours. "
            "greedy: the surest.",
        ),
    ] = "confidence"
    tau: Annotated[
        float, SettingInfo("Threshold", unmasking.SURE, 0.0, 1.0, 0.05, {"policy": ("confidence", "localleap")})
    ] = 0.9
    depth: Annotated[
        int,
        SettingInfo("Depth", "Tokens drafted ahead (d). More make a pass more expensive; 0 disables drafts.", 0, 8, 1),
    ] = 3
    graph: Annotated[
        Literal["dag", "chain", "calibrated"],
        SettingInfo(
            "Draft graph",
            "Sets of drafts verified side by side. chain: the surest, the two surest, and so on. dag: each also with "
            "the next surest in place of its last. calibrated: those accepted most often on other prompts.",
        ),
    ] = "dag"
    rows: Annotated[
        int,
        SettingInfo(
            "Rows", "Versions of the block in a pass (K), the plain one too.", 2, 64, 1, {"graph": ("calibrated",)}
        ),
    ] = 8
    acceptance: Annotated[
        Literal["policy", "token", "strict"],
        SettingInfo(
            "Acceptance",
            "Which drafts stay. policy: those that the policy would have revealed, maybe with others. token: those "
            "that pass its test one by one. strict: exactly what it would have revealed.",
        ),
    ] = "policy"
    row_cost: Annotated[
        float,
        SettingInfo(
            "Cost of a row", "Time of one more row over that of a pass. 0 verifies all drafts.", 0.0, 1.0, 0.05
        ),
    ] = 0.0
    loop: Annotated[
        Literal["reuse", "literal"],
        SettingInfo("Loop", "reuse: a verifying pass drafts on as well. literal: another pass does, as printed."),
    ] = "reuse"


_PRINTED: Final = {
    "block": "32",
    "tau": 0.9,
    "depth": 3,
    "acceptance": "token",
    "row_cost": 0.0,
    "loop": "literal",
}
"""App. B.1 and B.3, and lines 18 to 26 of Alg. 1; its calibrated graphs were not published."""
PRESETS: Final[dict[str, dict[str, object]]] = {
    "PSD (Confidence)": {"policy": "confidence", "row_cost": 0.0},
    "PSD (LocalLeap)": {"policy": "localleap", "row_cost": 0.0},
    "PSD (Confidence), as published": {"policy": "confidence", **_PRINTED},
    "PSD (LocalLeap), as published": {"policy": "localleap", **_PRINTED},
    "Spiffy": {"policy": "greedy", "acceptance": "strict"},
}
"""The paper's two variants (App. B.3) as we read it and as Alg. 1 is printed, and the temporal baseline (App. B.2)."""


def deviation(config: Config) -> str:
    """Return how the distribution deviates from block size 1, and the text from that of the policy alone."""
    reasons = {"drafts may stay where the policy alone would have revealed more at once": not reference(config)}
    return unmasking.deviation_text(reasons, config.size > 1)


def reference(config: Config) -> Reference:
    """Return whether the text is the policy's."""
    fewer = config.depth > 0 and config.policy != "greedy" and config.acceptance != "strict" and config.size > 1
    return "" if fewer else POLICY


def decode(task: TextTask, config: Config, rng: RandomSource) -> Decoder:
    """Reveal in parallel, draft future steps, and verify all drafts of a graph in one pass, until the text ends.

    Raises:
        ValueError: If the draft graph is missing, or too large for memory.
    """
    graph = draft_graph(task, config.graph, (config.policy, config.tau, config.size), config.depth, config.rows)
    branches.check_size(task, config.size, graph)
    row, left = BlockSequence(task, config.size), None
    num_accepted, judged, tokens, time = 4, 5, 0, 0.0  # of the run so far, as if four of five drafts had held before it
    while not row.ended:
        fed, ahead = graph, None
        if left is not None and config.row_cost:
            holds, count = num_accepted / judged, len(left.token)
            fed = graph.prune_by_expected_gain([holds] * graph.reach, config.row_cost * tokens / time, count)
            # The block with all drafts and the next one cost two rows, and save a pass if the drafts hold.
            pays = count <= graph.reach and holds**count >= 2 * config.row_cost and config.loop == "reuse"
            if pays and len(next_ids := row.next_block(left.token)):
                fed, ahead = chain(count), next_ids
        rows = branches.build_rows(row, None if fed == ROOT else left, fed, ahead)
        left, won, final = yield from _step(row, rows, config)
        num_accepted, judged = num_accepted + won, judged + min(won + 1, rows.graph.depth)
        tokens += final
        time += 1 + config.row_cost * (len(rows.filled) - 1 + bool(rows.ahead))
        if rows.drafts is not None and config.loop == "literal":
            left = None
    return row.tokens[row.prompt_length :]


def _step(
    row: BlockSequence, rows: branches.DraftRows, config: Config
) -> SubDecoder[tuple[branches.RankedDrafts | None, int, int]]:
    """One pass over the root state and its drafts: accept (stage 3), reveal (stage 1), rank what is left (stage 2).

    The stages begin with the third: the pass that shows whether the drafts of the step before hold is also the one by
    whose distributions this step reveals and drafts. Returned are its drafts and how many held and tokens are final.
    """
    position, drafts, ahead = rows.position + row.prompt_length, rows.drafts, rows.ahead
    request = row.request_open_positions(
        "verify" if drafts else "draft", read=position, tokens=rows.tokens, blocks=1 + bool(ahead)
    )
    probs = as_probs((yield replace(request, ahead=ahead))).view(len(rows.filled), len(position), -1)
    device_position, filled = to_device(position, probs.device), to_device(rows.filled, probs.device)
    draft = (
        torch.zeros_like(device_position) if drafts is None else pad(to_device(drafts.token, probs.device), (0, ahead))
    )
    best, token = probs.max(-1)
    closed = filled.clone()  # [K, m]
    closed[:-1, len(position) - ahead :] = True
    confidence = torch.where(closed, -torch.inf, best)
    passed = unmasking.RULES[config.policy](confidence, device_position, config.tau)
    chosen = unmasking.at_least_one(passed, confidence)
    outcome, winner = None, torch.zeros((), dtype=torch.long, device=probs.device)
    if drafts is not None:
        holds = (token == draft) & (passed if config.acceptance == "token" else chosen)
        exactly = chosen if config.acceptance == "strict" else None
        outcome = accept_nodes(filled, holds, best, rows.graph.depth, exactly)
        winner = outcome.winner

    best, token, passed, chosen, closed, speculated, probs_now = (
        each.index_select(0, winner)[0] for each in (best, token, passed, chosen, closed, filled, probs)
    )
    revealed = chosen | to_device(row.carried(position), probs.device)
    token, accepted = torch.where(speculated, draft, token), revealed | speculated
    rank = branches.rank_by_confidence(best, ~(accepted | closed)) - (closed & ~speculated).long()
    block = row.number

    def details() -> dict[str, Any]:
        fate = unmasking.fates(revealed, chosen & ~passed)
        counts = {"speculated": speculated.sum(), "unmasked": revealed.sum(), "committed": accepted.sum()}
        fields: dict[str, Any] = {
            "fate": torch.where(closed, UNUSED_ENTRY, fate),  # the verdicts have theirs
            "measures": {"confidence": best, "rank": torch.where(rank > 0, rank.double(), torch.nan)},
            "step_measures": {"block": block, "open": len(position) - ahead, "winner": winner, **counts},
        }
        if outcome is None:
            return fields
        return fields | branches.verdicts(replace(decision, deferred_fields=None, **fields), rows, outcome, probs)

    decision = Decision(
        to_device(rows.position, probs.device),
        token,
        readback=torch.cat([speculated.sum()[None], token, rank]),
        probs=probs_now,
        deferred_fields=details,
    )
    won, *answer = as_ints((yield decision))
    return branches.apply_answer(row, rows, answer, probs_now), won, answer[len(position) :].count(0)
