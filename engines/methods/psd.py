"""PSD, parallel speculative decoding: reveal in parallel, draft the steps to come, keep the deepest draft that holds.

Shengyin Sun et al., arXiv 2605.15609, Alg. 1; docs/methods/psd.md has its symbols, and what we read into it. With a
policy that reveals one token a step this is Spiffy (arXiv 2509.18085).
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

import torch
from torch.nn.functional import pad

from engines.diffusion_lm import draft_rows as branches
from engines.diffusion_lm import unmasking
from engines.diffusion_lm.block_sequence import LikeliestTokens, Row, Size, TextTask
from engines.diffusion_lm.draft_graphs import ROOT, Graph, accept_nodes, chain, dag
from engines.diffusion_lm.graph_calibration import calibrated
from engines.protocol import NO_ENTRY, Decision, Decoder, Part, ask_numbers, ask_probs
from engines.sampling.random_source import Chance
from engines.settings import Knob
from engines.transfer import to_device


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(LikeliestTokens):
    """Settings of PSD."""

    block: Annotated[
        Size, Knob("Block size", "Tokens decoded together; the paper takes 32. Small blocks leave little to draft.")
    ] = "32"
    policy: Annotated[
        Literal["confidence", "localleap", "greedy"],
        Knob(
            "Policy",
            "Masks a pass reveals (pi). confidence: all above the threshold. localleap: and nearly sure neighbours. "
            "greedy: the surest.",
        ),
    ] = "confidence"
    tau: Annotated[
        float, Knob("Threshold", unmasking.SURE, 0.0, 1.0, 0.05, {"policy": ("confidence", "localleap")})
    ] = 0.9
    depth: Annotated[
        int, Knob("Depth", "Tokens drafted ahead (d). More make a pass more expensive; 0 is none.", 0, 8, 1)
    ] = 3
    graph: Annotated[
        Literal["dag", "chain", "calibrated"],
        Knob(
            "Draft graph",
            "Sets of drafts verified side by side. chain: the surest, the two surest, and so on. dag: each also with "
            "the next surest in place of its last. calibrated: those accepted most often on other prompts.",
        ),
    ] = "dag"
    rows: Annotated[
        int,
        Knob("Rows", "Versions of the block in a pass (K), the plain one too.", 2, 64, 1, {"graph": ("calibrated",)}),
    ] = 8
    acceptance: Annotated[
        Literal["policy", "token", "strict"],
        Knob(
            "Acceptance",
            "Which drafts stay. policy: those that the policy would have revealed, maybe with others. token: those "
            "that pass its test one by one. strict: exactly what it would have revealed.",
        ),
    ] = "policy"
    row_cost: Annotated[
        float, Knob("Cost of a row", "Time of one more row over that of a pass. 0 verifies all drafts.", 0.0, 1.0, 0.05)
    ] = 0.0
    loop: Annotated[
        Literal["reuse", "literal"],
        Knob("Loop", "reuse: a verifying pass drafts on as well. literal: another pass does, as printed."),
    ] = "reuse"


PRESETS: Final[dict[str, dict[str, object]]] = {
    "PSD (Confidence)": {"policy": "confidence"},
    "PSD (LocalLeap)": {"policy": "localleap"},
    "Spiffy": {"policy": "greedy", "acceptance": "strict"},
}
"""The paper's two variants (App. B.3) and the temporal baseline (App. B.2), at its advice d = 3."""


def deviation(config: Config) -> str:
    """What sets the distribution apart from that of block size 1, and the text from that of the policy alone."""
    fewer = config.depth > 0 and config.policy != "greedy" and config.acceptance != "strict" and config.size > 1
    reasons = {"drafts may stay where the policy alone would have revealed more at once": fewer}
    return unmasking.differing(reasons, config.size > 1)


def decode(task: TextTask, config: Config, chance: Chance) -> Decoder:
    """Reveal, draft, verify, until the text ends; raises ValueError for a graph that is missing or too large."""
    graph = graph_of(task, config)
    branches.check_size(task, config.size, graph)
    row, left = Row(task, config.size), None
    held, judged, tokens, time = 4, 5, 0, 0.0  # of the run so far, as if four of five drafts had held before it
    while not row.ended:
        fed, ahead = graph, None
        if left is not None and config.row_cost:
            holds, count = held / judged, len(left.token)
            fed = graph.worth([holds] * graph.reach, config.row_cost * tokens / time, count)
            # The block with all drafts and the one behind it cost two rows, and save a pass where the drafts hold.
            pays = count <= graph.reach and holds**count >= 2 * config.row_cost and config.loop == "reuse"
            if pays and len(behind := row.behind(left.token)):
                fed, ahead = chain(count), behind
        rows = branches.branch(row, None if fed == ROOT else left, fed, ahead)
        left, won, final = yield from _step(row, rows, config)
        held, judged = held + won, judged + min(won + 1, rows.graph.depth)
        tokens += final
        time += 1 + config.row_cost * (len(rows.filled) - 1 + bool(rows.ahead))
        if rows.drafts is not None and config.loop == "literal":
            left = None
    return row.tokens[row.prompt_length :]


def graph_of(task: TextTask, config: Config) -> Graph:
    """The draft graph of the settings."""
    if config.graph == "calibrated" and config.depth:
        return calibrated(task, (config.policy, config.tau, config.size), config.depth, config.rows)
    return chain(config.depth) if config.graph == "chain" else dag(config.depth)


def _step(row: Row, rows: branches.Branches, config: Config) -> Part[tuple[branches.RankedDrafts | None, int, int]]:
    """One pass over the root state and its drafts: accept (stage 3), reveal (stage 1), rank what is left (stage 2).

    The stages begin with the third: the pass that shows whether the drafts of the step before hold is also the one by
    whose distributions this step reveals and drafts. Returned are its drafts and how many held and tokens are final.
    """
    position, drafts, ahead = rows.position + row.prompt_length, rows.drafts, rows.ahead
    request = row.look("verify" if drafts else "draft", read=position, tokens=rows.tokens, blocks=1 + bool(ahead))
    probs = ask_probs((yield replace(request, ahead=ahead))).view(len(rows.filled), len(position), -1)
    place, filled = to_device(position, probs.device), to_device(rows.filled, probs.device)
    draft = torch.zeros_like(place) if drafts is None else pad(to_device(drafts.token, probs.device), (0, ahead))
    best, token = probs.max(-1)
    closed = filled.clone()  # [K, m]
    closed[:-1, len(position) - ahead :] = True
    confidence = torch.where(closed, -torch.inf, best)
    passed = unmasking.RULES[config.policy](confidence, place, config.tau)
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
    token, kept = torch.where(speculated, draft, token), revealed | speculated
    rank = branches.ranked(best, ~(kept | closed)) - (closed & ~speculated).long()
    block = row.number

    def details() -> dict[str, Any]:
        fate = unmasking.fates(revealed, chosen & ~passed)
        counts = {"speculated": speculated.sum(), "unmasked": revealed.sum(), "committed": kept.sum()}
        fields: dict[str, Any] = {
            "fate": torch.where(closed, NO_ENTRY, fate),  # the verdicts have theirs
            "numbers": {"confidence": best, "rank": torch.where(rank > 0, rank.double(), torch.nan)},
            "signals": {"block": block, "open": len(position) - ahead, "winner": winner, **counts},
        }
        if outcome is None:
            return fields
        return fields | branches.verdicts(replace(made, details=None, **fields), rows, outcome, probs)

    made = Decision(
        to_device(rows.position, probs.device),
        token,
        readback=torch.cat([speculated.sum()[None], token, rank]),
        probs=probs_now,
        details=details,
    )
    won, *answer = ask_numbers((yield made))
    return branches.proceed(row, rows, answer, probs_now), won, answer[len(position) :].count(0)
