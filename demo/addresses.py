"""What an address of the page asks for: a run, by method, model, settings, prompt and seed, or a recording.

    #method=scd&model=studio-image&prompt=a%20red%20boot&seed=3&set.window=16&step=12
    #gallery=scd-boot&step=12

A run is decoded again: its seed makes it the same. Settings that are not named are the defaults. `step`, `ms`, `clock`
and `token` are the player's. An address comes from anywhere, so all of it is checked, and none of it becomes a path.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from demo.decoding import Asked
from demo.limits import PROMPT_CHARACTERS
from engines.config import ConfigError, as_values, make_config, settings
from engines.methods import METHODS
from engines.models.catalog import MODELS, at_hand, default_model
from engines.sampling.chance import read_seed

MOST_CHARACTERS: Final = 6 * PROMPT_CHARACTERS + 2000
"""Of an address: a letter of a prompt may take several."""
_SETTING: Final = "set."
_PLACE: Final = ("step", "ms", "clock", "token")
_NUMBER: Final = re.compile(r"\d{1,9}(\.\d{1,6})?")
_WHOLE: Final = re.compile(r"\d{1,19}")
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What an address asks for."""

    asked: Asked | None = None
    beside: bool = True
    """Whether ordinary decoding runs beside it."""
    gallery: str = ""
    """Name of a recording."""
    at: Mapping[str, Any] | None = None
    """Where to stand: a `clock` and its reading `now`."""


def read_address(fragment: str) -> Address | None:
    """What stands behind the # of an address; None where it asks for nothing.

    Raises:
        ConfigError: naming the part of the address, its value and the remedy.
    """
    if len(fragment) > MOST_CHARACTERS:
        raise ConfigError(
            f"address: has {len(fragment)} characters; {MOST_CHARACTERS} are the most. Shorten the prompt."
        )
    pairs = parse_qsl(fragment.removeprefix("#"), keep_blank_values=True)
    given = dict(pairs)
    at = _place(given)
    if "gallery" in given:
        return Address(gallery=given["gallery"], at=at)
    if "method" not in given:
        return None
    return Address(asked=_asked(given), beside=given.get("beside") != "no", at=at)


def fragment_of(asked: Asked, beside: bool) -> str:
    """What stands behind the # of the address of a run; settings that are the defaults are left out."""
    config = METHODS[asked.method].config
    usual = {setting.name: setting.default for setting in settings(config)}
    told = {name: value for name, value in as_values(asked.config).items() if value != usual[name]}
    parts: dict[str, Any] = {"method": asked.method, "model": asked.model}
    parts |= {"prompt": asked.prompt} if asked.prompt else {}
    parts |= {"seed": asked.seed, **{_SETTING + name: value for name, value in told.items()}}
    return urlencode(parts if beside else parts | {"beside": "no"}, quote_via=quote)


def _asked(given: Mapping[str, str]) -> Asked:
    known = {"method", "model", "prompt", "seed", "beside", *_PLACE}
    for name in given:
        if name not in known and not name.startswith(_SETTING):
            raise ConfigError(f"address: {_quoted(name)} is no part of one; remove it.")
    name = given["method"]
    if name not in METHODS:
        raise ConfigError(f"method: {_quoted(name)} is not here, or not any more; choose one of {', '.join(METHODS)}.")
    method = METHODS[name]
    model = given.get("model") or default_model(method.family)
    fits = [info.id for info in MODELS.values() if method.family in info.families and at_hand(info.id)]
    if model not in fits:
        raise ConfigError(f"model: {_quoted(model)} is not here for {name}; choose one of {', '.join(fits)}.")
    prompt = given.get("prompt", "")
    if len(prompt) > PROMPT_CHARACTERS:
        raise ConfigError(f"prompt: has {len(prompt)} characters; {PROMPT_CHARACTERS} are the most. Shorten it.")
    seed = given.get("seed", "0")
    chosen = {key.removeprefix(_SETTING): value for key, value in given.items() if key.startswith(_SETTING)}
    return Asked(
        name,
        model,
        prompt,
        make_config(method.config, chosen),
        read_seed(int(seed) if _WHOLE.fullmatch(seed) else seed[:_SHOWN]),
    )


def _place(given: Mapping[str, str]) -> Mapping[str, Any] | None:
    clock = "milliseconds" if given.get("clock") == "milliseconds" else "passes"
    now = given.get("ms" if clock == "milliseconds" else "step", "")
    return {"clock": clock, "now": float(now)} if _NUMBER.fullmatch(now) else None


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
