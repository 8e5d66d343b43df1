"""`draftscope hardware`: measure this machine, and predict the time of a run on other hardware."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from draftscope.cli.errors import DONE
from draftscope.cli.options import Devices, Json
from draftscope.cli.streams import read_trace, report_unwritable

app = Typer(help="Measure this machine; predict times on other hardware.", rich_markup_mode=None)
_SIZE = "a number of parameters such as 7e9, or a name such as 'Llama 3.1 8B'"


@app.command()
def calibrate(
    device: Devices = None,
    as_json: Json = False,
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="FILE", help="Write the .json file that predict --device takes.")
    ] = None,
) -> int:
    """Measure this machine in about ten seconds, for predict."""
    from draftscope.analysis.hardware import HardwareError
    from draftscope.calibration import calibrate as measure
    from draftscope.calibration import table
    from draftscope.traces.files import write_atomic

    if output and not (output.suffix == ".json" and output.parent.is_dir()):
        raise HardwareError(f"-o: {str(output)!r} must end in .json, in a folder that exists.")
    measured = measure(device)
    text = json.dumps(asdict(measured), indent=1)
    print(text if as_json else table(measured))
    if output:
        with report_unwritable(str(output)):
            write_atomic(output, f"{text}\n".encode())
    return DONE


@app.command()
def predict(
    trace: Annotated[str, Argument(metavar="TRACE", help="A trace, .json or .json.gz; - is standard input.")],
    device: Annotated[
        str, Option(metavar="DEVICE", help="A file of draftscope hardware calibrate, or a name such as H100.")
    ],
    target: Annotated[
        str | None, Option(metavar="SIZE", help=f"Size of the target: {_SIZE}; default: the trace's models.")
    ] = None,
    drafter: Annotated[
        str | None, Option(metavar="SIZE", help="Size of the drafter, in the same form; used where the trace has one.")
    ] = None,
    engine: Annotated[
        str | None, Option(metavar="NAME", help="eager or 'CUDA graphs'; default: that of the file, or eager.")
    ] = None,
    batch: Annotated[int, Option(metavar="N", help="Sequences decoded together.")] = 1,
    as_json: Json = False,
) -> int:
    """Compute the time of a recorded run on other hardware."""
    from draftscope import prediction

    computed = prediction.predict(read_trace(trace), device, target, draft=drafter, engine=engine, batch=batch)
    print(json.dumps(prediction.summary(computed), indent=2) if as_json else prediction.table(computed))
    return DONE
