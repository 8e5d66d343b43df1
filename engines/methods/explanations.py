"""Formulas of the methods' verdicts, which a page fills with a token's values (`draftscope.traces.explanations`).

A rule covers fates and the measures that the method records. The settings under which it holds are decided here, so
that a viewer need not know the method. Of several rules, the first that fits an entry is shown.
"""

from dataclasses import replace
from typing import Any, Final

from draftscope.engines.diffusion_lm.unmasking import ANCHOR_THRESHOLD
from draftscope.traces.schema import Fate, Rule

_UNIFORM: Final = "uniform draw {coin} {coin ? accept_prob} {accept_prob}: {fate}"
_JUDGED: Final = (Fate.ACCEPTED, Fate.RESAMPLED, Fate.REJECTED)
_LESS: Final = "the more q exceeds p, the more rarely it is accepted"

RATIO: Final = Rule(
    fates=_JUDGED,
    formula="min(1, {p} / {q}) = {accept_prob}; " + _UNIFORM,
    says=f"A draft is accepted with probability min(1, p / q): {_LESS}.",
    redrawn="residual",
)
NOISE: Final = Rule(
    fates=_JUDGED,
    formula="the noise of this position picks {token} {token ? draft} {draft}, the draft: {fate}",
    says="A draft is accepted if it is the token that ordinary decoding picks from p by the same noise.",
    redrawn="judge",
)
LIKELIEST: Final = Rule(
    fates=_JUDGED,
    formula="likeliest for the target: {best} {best ? draft} the draft {draft}: {fate}",
    says="A draft is accepted if it is the token that the target finds likeliest.",
    redrawn="likeliest",
)
EDITED: Final = Rule(
    fates=(Fate.EDITED,),
    formula="confidence {confidence} {confidence ? set edit_threshold} {set edit_threshold}: {fate}",
    says="A token gives way to another one of which the model is this sure.",
)


def judged(config: Any) -> tuple[Rule, ...]:
    """Speculative decoding: by a ratio, or by the noise that ordinary decoding has, too."""
    return (NOISE if config.same_noise else RATIO,)


def self_drafted(config: Any) -> tuple[Rule, ...]:
    """Self-speculation in one pass: by a ratio, or by the likeliest token."""
    return (LIKELIEST if config.mode == "greedy" else RATIO,)


def coupled(config: Any) -> tuple[Rule, ...]:
    """Speculative Jacobi decoding: under maximal coupling the verdict counts for all drafts of the window."""
    if config.same_noise or config.coupling != "maximal" or config.alpha < 1:
        return judged(config)
    waiting = Rule(
        fates=(Fate.KEPT, Fate.CHANGED),
        formula=RATIO.formula,
        says="After a rejection nothing is final, but the same number decides whether to keep or replace the draft.",
    )
    return RATIO, waiting


def grouped(_: Any) -> tuple[Rule, ...]:
    """Return rules for verdicts over groups of interchangeable tokens."""
    formula = "min(1, {group_p} / {group_q}) = {accept_prob}; " + _UNIFORM
    return (replace(RATIO, formula=formula, says="p and q are those of the draft and of tokens like it, added up."),)


def verified(config: Any) -> tuple[Rule, ...]:
    """Return rules for the verdicts of `draftscope.engines.sampling.verification`."""
    if config.verdict == "match":
        return (LIKELIEST,)
    if config.verdict == "plain":
        return (replace(RATIO, redrawn="judge"),)
    if getattr(config, "tempering", 1.0) == 1:
        return (RATIO,)
    formula = "min(1, {p} / {q}) to the power of {set tempering} = {accept_prob}; " + _UNIFORM
    return (replace(RATIO, formula=formula, says=f"p / q is tempered: {_LESS}, less so at a power below 1."),)


def self_verified(config: Any) -> tuple[Rule, ...]:
    """Verdicts under block size 1, and what is revealed without one."""
    return (*verified(config), *sure("threshold"), EDITED)


def surest(fates: tuple[Fate, ...], says: str) -> Rule:
    """Return the rule of a policy that takes the most confident position, whatever its confidence.

    Args:
        says: The rule in a plain sentence.
        fates: Outcomes that it explains.
    """
    return Rule(fates=fates, formula="confidence {confidence}, the highest of the open places: {fate}", says=says)


def sure(setting: str) -> tuple[Rule, ...]:
    """Everything is revealed that reaches a confidence, or the most confident position where nothing does."""
    reached = f"confidence {{confidence}} {{confidence ? set {setting}}} {{set {setting}}}: {{fate}}"
    return (
        Rule(fates=(Fate.UNMASKED,), formula=reached, says="A token is revealed where the model is this sure of it."),
        Rule(
            fates=(Fate.FALLBACK,),
            formula=f"{reached} nevertheless",
            says="Nothing was sure enough. The surest open place is revealed anyway: every pass has to bring a token.",
        ),
        Rule(fates=(Fate.DRAFTED,), formula=reached, says="What the model is not sure enough of stays a draft."),
    )


def revealed(policy: str, setting: str) -> tuple[Rule, ...]:
    """Return the rules of a policy of `draftscope.engines.diffusion_lm.unmasking`, or of a schedule.

    Args:
        policy: Name of the policy; "static" is a schedule.
        setting: Name of the setting that holds its threshold.
    """
    if policy == "localleap":
        near = f"{ANCHOR_THRESHOLD:g} near a token that reaches it"
        formula = f"confidence {{confidence}}; threshold {{set {setting}}}, or {near}"
        leap = Rule(
            fates=(Fate.UNMASKED,),
            formula=f"{formula}: {{fate}}",
            says="A token is revealed where the model is this sure of it; near such a token less will do.",
        )
        return leap, *sure(setting)
    if policy in ("greedy", "static"):
        return (surest((Fate.UNMASKED, Fate.FALLBACK), "The surest of the open places are revealed, and no others."),)
    return sure(setting)


def by_blocks(config: Any) -> tuple[Rule, ...]:
    """Ordinary decoding of blocks."""
    if config.size == 1:
        only = "A block of one token: the pass covers one position, and reveals it."
        return (Rule(fates=(Fate.UNMASKED, Fate.FALLBACK), formula="the only open place: {fate}", says=only),)
    return revealed(config.rule, "threshold")


def in_graphs(config: Any) -> tuple[Rule, ...]:
    """Return rules for drafts in the graph of a later step, which must be accepted there."""
    agree = "likeliest, given the drafts before it: {best} {best ? draft} the draft {draft}"
    enough = "" if config.policy == "greedy" else "; confidence {confidence} {confidence ? set tau} {set tau}"
    pending = Rule(
        fates=(Fate.ACCEPTED, Fate.REJECTED),
        formula=f"{agree}{enough}: {{fate}}",
        says="A draft is accepted if the model, seeing the drafts before it, reveals the same token. Drafts that were "
        "added together are accepted together.",
    )
    return pending, *revealed(config.policy, "tau")


def edited(_: Any) -> tuple[Rule, ...]:
    """Early reveals that are repaired."""
    return EDITED, *sure("threshold")


def in_branches(_: Any) -> tuple[Rule, ...]:
    """Several states of a block are compared, and the one with the best score goes on."""
    lost = Rule(
        fates=(Fate.DISCARDED,),
        formula="score of its row {branch_score}, below the best row's: {fate}",
        says="Rows with other drafts are compared by a score. The best one goes on with its drafts.",
    )
    return lost, *sure("tau")


def explored(_: Any) -> tuple[Rule, ...]:
    """Sure tokens, and now and then one that is not."""
    unsure = Rule(
        fates=(Fate.FALLBACK,),
        formula="confidence {confidence} {confidence ? set tau} {set tau}: {fate} to explore",
        says="Little was sure, so one unsure place is settled: that tells the model most about the rest.",
    )
    return unsure, *sure("tau")


def drafted_and_verified(config: Any) -> tuple[Rule, ...]:
    """Return rules for drafts of a small model in an order of its own, verified by a large one."""
    chosen = surest((Fate.DRAFTED,), "The drafter fills the position it is surest of, then the next one.")
    alone = surest((Fate.FALLBACK,), "Too few positions are left to draft: the target reveals the surest one.")
    return (*verified(config), chosen, alone)


def last_step(config: Any) -> tuple[Rule, ...]:
    """The ratio of two densities, those of the last denoising step, in the variant of the settings."""
    densities = "{log_density_target} − {log_density_draft}"
    ratio_of = {
        "exact": f"p / q = exp({densities})",
        "paper": f"R = exp({densities} + {{log_variance_ratio}})",
        "distance-only": "R = exp({log_ratio}), from distances alone",
    }[config.mode]
    name = ratio_of.partition(" =")[0]
    return _continuous(ratio_of, name, f"A draft is accepted with probability min(1, {name}): {_LESS}.")


def whole_path(config: Any) -> tuple[Rule, ...]:
    """The weight of a whole denoising path, or the ratio of its densities."""
    if config.verdict == "maximal":
        says = "p and q are the densities of the whole denoising path, all steps of it: " + _LESS + "."
        return _continuous("p / q = exp({log_ratio})", "p / q", says)
    return _continuous("w = exp({log_ratio})", "w", "All denoising steps are verified as one, by their weight w.")


def softened(_: Any) -> tuple[Rule, ...]:
    """Return rules for the quantity that the release computes instead of a ratio of densities."""
    formula = "R = exp({soft_log_ratio} − {log_variance_ratio})"
    return _continuous(
        formula, "R", "Distances are divided by 42 before they are compared, so most drafts are accepted."
    )


def _continuous(formula: str, name: str, says: str) -> tuple[Rule, ...]:
    whole_path = f"{formula}; min(1, {name}) = {{accept_prob}}; {_UNIFORM}"
    return (Rule(fates=_JUDGED, formula=whole_path, says=says, redrawn="residual"),)
