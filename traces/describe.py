"""The format described from the code as JSON Schema, and a trace at a glance."""

from inspect import cleandoc
from typing import Any, Final, Literal

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import DataclassSchema

from traces.io import TRACE_TYPE
from traces.measures import FREE_PREFIX, MEASURES
from traces.places import by_place
from traces.schema import VERSION, Trace, printable
from traces.stats import cost_by_mode

SCHEMA_ID: Final = f"urn:draftscope:trace:{VERSION}"
_PLACES: Final = 16


class _Records(GenerateJsonSchema):
    """Says of every record what some versions of pydantic leave out for plain dataclasses."""

    def dataclass_schema(self, schema: DataclassSchema) -> dict[str, Any]:
        """With the docstring, and that a field of another name is refused, as the reader refuses it."""
        strict = {"additionalProperties": False, "description": cleandoc(schema["cls"].__doc__ or "")}
        return super().dataclass_schema(schema) | strict


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a trace. It knows types and ranges; `traces.check` knows the rest."""
    document = TRACE_TYPE.json_schema(schema_generator=_Records)
    # Records default schema and version, files never; a summary that is missing is derived.
    document["required"] = ["schema", "version", *(name for name in document["required"] if name != "summary")]
    step = document["$defs"]["Step"]["properties"]
    step["numbers"]["propertyNames"] = _measure_names("position")
    step["signals"]["propertyNames"] = _measure_names("step")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID} | document


def at_a_glance(trace: Trace) -> str:
    """The run and its summary as aligned text. Nothing of it can steer a terminal."""
    rows = ((name, printable(value[:200]), " ..." * (len(value) > 200)) for name, value in in_rows(trace).items())
    return "\n".join(f"{name:<18}  {value}{more}" for name, value, more in rows)


def in_rows(trace: Trace) -> dict[str, str]:
    """The run and its summary, by name; what the trace does not say is left out."""
    summary = trace.summary
    canvas = f"{trace.canvas.kind} {' x '.join(map(str, trace.canvas.shape))}"
    modes = ", ".join(f"{cost.forwards} {mode}" for mode, cost in cost_by_mode(trace.steps).items())
    acceptance = "-" if summary.acceptance is None else f"{summary.acceptance:.3f}"
    rows = {
        "method": trace.method,
        "variant": trace.variant,
        "model": trace.model.id,
        "licence": trace.model.licence,
        "prompt": trace.prompt,
        "settings": ", ".join(f"{name}={value}" for name, value in trace.config.items()),
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
    return {name: value for name, value in rows.items() if value}


def _by_place(trace: Trace) -> dict[str, str]:
    """Mean accepted length and the marginal rates of the first places; nothing for a run that verified no drafts."""
    acceptance = by_place([trace.steps])
    if acceptance is None:
        return {}
    rates = " ".join(f"{place.marginal:.2f}" for place in acceptance.places[:_PLACES])
    more = " ..." if len(acceptance.places) > _PLACES else ""
    return {
        "accepted length": f"{acceptance.mean_accepted_length:.3f} in {acceptance.passes} passes that verified drafts",
        "by place": f"{rates}{more}",
    }


def _measure_names(per: Literal["position", "step"]) -> dict[str, Any]:
    names = [name for name, measure in MEASURES.items() if measure.per == per]
    return {"anyOf": [{"enum": names}, {"pattern": f"^{FREE_PREFIX}"}]}
