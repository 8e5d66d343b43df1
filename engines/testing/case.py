"""Subject of the checks: a method with small settings, on the small models of its family."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, get_args

import torch
from torch import Tensor

from draftscope.engines.methods import METHODS
from draftscope.engines.methods.method import Method
from draftscope.engines.methods.speculative import EAGLE_DRAFTERS
from draftscope.engines.protocol import Family, Model, Session
from draftscope.engines.runtime.driver import OTHER_DRAFTERS, Job, decode, open_session
from draftscope.engines.settings import ConfigError, Value, make_config, settings
from draftscope.engines.testing.toy_models import SMALL, DepthModel, Table, ToyFieldModel

SHORT: Final[dict[Family, dict[str, Value]]] = {
    "discrete-ar": {"window": 4, "gamma": 3},
    "diffusion-lm": {"length": 16, "block": "4", "gamma": 3},
    "continuous-ar": {"steps": 3, "last_timestep": 150, "gamma": 3, "prefill_share": 0.0, "coupled_steps": 1},
}
"""Settings of a small size, for those a method has: four positions, or a block of four, with three drafts in flight."""
_PROMPTS: Final = ("abcde", "ab", "gfedcba")
"""Prompts of the family diffusion-lm, the only one that has prompts."""


@dataclass(frozen=True, slots=True)
class ConformanceCase:
    """A method with settings, and the models to run it on."""

    method: Method
    config: Any
    model: Model
    small: Model
    """Drafts, for methods that have another model draft."""
    shortened: frozenset[str] = frozenset()
    """Settings that were not given and are small here."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Settings that were given."""

    def job(self, seed: int = 0) -> Job:
        """A run; seeds differ in their prompts, too, where the family has prompts."""
        prompt = _PROMPTS[seed % len(_PROMPTS)] if self.method.family == "diffusion-lm" else ""
        return Job(self.method, self.model, prompt, self.config, seed, drafter=self.small)

    @property
    def drafting(self) -> Model:
        """Model whose distributions answer requests of the role `draft`."""
        drafter = self.method.find_drafter(self.config) if self.method.find_drafter else ""
        return self.small if drafter in (*OTHER_DRAFTERS, *EAGLE_DRAFTERS) else self.model


def subject(method: Method, options: Mapping[str, object] | None = None) -> ConformanceCase:
    """Return a method under some settings on a tiny model, shortened where they leave room.

    Args:
        method: The method.
        options: Settings that are not shortened; all others have short values or their defaults.

    Raises:
        ConfigError: If the family is unknown or a setting is invalid.
        ValueError: If the method or its model refuses the settings.
    """
    if method.family not in SHORT:
        raise ConfigError(f"family: {method.family!r} is none; use {', '.join(get_args(Family))}.")
    options = {} if options is None else options
    wanted = {name: value for name, value in SHORT[method.family].items() if name not in options}
    short: dict[str, Value] = {}
    for setting in settings(method.config):
        if setting.name in wanted:
            with suppress(ConfigError):
                short[setting.name] = setting.parse(wanted[setting.name])
    config = make_config(method.config, {**short, **options})
    model, small = _models(method.family, method.shifted)
    if getattr(config, "drafter", "") == "mixture":
        small = ToyFieldModel(SMALL, mixed=True)
    case = ConformanceCase(method, config, model, small, frozenset(short), options)
    open_session([case.job()])
    case.job().decoder()
    return case


def claims(method: Method, settings: Mapping[str, object]) -> bool:
    """Whether the method says that its output distribution is ordinary decoding's under these settings, unshortened."""
    return not method.deviation(make_config(method.config, settings))


def find(spec: str) -> Method:
    """The method of the registry, or of an importable module:name; raises ConfigError with what to do."""
    module_name, colon, name = spec.partition(":")
    if spec in METHODS:
        return METHODS[spec]
    if not colon:
        raise ConfigError(
            f"method: {spec!r} is not one of {', '.join(METHODS)}; for a custom method write module:name."
        )
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever a module does while it is imported
        first_line = next(iter(str(error).splitlines()), "")
        raise ConfigError(
            f"method: the module {module_name!r} cannot be imported ({type(error).__name__}: {first_line}); "
            "run this in the folder that holds it."
        ) from error
    methods = {key: value for key, value in vars(module).items() if isinstance(value, Method)}
    if name not in methods:
        raise ConfigError(
            f"method: {spec} is not an engines.methods.method.Method; those of the module are "
            f"{', '.join(methods) or 'none at all'}, and engines/methods/__init__.py has examples."
        )
    return methods[name]


def decoded(jobs: Sequence[Job], session: Session | None = None) -> list[Tensor]:
    """Return the results of decoders, before any rounding for a record.

    Args:
        jobs: Jobs of one batch.
        session: Session for all of them; by default it is opened here.
    """
    return [sequence.result[0] for sequence in decode(jobs, session)]


def same(a: Tensor, b: Tensor) -> bool:
    """Return whether two sequences are equal: ids exactly, vectors up to the rounding of sums in another order.

    Args:
        a: Tokens [N] or vectors [N, D].
        b: Another sequence; one of another shape differs.
    """
    return a.shape == b.shape and bool(torch.allclose(a.double(), b.double(), rtol=1e-9, atol=1e-9))


def _models(family: Family, shift: bool) -> tuple[Model, Model]:
    if family == "discrete-ar":
        return Table(4, 2, seed=0), Table(4, 2, seed=1)
    if family == "diffusion-lm":
        return DepthModel(0, shift=shift), DepthModel(1, shift=shift)
    return ToyFieldModel(), ToyFieldModel(SMALL)
