"""The registry: one line a method."""

from collections.abc import Mapping
from typing import Any, Final

from draftscope.engines.continuous.denoising import ContinuousSampling
from draftscope.engines.continuous.drafting import max_tries_deviation
from draftscope.engines.diffusion_lm.block_sequence import TextSampling
from draftscope.engines.methods import (
    ar,
    blockwise,
    cspd,
    cspd_block,
    cspd_release,
    editing,
    ete,
    fdm,
    gsd,
    lopa,
    psd,
    s2d2,
    scd,
    self_spec,
    simsd,
    speculative,
)
from draftscope.engines.methods import continuous_ar as continuous
from draftscope.engines.methods import explanations as rules
from draftscope.engines.methods.method import Method, no_deviation
from draftscope.engines.protocol import Family
from draftscope.engines.sampling.distributions import GuidedSampling
from draftscope.engines.settings import Setting, make_config
from draftscope.engines.settings import settings as settings_of

METHODS: Final[dict[str, Method]] = {
    method.name: method
    for method in (
        Method("speculative", "Speculative decoding", "discrete-ar", speculative.Config, speculative.decode,
               "a small model drafts a few tokens ahead, a large one verifies them in one pass", "arXiv 2211.17192",
               no_deviation, explanations=rules.judged, find_drafter=lambda config: config.drafter),
        Method("ar", "Ordinary decoding", "discrete-ar", ar.Config, ar.decode,
               "one token per forward pass; the baseline", "", no_deviation),
        Method("scd", "MC-SJD, GS-SJD, SJD", "discrete-ar", scd.Config, scd.decode,
               "Speculative Coupled Decoding: speculative Jacobi decoding with coupled drafts", "arXiv 2510.24211",
               scd.deviation, scd.PRESETS, explanations=rules.coupled),
        Method("gsd", "GSD", "discrete-ar", gsd.Config, gsd.decode,
               "Grouped Speculative Decoding: speculative Jacobi decoding with grouped verdicts; lossy",
               "arXiv 2508.07747", gsd.deviation, gsd.PRESETS, explanations=rules.grouped),
        Method("continuous", "Ordinary decoding of vectors", "continuous-ar", continuous.Config,
               continuous.decode, "denoises one token per forward pass, or several for masked generation; the baseline",
               "", continuous.deviation),
        Method("cspd", "CSpD", "continuous-ar", cspd.Config, cspd.decode,
               "Continuous Speculative Decoding: a small model drafts vectors, a large one verifies their last steps",
               "arXiv 2411.11925", cspd.deviation, cspd.PRESETS, explanations=rules.last_step,
               find_drafter=lambda config: config.drafter),
        Method("cspd-block", "CSpD, whole paths (ours)", "continuous-ar", cspd_block.Config, cspd_block.decode,
               "a small model drafts vectors, a large one verifies all steps of their denoising at once",
               "arXiv 2411.11925 and 2403.10444", max_tries_deviation, explanations=rules.whole_path,
               find_drafter=lambda config: config.drafter),
        Method("cspd-release", "CSpD as released", "continuous-ar", cspd_release.Config, cspd_release.decode,
               "accepts nearly all that a small model drafts, and takes nothing back; lossy", "arXiv 2411.11925",
               cspd_release.deviation, explanations=rules.softened, find_drafter=lambda config: config.drafter),
        Method("blockwise", "Block diffusion", "diffusion-lm", blockwise.Config, blockwise.decode,
               "reveals confident tokens, block by block; block size 1 is ordinary decoding", "",
               blockwise.deviation, blockwise.PRESETS, explanations=rules.by_blocks),
        Method("s2d2", "S2D2", "diffusion-lm", s2d2.Config, s2d2.decode,
               "a block-diffusion model drafts, and verifies itself with blocks of one token", "arXiv 2603.25702",
               s2d2.deviation, s2d2.PRESETS, explanations=rules.self_verified),
        Method("self-spec", "Self-speculation in one pass", "diffusion-lm", self_spec.Config, self_spec.decode,
               "one network verifies drafts and makes the next ones in the same pass", "arXiv 2507.11851",
               no_deviation, explanations=rules.self_drafted, shifted=True),
        Method("editing", "Token editing", "diffusion-lm", editing.Config, editing.decode,
               "reveals tokens early and repairs them later", "", editing.deviation, editing.PRESETS,
               explanations=rules.edited),
        Method("simsd", "SimSD", "diffusion-lm", simsd.Config, simsd.decode,
               "a small diffusion model drafts in any order, a large one verifies in one pass", "arXiv 2606.02544",
               simsd.deviation, simsd.PRESETS, explanations=rules.drafted_and_verified,
               find_drafter=lambda config: config.drafter, reference=simsd.reference),
        Method("psd", "PSD", "diffusion-lm", psd.Config, psd.decode,
               "reveals in parallel, drafts the steps to come, keeps the deepest draft that holds", "arXiv 2605.15609",
               psd.deviation, psd.PRESETS, explanations=rules.in_graphs, variants=True, reference=psd.reference),
        Method("lopa", "LoPA", "diffusion-lm", lopa.Config, lopa.decode,
               "fills the block in several orders side by side, keeps the most promising one", "arXiv 2512.16229",
               lopa.deviation, explanations=rules.in_branches),
        Method("ete-style", "ETE-style", "diffusion-lm", ete.Config, ete.decode,
               "reveals across blocks, and now and then something unsure; our reading", "arXiv 2511.21103",
               ete.deviation, explanations=rules.explored),
        Method("fdm-style", "FDM-style", "diffusion-lm", fdm.Config, fdm.decode,
               "looks one step ahead before a token is chosen; our reading", "arXiv 2512.04135", fdm.deviation,
               explanations=rules.in_branches),
    )
}  # fmt: skip

_ORDINARY: Final[dict[Family, tuple[str, dict[str, object]]]] = {
    "discrete-ar": ("ar", {}),
    "diffusion-lm": ("blockwise", {"block": "1"}),
    "continuous-ar": ("continuous", {}),
}


SHARED: Final[dict[Family, type[Any]]] = {
    "discrete-ar": GuidedSampling,
    "diffusion-lm": TextSampling,
    "continuous-ar": ContinuousSampling,
}
"""The settings that every method of a family shares with its baseline."""


def settings_for(method: Method) -> tuple[Setting, ...]:
    """Return the settings of a method that its baseline does not have."""
    shared = {setting.name for setting in settings_of(SHARED[method.family])}
    return tuple(setting for setting in settings_of(method.config) if setting.name not in shared)


def baseline(family: Family, settings: Mapping[str, object]) -> tuple[Method, Any]:
    """Return ordinary decoding, the baseline of a family.

    Args:
        family: Family of the method to compare with.
        settings: Settings of that method; those that the baseline does not have are ignored.

    Returns:
        The method, and its Config.
    """
    name, baseline_settings = _ORDINARY[family]
    shared = {setting.name for setting in settings_of(SHARED[family])}
    config = make_config(METHODS[name].config, {k: v for k, v in settings.items() if k in shared} | baseline_settings)
    return METHODS[name], config
