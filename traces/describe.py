"""The format described from the code: JSON Schema, the tables of docs/trace.md, and a trace at a glance."""

from collections.abc import Iterable, Iterator, Sequence
from inspect import cleandoc
from typing import Any, Final, Literal

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import DataclassSchema

from traces import limits
from traces.io import TRACE_TYPE
from traces.measures import FREE_PREFIX, MEASURES, Measure
from traces.places import by_place
from traces.replay import PENDING
from traces.schema import FATES, VERSION, Fate, Trace
from traces.stats import cost_by_mode

SCHEMA_ID: Final = f"urn:draftscope:trace:{VERSION}"
_REFERENCE: Final = "#/$defs/"
_PLACES: Final = 16
"""Places of a draft that a summary names."""


class _Records(GenerateJsonSchema):
    """Says of every record what some versions of pydantic leave out for plain dataclasses."""

    def dataclass_schema(self, schema: DataclassSchema) -> dict[str, Any]:
        """With the docstring, and that a field of another name is refused, as the reader refuses it."""
        said = {"additionalProperties": False, "description": cleandoc(schema["cls"].__doc__ or "")}
        return super().dataclass_schema(schema) | said


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a trace. It knows types; what makes sense beyond them is known to `traces.check`."""
    document = TRACE_TYPE.json_schema(schema_generator=_Records)
    # Records default schema and version, files never; a summary that is missing is derived.
    document["required"] = ["schema", "version", *(name for name in document["required"] if name != "summary")]
    step = document["$defs"]["Step"]["properties"]
    step["numbers"]["propertyNames"] = _measure_names("position")
    step["signals"]["propertyNames"] = _measure_names("step")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID} | document


def markdown() -> str:
    """The reference part of docs/trace.md: records, fates, measures, limits."""
    return "\n\n".join(
        [
            "## Records",
            *_record_sections(),
            "## Fates",
            _fates_table(),
            "## Measures",
            f"Names that begin with `{FREE_PREFIX}` are free for experiments.",
            "### Per position (`numbers`)",
            _measures_table("position"),
            "### Per step (`signals`)",
            _measures_table("step"),
            "## Limits",
            "A file beyond a limit is refused before it costs memory or time.",
            _limits_table(),
        ]
    )


def at_a_glance(trace: Trace) -> str:
    """The run and its summary as aligned text. Nothing of it can steer a terminal."""
    summary = trace.summary
    settings = ", ".join(f"{name}={value}" for name, value in trace.config.items())
    canvas = f"{trace.canvas.kind} {' x '.join(map(str, trace.canvas.shape))}"
    modes = ", ".join(f"{cost.forwards} {mode}" for mode, cost in cost_by_mode(trace.steps).items())
    acceptance = "-" if summary.acceptance is None else f"{summary.acceptance:.3f}"
    rows = {
        "method": trace.method,
        "variant": trace.variant,
        "model": trace.model.id,
        "prompt": trace.prompt,
        "settings": settings,
        "seed": "" if trace.seed is None else str(trace.seed),
        "created": f"{trace.created} on {trace.environment.device}" if trace.environment.device else trace.created,
        "canvas": f"{canvas}, {'complete' if summary.complete else 'stopped early'}",
        "tokens": str(summary.tokens),
        "forwards": f"{summary.forwards} ({modes})" if modes else str(summary.forwards),
        "tokens per forward": f"{summary.tokens_per_forward:.3f}",
        "acceptance": f"{acceptance} ({summary.accepted} of {summary.judged} drafts judged)",
        **_by_place(trace),
        "query tokens": str(summary.query_tokens),
        "row forwards": str(summary.row_forwards),
        "seconds": f"{summary.seconds:.4g} ({summary.forward_seconds:.4g} in the network)",
        "note": trace.note,
    }
    return "\n".join(f"{name:<18}  {_printable(value)}" for name, value in rows.items() if value)


def _by_place(trace: Trace) -> dict[str, str]:
    """Mean accepted length and the marginal rates of the first places; nothing for a run that verified no drafts."""
    found = by_place([trace.steps])
    if found is None:
        return {}
    rates = " ".join(f"{place.marginal:.2f}" for place in found.places[:_PLACES])
    more = " ..." if len(found.places) > _PLACES else ""
    return {
        "accepted length": f"{found.mean_accepted_length:.3f} in {found.passes} passes that verified drafts",
        "by place": f"{rates}{more}",
    }


def _printable(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else " " for letter in text[:200])
    return shown if len(text) <= 200 else f"{shown} ..."


def _measure_names(per: Literal["position", "step"]) -> dict[str, Any]:
    names = [name for name, measure in MEASURES.items() if measure.per == per]
    return {"anyOf": [{"enum": names}, {"pattern": f"^{FREE_PREFIX}"}]}


def _record_sections() -> Iterator[str]:
    """The trace first, then its records in the order in which they are met."""
    document = json_schema()
    records = {"Trace": document} | document["$defs"]
    waiting, met = ["Trace"], {"Trace"}
    while waiting:
        name = waiting.pop(0)
        if "properties" not in records[name]:
            continue  # Fates have a table of their own.
        yield f"### {name}\n\n{_prose(records[name].get('description', ''))}"
        required = records[name].get("required", ())
        rows = []
        for field, kind in records[name]["properties"].items():
            need = "yes" if field in required else ""
            rows.append((f"`{field}`", _kind(kind), need, _prose(kind.get("description", ""))))
            for other in _references(kind):
                if other not in met:
                    met.add(other)
                    waiting.append(other)
        yield _table(("field", "type", "required", "meaning"), rows)


def _references(kind: object) -> Iterator[str]:
    if isinstance(kind, dict):
        if "$ref" in kind:
            yield kind["$ref"].removeprefix(_REFERENCE)
        for value in kind.values():
            yield from _references(value)
    elif isinstance(kind, list):
        for value in kind:
            yield from _references(value)


def _kind(kind: dict[str, Any]) -> str:
    """A type of JSON Schema in words."""
    if "$ref" in kind:
        name = kind["$ref"].removeprefix(_REFERENCE)
        return f"[{name}](#{'fates' if name == 'Fate' else name.lower()})"
    if "anyOf" in kind:
        return " or ".join(_kind(option) for option in kind["anyOf"])
    if "const" in kind:
        return f'`"{kind["const"]}"`'
    if "enum" in kind:
        return " or ".join(f'`"{value}"`' for value in kind["enum"])
    if "prefixItems" in kind:
        return f"[{', '.join(_kind(item) for item in kind['prefixItems'])}]"
    if kind["type"] == "array":
        item = _kind(kind["items"])
        return f"list of ({item})" if " or " in item else f"list of {item}"
    if kind["type"] == "object":
        values = kind["additionalProperties"]
        return "object" if values is True else f"object of {_kind(values)}"
    return str(kind["type"])


def _prose(text: str) -> str:
    return " ".join(text.split()).replace("None", "null").replace("|", "\\|")


def _fates_table() -> str:
    rows = [(f"`{fate}`", meaning, _effect(fate), "yes" if fate.judged else "") for fate, meaning in FATES.items()]
    return _table(("fate", "meaning", "the position is then", "counts as judged"), rows)


def _effect(fate: Fate) -> str:
    return "final" if fate.final else "pending" if fate in PENDING else "open"


def _measures_table(per: Literal["position", "step"]) -> str:
    rows = [
        (f"`{name}`", measure.label, measure.meaning.replace("|", "\\|"), measure.unit, _range(measure))
        for name, measure in MEASURES.items()
        if measure.per == per
    ]
    return _table(("name", "label", "meaning", "unit", "range"), rows)


def _range(measure: Measure) -> str:
    if measure.low is None:
        return ""
    return f"from {measure.low:g}" if measure.high is None else f"{measure.low:g} to {measure.high:g}"


def _limits_table() -> str:
    rows = {
        "bytes of the file": limits.FILE_BYTES,
        "bytes of the JSON text": limits.JSON_BYTES,
        "values in it": limits.VALUES,
        "values in one step, or outside all steps": limits.PART_VALUES,
        "nested brackets": limits.NESTING,
        "positions": limits.POSITIONS,
        "steps": limits.STEPS,
        "entries of all steps": limits.ENTRIES,
        "states of a denoising path": limits.PATH_STATES,
        "rows, query tokens or sequences of a call": limits.CALL_COUNT,
        "milliseconds of one stage of a step": limits.MILLISECONDS,
        "seed, id of a token or whole setting, either sign": limits.WHOLE,
        "a method's own number, either sign": limits.MEASURE,
        "rules": limits.RULES,
        "settings in config": limits.SETTINGS,
        "values in extensions": limits.EXTENSION_VALUES,
        "lists and objects within each other in extensions": limits.EXTENSION_NESTING,
        "characters of a name": limits.NAME_CHARACTERS,
        "characters of a text": limits.TEXT_CHARACTERS,
        "characters of a picture": limits.PICTURE_CHARACTERS,
        "pixels of a picture": limits.PICTURE_PIXELS,
    }
    return _table(
        ("what", "at most"),
        [(what, f"{most:,}" if isinstance(most, int) else f"{most:g}") for what, most in rows.items()],
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
