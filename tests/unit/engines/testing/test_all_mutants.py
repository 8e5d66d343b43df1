"""Methods with a defect are refused, each for the bias that it has."""

import pytest
from support.mutants import Mutant

from draftscope.engines.testing.case import subject
from draftscope.engines.testing.exactness import proof

RATIO = {"mode": "sample", "verdict": "ratio"}
IN_ORDER = {**RATIO, "verifier": "exact", "draft_threshold": 1.0}
LEAP = {"policy": "localleap", "acceptance": "strict"}
VERIFICATION = "engines/sampling/verification.py"
WHOLE_PATHS = "engines/continuous/block_verification.py"
COUPLED = "engines/continuous/maximal_coupling.py"
ONE_ROW_EACH = """LAYOUTS[config.verifier](row, drafts, config.rope_copy), "verify", "target"))
    )
    p = probs.diagonal().movedim(-1, 0) if config.verifier == "exact" and gamma > 1 else probs
"""
ONE_PASS = """LAYOUTS["eq1"](row, drafts, config.rope_copy), "verify", "target"))
    )
    p = probs
"""

LOOKUP = "prompt-lookup"
MUTANTS = [
    Mutant("a replacement sampled from the target", LOOKUP, "residual(q, p[:W])", "p[:W]"),
    Mutant("every draft is accepted", LOOKUP, "r, slot = verdict.rejection,", "r, slot = torch.tensor(W),"),
    Mutant("the first draft is not verified", LOOKUP, "r, slot = verdict.rejection,",
           "r, slot = verdict.rejection.clamp(min=min(W, 1)),"),
    Mutant("a bonus more certain than the target", LOOKUP, "p[:W]), p[W:]])", "p[:W]), p[W:].square()])"),
    Mutant("verified by the next position's distribution", LOOKUP, "verify_drafts(x, q, p[:W]",
           "verify_drafts(x, q, p[1:]"),
    Mutant("a draft counts as less certain than it is", LOOKUP, "verify_drafts(x, q, p[:W]",
           "verify_drafts(x, 0.9 * q, p[:W]"),
    Mutant("the replacement uses the number of the verdict", LOOKUP, 'DrawKey("residual", iteration, position)',
           'DrawKey("verify", iteration, position)'),
    Mutant("the last accepted draft is dropped before a bonus", LOOKUP, "torch.cat([done, token[:gained]]), text",
           "torch.cat([done, token[: gained - 1 - (gained > W > 0)], token[gained - 1 : gained]]), text"),
    Mutant("a bonus is written twice", LOOKUP, "torch.cat([done, token[:gained]]), text",
           "torch.cat([done, token[:gained], token[W : W + (gained > W > 0)]])[: task.length], text"),
    Mutant("the text goes on after an end within drafts", LOOKUP, "gain, end = truncate_at_eos(task, token, r + 1)",
           "gain, end = r + 1, truncate_at_eos(task, token, r + 1)[1]"),
    Mutant("a replacement sampled from the target", "speculative", "torch.zeros_like(position), q, p, rng",
           "torch.zeros_like(position), 0 * q, p, rng"),
    Mutant("two per cent too many are accepted", "speculative", "x, q[:W], p[:W], rng",
           "x, q[:W] / 1.02, p[:W], rng"),
    Mutant("verified by the next position's distribution", "speculative", "x, q[:W], p[:W], rng",
           "x, q[:W], p[1:], rng"),
    Mutant("the likeliest token as a bonus", "speculative", "x, drawn[:W]), drawn[W:]])",
           "x, drawn[:W]), p[W:].argmax(-1)])"),
    Mutant("the replacement uses the number of the verdict", "speculative", 'DrawKey("residual", iteration, position)',
           'DrawKey("verify", iteration, position)'),
    Mutant("a draft keeps the distribution of the one before", "speculative", "probs.append(q)",
           "probs.append(probs[-1] if probs else q)"),
    Mutant("the first draft is not verified", "speculative", "r = verdict.rejection",
           "r = verdict.rejection.clamp(min=min(W, 1))"),
    Mutant("the text goes on after an end within drafts", "speculative",
           "gained = next((i for i in range(kept_drafts) if tokens[i] in task.eos_token_ids), kept_drafts) + 1",
           "gained = kept_drafts + 1"),
    Mutant("a bonus is written twice", "speculative", "torch.cat([done, after[:gained]]), tokens",
           "torch.cat([done, after[:gained], after[W : W + (gained > W > 0)]])[: task.length], tokens"),
    Mutant("look-ups are accepted as they are", "speculative", "r = verdict.rejection",
           'r = verdict.rejection if source == "draft" else torch.tensor(W)', settings={"drafter": "lookup-eagle"}),
    Mutant("a replacement sampled from the target", "scd", "sample_residual(x, q, p, rng, residual, ~accepted)",
           "sample_residual(x, 0 * q, p, rng, residual, ~accepted)", long=True),
    Mutant("a draft keeps the distribution of its first iteration", "scd", "if maximal and config.reuse_old_probs:",
           "if maximal:"),
    Mutant("verified by the next position's distribution", "scd", "verdict = verify_drafts(x, q, p, rng",
           "verdict = verify_drafts(x, q, p.roll(-1, 0), rng"),
    Mutant("the replacement uses the number of the verdict", "scd", 'DrawKey("residual", iteration, drafts)',
           'DrawKey("verify", iteration, drafts)'),
    Mutant("a bonus more certain than the target", "scd", "rng.categorical(probs[W:], DrawKey",
           "rng.categorical(probs[W:].square(), DrawKey"),
    Mutant("a rejection of the first draft ends nothing", "scd", "min((*answer[:W], 0).index(0) + 1, E)",
           "min((*(1,)[:W], *answer[1:W], 0).index(0) + 1, E)", module="engines/ar/jacobi_window.py"),
    Mutant("the text goes on after an end within drafts", "scd",
           "(ends.index(1) + 1, True) if 1 in ends", "(gained, True) if 1 in ends",
           module="engines/ar/jacobi_window.py", long=True),
    Mutant("a replacement sampled from the target", "s2d2", 'sample_residual(x, q, p, rng, at, lost)',
           "sample_residual(x, 0 * q, p, rng, at, lost)", module=VERIFICATION, settings=RATIO),
    Mutant("the ratio is tempered", "s2d2", "rng, names, config.tempering)", "rng, names, 0.9)", settings=RATIO),
    Mutant("verified by the next position's distribution", "s2d2", "(q, p), config", "(q, p.roll(1, 0)), config",
           settings=RATIO),
    Mutant("the first draft is not verified", "s2d2", "device=x.device) <= verdict.rejection",
           "device=x.device) <= verdict.rejection.clamp(min=1)", settings=RATIO),
    Mutant("the replacement uses the number of the verdict", "s2d2", 'at = DrawKey("residual"', 'at = DrawKey("verify"',
           module=VERIFICATION, settings=RATIO),
    Mutant("drafts after an end are accepted", "s2d2", "passed &= ends.cumsum(0) == ends", "pass", settings=RATIO,
           long=True),
    Mutant("verified by the next position's distribution", "s2d2", "(q, p), config", "(q, p.roll(1, 0)), config"),
    Mutant("the first draft is not verified", "s2d2", "device=x.device) <= verdict.rejection",
           "device=x.device) <= verdict.rejection.clamp(min=1)"),
    Mutant("a replacement sampled from the target", "self-spec", "torch.cat([q, none]), p, rng",
           "torch.cat([0 * q, none]), p, rng", settings={"mode": "sample"}),
    Mutant("verified by the next position's distribution", "self-spec", "verify_drafts(x, q, p[:W]",
           "verify_drafts(x, q, p[1:]", settings={"mode": "sample"}),
    Mutant("a draft has the distribution of another one", "self-spec", "proposed[:num_kept], following[:num_kept]",
           "proposed[:num_kept], following.roll(1, 0)[:num_kept]", settings={"mode": "sample"}),
    Mutant("the first draft is not verified", "self-spec", "r = first_rejection(x == after[:W])",
           "after[: min(W, 1)] = x[:1]; r = first_rejection(x == after[:W])"),
    Mutant("a replacement sampled from the target", "simsd", "sample_residual(x, q, p, rng, at, lost)",
           "sample_residual(x, 0 * q, p, rng, at, lost)", module=VERIFICATION, settings=IN_ORDER),
    Mutant("verified by the next draft's distribution", "simsd", "verify_in_order(x, (q, p), config",
           "verify_in_order(x, (q, p.roll(1, 0)), config", settings=IN_ORDER),
    Mutant("a draft has the distribution of another one", "simsd", "verify_in_order(x, (q, p), config",
           "verify_in_order(x, (q.roll(1, 0), p), config", settings=IN_ORDER),
    Mutant("drafts are verified in one pass", "simsd", ONE_ROW_EACH, ONE_PASS, settings=IN_ORDER),
    Mutant("the first draft is not verified", "simsd", "rejection, *final = as_ints(answer)",
           "rejection, *final = as_ints(answer); rejection = max(rejection, 1)", settings=IN_ORDER),
    Mutant("drafts stay where the policy reveals more", "psd",
           'exactly = chosen if config.acceptance == "strict" else None', "exactly = None", settings=LEAP),
    Mutant("drafts are not verified", "psd", "holds = (token == draft) &", "holds = torch.ones_like(token == draft) |",
           settings=LEAP),
    Mutant("verified by the next row's distribution", "psd", "holds = (token == draft) &",
           "holds = (token.roll(1, 0) == draft) &", settings=LEAP),
    Mutant("reveals by the distributions before the drafts", "psd", "revealed = chosen | to_device(",
           "token = probs[0].argmax(-1); revealed = chosen | to_device(", settings=LEAP),
    Mutant("a rejected path is sampled from the target", "cspd-block", "left, shape = n - 1 - left_at.step,",
           "left, shape = torch.full_like(left_at.step, n - 1),", module=WHOLE_PATHS, long=True),
    Mutant("every path is accepted", "cspd-block", "accept(log_w[-1], rng", "accept(log_w[-1] + 99, rng",
           module=WHOLE_PATHS),
    Mutant("ten per cent too many are accepted", "cspd-block", "accept(log_w[-1], rng",
           "accept(log_w[-1] + 0.0953, rng", module=WHOLE_PATHS, long=True),
    Mutant("verified by the next position's distributions", "cspd-block", "log_w = log_weights(p, q, states)",
           "log_w = log_weights(p[:, [*range(1, block.W), 0]], q, states)", module=WHOLE_PATHS, long=True),
    Mutant("the first draft is not verified", "cspd-block", "r = verdict.rejection[None]",
           "verdict = replace(verdict, accepted=verdict.accepted.index_fill(0, torch.tensor([0]), True)); "
           "r = verdict.rejection[None]", module=WHOLE_PATHS, long=True),
    Mutant("a rejected path is sampled from the target", "cspd-block", "accepted = uniform < -torch",
           "accepted = uniform > -1 - torch", module=COUPLED, settings={"verdict": "maximal"}, long=True),
    Mutant("the last accepted draft is dropped before a bonus", "cspd-block",
           "done, settled, fed = torch.cat([done, token[:count]])",
           "done, settled, fed = torch.cat([done, token[: count - 1 - (count > W)], token[count - 1 : count]])",
           long=True),
    Mutant("the text goes on after an end", LOOKUP, "while (n := len(done)) < task.length and not ended:",
           "while (n := len(done)) < task.length:"),
    Mutant("likely drafts are accepted", LOOKUP, "r, slot = verdict.rejection,",
           "r, slot = (verdict.accepted | (p[range(W), x] > 0.5)).cumprod(0).sum(),"),
    Mutant("the fourth draft is not verified", LOOKUP, "r, slot = verdict.rejection,",
           "r, slot = (verdict.accepted | (torch.arange(W) == 3)).cumprod(0).sum(),"),
    Mutant("the residual of nearly all of q", "speculative", "torch.zeros_like(position), q, p, rng",
           "torch.zeros_like(position), 0.99 * q, p, rng"),
    Mutant("one per thousand too many are accepted", "speculative", "x, q[:W], p[:W], rng",
           "x, q[:W] / 1.001, p[:W], rng"),
    Mutant("the replacement uses the number of a draft", "speculative", 'DrawKey("residual", iteration, position)',
           'DrawKey("draft", n, position)'),
    Mutant("the last draft keeps another one's distribution", "scd", "window.advance(after, probs, gained)",
           "window.advance(after, torch.cat([probs[:-1], probs[-2:-1]]) if len(probs) > 2 else probs, gained)"),
    Mutant("a draft counts as more certain than it is", "s2d2", "(q, p), config",
           "((q**1.1) / (q**1.1).sum(-1, keepdim=True), p), config", settings=RATIO),
    Mutant("the residual of another draft", "simsd", "sample_residual(x, q, p, rng, at, lost)",
           "sample_residual(x, q.roll(1, 0), p, rng, at, lost)", module=VERIFICATION, settings=IN_ORDER),
    Mutant("the policy reveals more while it verifies", "psd", "(confidence, device_position, config.tau)",
           "(confidence, device_position, config.tau - 0.2 * (drafts is not None))", settings={"acceptance": "strict"}),
]  # fmt: skip


@pytest.mark.one_quick
@pytest.mark.parametrize(
    "mutant",
    [pytest.param(one, marks=[pytest.mark.nightly] if one.long else []) for one in MUTANTS],
    ids=lambda mutant: f"{mutant.method}: {mutant.name}",
)
def test_a_method_with_a_defect_is_refused(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    result = proof(subject(mutant.load(monkeypatch), mutant.settings))
    assert not result.holds, result.message
    assert "raise" not in result.message
