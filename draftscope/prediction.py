"""Computed time of a run on other hardware: computed, not measured."""

import os
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from draftscope.analysis import hardware
from draftscope.analysis.hardware import (
    DEVICES,
    Device,
    Engine,
    HardwareError,
    NetworkSize,
    Prediction,
    named,
)
from draftscope.traces import Trace


def predict(
    trace: Trace,
    device: str | os.PathLike[str] | Device,
    target: str | float | NetworkSize | None = None,
    *,
    draft: str | float | NetworkSize | None = None,
    engine: str | Engine | None = None,
    batch: int = 1,
) -> Prediction:
    """Compute the passes of a trace on other hardware, with networks of another size. Computed, not measured.

    Args:
        trace: Specifies the passes.
        device: A name of `draftscope.analysis.hardware.DEVICES`, such as "H100", a `Device`, or a .json file of
            `draftscope hardware calibrate`.
        target: Size of the target: a name of `SIZES` or `SHIPPED`, a number of parameters, or a `NetworkSize`; by
            default the trace's own models, which must be among these.
        draft: Size of the drafter in the same forms, for traces with another draft model.
        engine: "eager", "CUDA graphs", or an `Engine`; by default the one that the device was measured with, or
            "eager".
        batch: Sequences per pass.

    Returns:
        Seconds of every pass and of ordinary decoding; `.speed_up` is their ratio, over the whole run.

    Raises:
        HardwareError: If a name is unknown, a file is not a device, a model does not fit, or the trace has no query
            tokens.
    """
    resolved = device if isinstance(device, Device) else read_device(device)
    if target is None:
        target, draft = trace.model.id, draft or (trace.draft_model.id if trace.draft_model else None)
    machine = hardware.read_machine(resolved, engine or resolved.engine or "eager", target, draft, batch)
    return hardware.predict(trace, machine)


def read_device(value: str | os.PathLike[str]) -> Device:
    """Return a device by name, or from a .json file of `draftscope hardware calibrate`.

    Raises:
        HardwareError: The name is unknown, or the file cannot be read or is invalid.
    """
    path = Path(value)
    if path.suffix.lower() != ".json":
        return named("device", DEVICES, str(value))
    try:
        device = TypeAdapter(Device).validate_json(path.read_bytes())
        wrong = next((name for name in ("memory", "bandwidth", "peak") if not getattr(device, name) > 0), None)
    except OSError as error:
        raise HardwareError(f"device: {str(path)!r} cannot be read ({error.strerror}); choose another file.") from error
    except ValidationError as error:
        wrong = ".".join(map(str, error.errors()[0]["loc"])) or "JSON"
    if wrong:
        remedy = "write it with draftscope hardware calibrate -o FILE"
        raise HardwareError(f"device: {str(path)!r} has no valid {wrong}; {remedy}.")
    return device


def summary(prediction: Prediction) -> dict[str, Any]:
    """The prediction as plain data: seconds, the speed-up, and what bounds the passes."""
    bounds = [cost.bound for cost in prediction.passes]
    fields = ("tokens", "batch", "seconds", "ordinary_seconds", "speed_up", "tokens_per_second")
    return {
        "computed": True,
        "passes": len(prediction.passes),
        **{field: getattr(prediction, field) for field in fields},
        "bounds": {bound: bounds.count(bound) for bound in ("launches", "memory", "compute")},
        "left_out": prediction.note,
    }


def table(computed: Prediction) -> str:
    """Return the prediction as text, one line per quantity."""
    bounds = ", ".join(f"{name} {count}" for name, count in summary(computed)["bounds"].items() if count)
    return (
        f"computed, not measured, in batches of {computed.batch}\n"
        f"passes              {len(computed.passes)}, bound by {bounds}\n"
        f"seconds             {computed.seconds:.3f}\n"
        f"ordinary decoding   {computed.ordinary_seconds:.3f}\n"
        f"times as fast       {computed.speed_up:.2f}\n"
        f"tokens a second     {computed.tokens_per_second:.1f}" + (computed.note and f"\n{computed.note}")
    )
