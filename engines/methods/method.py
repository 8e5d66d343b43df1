"""Registry entry of a method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from draftscope.engines.continuous.denoising import ContinuousSampling
from draftscope.engines.protocol import Decoder, Family
from draftscope.engines.sampling.distributions import Sampling
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.settings import ConfigError, format_value
from draftscope.traces.schema import Rule

Reference: TypeAlias = Literal["", "draft order", "policy"]
"""Reference of an output that deviates from ordinary decoding: nothing that can be checked; the target's, one
token at a time in the order of the drafts; that of the method's policy without drafts."""
DRAFT_ORDER: Final = "draft order"
POLICY: Final = "policy"


@dataclass(frozen=True, slots=True)
class Method:
    """One line of the registry."""

    name: str
    title: str
    family: Family
    config: type[Sampling] | type[ContinuousSampling]
    decode: Callable[[Any, Any, RandomSource], Decoder]
    summary: str
    paper: str
    deviation: Callable[[Any], str]
    """Empty where the output distribution under these settings is ordinary decoding's; else what differs, in words."""
    presets: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Settings that a paper or a release gives a name, by that name."""
    explanations: Callable[[Any], tuple[Rule, ...]] = lambda _: ()
    """Formulas of the verdicts under these settings (`traces.explanations`); none where the general form holds."""
    find_drafter: Callable[[Any], str] | None = None
    """Which model drafts under these settings, `small` or `itself`; none where the method asks one model alone."""
    shifted: bool = False
    """Whether it needs a model whose outputs are shifted by one token."""
    variants: bool = False
    """Whether presets are methods in their own right, so that a run with a preset's settings has its name."""
    reference: Callable[[Any], Reference] = lambda _: ""
    """Reference of the output under settings that deviate from ordinary decoding."""

    def preset(self, name: object) -> Mapping[str, object]:
        """The settings of a preset; raises ConfigError for a name that there is not."""
        if isinstance(name, str) and name in self.presets:
            return self.presets[name]
        there_are = f"there are {', '.join(self.presets)}" if self.presets else "it has none; leave it out"
        raise ConfigError(f"preset: {self.name} has no {format_value(name)}; {there_are}.")

    def variant(self, config: Any) -> str:
        """The preset by whose name a run with these settings goes: of those that fit, the one that says most."""
        fits = [
            name
            for name, values in self.presets.items()
            if self.variants and all(getattr(config, setting) == value for setting, value in values.items())
        ]
        return max(fits, key=lambda name: len(self.presets[name]), default="")


def no_deviation(_: Any) -> str:
    """The deviation of a method that has none."""
    return ""
