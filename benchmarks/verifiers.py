"""How far SimSD's verifiers are from decoding one token after the other, draft by draft, on right solutions.

For every block of a held-out problem's own solution the drafter says in which order it would reveal it; every position
then takes the right token. D is the drafter's distribution of each position in turn, V what a verifier reads at it in
its one pass, as in Figures 3 and 4 of the paper (arXiv 2606.02544); T is the distribution that the target itself has
one token after the other. Where the drafter is the target itself, D and T are the same.
"""

import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from benchmarks._report_format import Claim, Options, Row, finish, standard_error
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence as Text
from draftscope.engines.diffusion_lm.block_sequence import PassLayout, TextTask
from draftscope.engines.diffusion_lm.simsd_layouts import LAYOUTS, Drafts
from draftscope.engines.methods import simsd
from draftscope.engines.models.catalog import MODELS, drafter_of, load_model
from draftscope.engines.sampling.verification import divergences
from draftscope.engines.settings import make_config
from draftscope.experiments.problems import held_out

MODEL: Final = "text-target"
LENGTH: Final = 64
BLOCK: Final = "4"
VERIFIERS: Final = {
    "eq1": ("eq1", True),
    "eq1, no RoPE copy": ("eq1", False),
    "2L": ("2L", True),
    "exact": ("exact", True),
}
"""Verifiers by label: their layout, and whether copies have the position of their token."""
EXACT: Final = "exact"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    chosen = Options("verifiers", __doc__, device=True, problems=40).read(arguments)
    target = load_model(MODEL, chosen.device)
    rows: list[Row] = []
    claims: list[Claim] = []
    for name, drafter in (("itself", target), (drafter_of(MODEL), load_model(drafter_of(MODEL), chosen.device))):
        measured: dict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
        for problem in held_out()[: chosen.problems]:
            for label, order, numbers in compare(target, drafter, problem.question, problem.solution):
                measured[label, order].append(numbers)
        rows += [_row(name, label, order, drafts) for (label, order), drafts in sorted(measured.items())]
        claims += _claims(name, measured)
    finish(chosen, f"{MODELS[MODEL].title}: verifiers", claims, rows)


@torch.inference_mode()
def compare(target: Any, drafter: Any, question: str, solution: str) -> Iterator[tuple[str, int, dict[str, float]]]:
    """For every whole block of a solution, verifier and draft: label, place in the order, and the numbers."""
    config = make_config(simsd.Config, {"block": BLOCK, "gamma": 0, "length": LENGTH})
    task: TextTask = target.make_task(question, config)
    text, right = Text(task, config.size), target.encode(solution)
    sessions = {"target": target.open_session([task], False), "draft": drafter.open_session([task], False)}
    answer = torch.tensor([*task.prompt_ids, *right, task.eos_token_ids[0]])
    while text.block.stop <= len(answer):
        position = text.open.tolist()
        drafts = _order(text, answer, sessions["draft"])
        all_probs = {
            label: _answer(
                sessions["target"], text.request_layout(LAYOUTS[layout](text, drafts, copied), "verify", "target")
            )
            for label, (layout, copied) in VERIFIERS.items()
        }
        all_probs[EXACT] = all_probs[EXACT].diagonal().movedim(-1, 0) if len(position) > 1 else all_probs[EXACT]
        for label, probs in all_probs.items():
            apart = divergences(drafts.token, drafts.q, probs) | {
                "kl_of_exact": divergences(drafts.token, all_probs[EXACT], probs)["kl"]
            }
            for r in range(len(position)):
                yield label, r + 1, {name: float(values[r]) for name, values in apart.items()}
        text.fill(position, answer[position].tolist())


def _order(text: Text, answer: Tensor, session: Any) -> Drafts:
    """The drafter's order of the open positions, its distributions on the way, and the right tokens."""
    filled, inside = text.tokens.clone(), torch.arange(text.block.start, text.block.stop)
    seen = torch.ones(len(inside), len(inside), dtype=torch.bool)
    position, all_probs = [], []
    for _ in range(len(text.open)):
        open_ = (filled[inside] == text.task.mask).nonzero().squeeze(1)
        probs = _answer(
            session,
            text.request_layout(
                PassLayout(tokens=filled[None, inside], position=inside, read=open_, seen=seen), "draft", "draft"
            ),
        )
        surest = int(probs.max(-1).values.argmax())
        position.append(int(inside[open_[surest]]))
        all_probs.append(probs[surest])
        filled[position[-1]] = answer[position[-1]]
    positions_tensor = torch.tensor(position)
    return Drafts(positions_tensor, answer[positions_tensor], torch.stack(all_probs))


def _answer(session: Any, request: Any) -> Tensor:
    all_probs: Tensor = request.trim(session.logits({0: request})[0, :, 0].double().softmax(-1))
    return all_probs


def _row(drafter: str, verifier: str, order: int, drafts: Sequence[dict[str, float]]) -> Row:
    def mean(name: str) -> float:
        return statistics.fmean(one[name] for one in drafts)

    return {
        "method": "simsd",
        "drafter": drafter,
        "verifier": verifier,
        "draft": order,
        "blocks": len(drafts),
        "kl_of_draft": mean("kl"),
        "kl_standard_error": standard_error([one["kl"] for one in drafts]),
        "cross_entropy": mean("cross_entropy"),
        "top1_agreement": mean("agrees"),
        "kl_of_exact": mean("kl_of_exact"),
    }


def _claims(drafter: str, measured: dict[tuple[str, int], list[dict[str, float]]]) -> list[Claim]:
    """How far each one-pass verifier is from the target's own distributions."""
    claims = []
    for label in [label for label in VERIFIERS if label != EXACT]:
        drafts = [one for (name, _), rows in measured.items() if name == label for one in rows]
        apart, agree = [one["kl_of_exact"] for one in drafts], [one["agrees"] for one in drafts]
        claims.append(
            Claim(
                name=f"SimSD, {label}, drafted by {drafter}: divergence from the target one token after the other",
                measured=statistics.fmean(apart),
                unit="nats",
                reason=f"standard error {standard_error(apart):.2g}; both have the same likeliest token "
                f"in {100 * statistics.fmean(agree):.1f} % of {len(agree)} drafts",
            )
        )
    return claims


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
