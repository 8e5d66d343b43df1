"""The format described from the code as JSON Schema, and a trace at a glance."""

from inspect import cleandoc
from typing import Any, Final, Literal

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import DataclassSchema

from draftscope.traces.io import TRACE_TYPE
from draftscope.traces.measures import FREE_PREFIX, MEASURES
from draftscope.traces.schema import VERSION

SCHEMA_ID: Final = f"https://draftscope.github.io/draftscope/schema/{VERSION}/trace.schema.json"
"""Address at which the documentation site has the schema of this version; it does not change once it is released."""


class _Records(GenerateJsonSchema):
    """Adds descriptions of records, which some versions of pydantic leave out for plain dataclasses."""

    def dataclass_schema(self, schema: DataclassSchema) -> dict[str, Any]:
        """Add the docstring, and refuse fields of other names, as the reader does."""
        strict = {"additionalProperties": False, "description": cleandoc(schema["cls"].__doc__ or "")}
        return super().dataclass_schema(schema) | strict


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a trace. It knows types and ranges; `draftscope.traces.check` knows the rest."""
    document = TRACE_TYPE.json_schema(schema_generator=_Records)
    # Records default schema and version, files never; a summary that is missing is derived.
    document["required"] = ["schema", "version", *(name for name in document["required"] if name != "summary")]
    step = document["$defs"]["Step"]["properties"]
    step["numbers"]["propertyNames"] = _measure_names("position")
    step["signals"]["propertyNames"] = _measure_names("step")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID} | document


def _measure_names(per: Literal["position", "step"]) -> dict[str, Any]:
    names = [name for name, measure in MEASURES.items() if measure.per == per]
    return {"anyOf": [{"enum": names}, {"pattern": f"^{FREE_PREFIX}"}]}
