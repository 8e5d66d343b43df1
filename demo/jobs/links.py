"""Links to the page, as listed in docs/page.md: a run, recordings, runs to compare, or a speed-up model.

A run is decoded again: its seed makes it the same. Settings that the link does not name have their defaults. `plan`
belongs to the calculator; `step`, `ms`, `clock`, `on` and `token` belong to the player, `tour` to the tour, `lesson` to
Learn. A link can come from anywhere, so all of it is checked, and nothing in it becomes a path.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from draftscope.analysis.hardware import HardwareError, Machine, read_machine
from draftscope.demo.server.limits import PROMPT_CHARACTERS
from draftscope.engines.methods import METHODS, baseline
from draftscope.engines.models.catalog import MODELS, default_model, download_hint, is_available, models_for
from draftscope.engines.models.chat import ChatOptions
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.sampling.random_source import parse_seed
from draftscope.engines.settings import ConfigError, config_values, make_config, read_variables
from draftscope.traces.schema import Trace
from draftscope.visualizers.lessons import LESSONS

WATCH, COMPARE, CHOOSE, LEARN = TABS = ("watch", "compare", "choose", "learn")
"""Names of the tabs in links. A link without a tab opens the first one, or the second for runs to compare."""
MAX_LINK_CHARACTERS: Final = 6 * PROMPT_CHARACTERS + 2000
"""Maximum length of a link: a character of a prompt may take several."""
MAX_COMPARED: Final = 6
"""Maximum number of runs in a comparison."""
FILE: Final = "file"
"""Name in links of a run that came from a file and cannot be decoded again from its settings."""
_SETTING: Final = "set."
_VARIABLE: Final = "template."
_PLANNED: Final = "plan."
_BESIDE: Final = ("tab", "lesson", "tour", "step", "ms", "clock", "on", "token")
"""Fields of a link in addition to those of a run."""
_NUMBER: Final = re.compile(r"\d{1,9}(\.\d{1,6})?")
_WHOLE: Final = re.compile(r"\d{1,19}")
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLink:
    """Parsed link."""

    tab: str = ""
    """Tab to open; empty for the tab that fits the content."""
    request: RunRequest | None = None
    compared: bool = True
    """Whether the baseline runs as well."""
    gallery: str = ""
    """Name of a recording."""
    compare: tuple[str | RunRequest, ...] = ()
    """Runs to stand side by side: recordings by name, others decoded again; `FILE` is one that cannot be."""
    left_out: tuple[str, ...] = ()
    """Runs named after the first `MAX_COMPARED`, as written."""
    grid: tuple[str, ...] = ()
    """Prompts of the grid."""
    seeds: int = 0
    """For each of them; 0 where there is no grid."""
    plan: Mapping[str, str] = field(default_factory=dict)
    """Calculator values by field of `draftscope.analysis.speedup_model.SpeedupModel`."""
    at: Mapping[str, Any] | None = None
    """Position of the player: a `clock`, its reading `now`, and the hardware `on` for which it is computed."""


def parse_link(fragment: str) -> PageLink | None:
    """Parse the URL fragment of a link. Returns None if it requests nothing.

    Raises:
        ConfigError: With the field of the link, its value and the remedy.
    """
    if len(fragment) > MAX_LINK_CHARACTERS:
        raise ConfigError(
            f"address: has {len(fragment)} characters; the maximum is {MAX_LINK_CHARACTERS}. Shorten the prompt."
        )
    pairs = parse_qsl(fragment.removeprefix("#"), keep_blank_values=True)
    fields = dict(pairs)
    at, tab, lesson = _position_in_trace(fields), _one_of(fields, "tab", TABS), _one_of(fields, "lesson", LESSONS)
    tab = tab or (LEARN if lesson else "")
    if "compare" in fields:
        runs = [value for name, value in pairs if name == "compare"]
        runs, left_out = runs[:MAX_COMPARED], tuple(runs[MAX_COMPARED:])
        settings_of = (dict(parse_qsl(run, keep_blank_values=True)) if "=" in run else run for run in runs)
        compared = tuple(run if isinstance(run, str) else _request(run) for run in settings_of)
        prompts = tuple(value for name, value in pairs if name == "grid")
        seeds = fields.get("seeds", "1" if prompts else "0")
        if len(prompts) > MAX_COMPARED or not re.fullmatch(rf"[0-{MAX_COMPARED}]", seeds):
            raise ConfigError(
                f"grid: {len(prompts)} prompts with {_quoted(seeds)} seeds are not allowed; use up to {MAX_COMPARED}."
            )
        at = at or _position_in_trace({"ms": "0", **fields})
        parse_machine((at or {}).get("on", ""))  # what is wrong with it is said at once
        return PageLink(tab=tab, compare=compared, left_out=left_out, grid=prompts, seeds=int(seeds), at=at)
    if "gallery" in fields:
        return PageLink(tab=tab, gallery=fields["gallery"], at=at)
    if plan := {key.removeprefix(_PLANNED): value for key, value in fields.items() if key.startswith(_PLANNED)}:
        return PageLink(tab=tab or CHOOSE, plan=plan)
    if "method" not in fields:
        return PageLink(tab=tab) if tab else None
    request, baseline_wanted = _request(fields), fields.get("beside") != "no"
    if tab == COMPARE:  # else the tab would show what the page opens with
        return PageLink(tab=tab, compare=tuple(with_baseline(request) if baseline_wanted else [request]), at=at)
    return PageLink(tab=tab, request=request, compared=baseline_wanted, at=at)


def parse_machine(on: str) -> Machine | None:
    """The hardware that an address computes times for, by the names of presets; None where it names none.

    Raises ConfigError naming the part of the address, its value and the remedy.
    """
    if not on:
        return None
    device, engine, target, draft, batch, *_ = [*on.replace("_", " ").split(","), *[""] * 5]
    if not re.fullmatch(r"[1-9]\d{0,3}", batch):
        raise ConfigError(f"on: a batch of {_quoted(batch)} is not allowed; use a whole number from 1 to 9999.")
    try:
        return read_machine(device[:_SHOWN], engine[:_SHOWN], target[:_SHOWN], draft[:_SHOWN] or None, int(batch))
    except HardwareError as error:
        raise ConfigError(f"on: {error}") from None


def with_baseline(request: RunRequest) -> list[RunRequest]:
    """A run, and before it ordinary decoding of the same prompt, seed and sampling where it is another one."""
    method, settings = baseline(METHODS[request.method].family, config_values(request.config))
    first = replace(request, method=method.name, config=settings)
    return [request] if first == request else [first, request]


def run_link(request: RunRequest, compared: bool) -> str:
    """Return the URL fragment for a run. Settings at their defaults are left out."""
    defaults = config_values(METHODS[request.method].config())
    parts: dict[str, Any] = {
        "method": request.method,
        "model": request.model,
        "prompt": request.prompt,
        "seed": request.seed,
    }
    parts |= {
        _SETTING + name: value for name, value in config_values(request.config).items() if value != defaults[name]
    }
    parts |= {"chat": "no" if request.chat is False else "", "system": request.system or ""}
    parts |= {_VARIABLE + name: json.dumps(value) for name, value in (request.template or {}).items()}
    parts["beside"] = "" if compared else "no"
    return urlencode({name: value for name, value in parts.items() if value != ""}, quote_via=quote)


def calculator_link(fields: Mapping[str, object]) -> str:
    """Return the URL fragment for the calculator."""
    return urlencode({_PLANNED + name: value for name, value in fields.items()}, quote_via=quote)


def request_from_trace(trace: Trace) -> RunRequest | None:
    """Return the request that produced a trace; None if its method, model or settings are not available here."""
    method, model = METHODS.get(trace.method), MODELS.get(trace.model.id)
    prompt = trace.prompt or ""
    if method is None or model is None or method.family not in model.families or not is_available(model.id):
        return None
    if trace.seed is None or len(prompt) > PROMPT_CHARACTERS:
        return None
    recorded = trace.extensions.get("draftscope", {})
    if not isinstance(recorded, Mapping) or recorded.get("messages"):
        return None
    try:
        config = make_config(method.config, trace.config)
        options = ChatOptions.parse(**{name: recorded.get(name) for name in ("chat", "system", "template")})
        template = {name: value for name, value in options.template.items() if name != "date"}  # it reads that itself
        chat = chat_of(model.id, options.chat is not False, options.system, template)
        return RunRequest(method.name, model.id, prompt, config, parse_seed(trace.seed), **chat)
    except ValueError:
        return None


def comparison_link(runs: Sequence[str]) -> str:
    """Return the URL fragment for a comparison.

    Args:
        runs: Names of recordings and fragments of runs.

    Returns:
        The fragment; empty without runs, or if it would exceed the maximum length of a link.
    """
    fragment = urlencode([("compare", run) for run in runs], quote_via=quote)
    return fragment if len(fragment) <= MAX_LINK_CHARACTERS else ""


def linked_runs(link: str) -> tuple[str | RunRequest, ...]:
    """Return what the link of one run in a comparison names: none if it is too long.

    Raises:
        ConfigError: As `parse_link` does.
    """
    fragment = comparison_link([link])
    address = parse_link(fragment) if fragment else None
    return address.compare if address else ()


def fragment_of_grid(prompts: Sequence[str], seeds: int) -> str:
    """Return the part of the URL fragment that follows the runs of a grid."""
    return urlencode([*(("grid", prompt) for prompt in prompts), ("seeds", seeds)], quote_via=quote)


def _request(fields: Mapping[str, str]) -> RunRequest:
    known = {"method", "model", "prompt", "seed", "chat", "system", "beside", *_BESIDE}
    for name in fields:
        if name not in known and not name.startswith((_SETTING, _VARIABLE)):
            raise ConfigError(f"link: unknown field {_quoted(name)}; remove it.")
    name = fields["method"]
    if name not in METHODS:
        raise ConfigError(f"method: {_quoted(name)} is not available; choose one of {', '.join(METHODS)}.")
    method = METHODS[name]
    model = fields.get("model") or default_model(method.family, shifted=method.shifted)
    fits, info = models_for(method.family), MODELS.get(model)
    if model not in fits:
        if info is not None and info.downloads and method.family in info.families:
            raise ConfigError(f"model: {download_hint(model)}")
        raise ConfigError(f"model: {_quoted(model)} is not available for {name}; choose one of {', '.join(fits)}.")
    prompt, system = fields.get("prompt", ""), fields.get("system", "")
    for field_name, text in (("prompt", prompt), ("system", system)):
        if len(text) > PROMPT_CHARACTERS:
            problem = f"has {len(text)} characters; the maximum is {PROMPT_CHARACTERS}. Shorten it."
            raise ConfigError(f"{field_name}: {problem}")
    written = fields.get("seed", "0")
    seed = parse_seed(int(written) if _WHOLE.fullmatch(written) else written[:_SHOWN])
    chosen = {key.removeprefix(_SETTING): value for key, value in fields.items() if key.startswith(_SETTING)}
    written_variables = [
        f"{key.removeprefix(_VARIABLE)}={value}" for key, value in fields.items() if key.startswith(_VARIABLE)
    ]
    if (chatting := fields.get("chat", "")) not in ("", "no"):
        raise ConfigError(f"chat: {_quoted(chatting)} is not allowed; use no, or leave it out.")
    chat = chat_of(model, not chatting, system, read_variables(written_variables, "template"))
    return RunRequest(name, model, prompt, make_config(method.config, chosen), seed, **chat)


def chat_of(model: str, chat: bool, system: str, template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chat options of a run as fields of its request, those that are set.

    Args:
        model: A model of the catalogue.
        chat: Whether the prompt is put in the chat template of the model.
        system: The system turn; empty for none.
        template: Variables of the template.

    Raises:
        ConfigError: The model takes none, or a value is not allowed.
    """
    chosen: dict[str, Any] = {} if chat else {"chat": False}
    chosen |= {name: value for name, value in (("system", system.strip()), ("template", dict(template))) if value}
    if chosen and not MODELS[model].generates_text:
        raise ConfigError(f"{next(iter(chosen))}: {model} is not a published language model; leave it out.")
    try:
        ChatOptions.parse(**chosen)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return chosen


def _one_of(fields: Mapping[str, str], name: str, known: Collection[str]) -> str:
    """The value of a field that has to be one of these; empty where the link has none."""
    value = fields.get(name, "")
    if value and value not in known:
        raise ConfigError(f"{name}: {_quoted(value)} is not here; choose one of {', '.join(known)}.")
    return value


def _position_in_trace(values: Mapping[str, str]) -> Mapping[str, Any] | None:
    clock = values.get("clock", "")
    clock = clock if clock in ("milliseconds", "computed") else "passes"
    now = values.get("step" if clock == "passes" else "ms", "")
    on = {"on": values["on"]} if clock == "computed" and "on" in values else {}
    return {"clock": clock, "now": float(now), **on} if _NUMBER.fullmatch(now) else None


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
