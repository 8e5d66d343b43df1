"""What needs no torch works where there is none; what needs it says so."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = """
import sys
import draftscope as ds
heavy = [name for name in ("torch", "transformers", "plotly", "pandas", "engines") if name in sys.modules]
assert not heavy, heavy
assert not hasattr(ds, "nonsense")
assert "run" in dir(ds)
for name in ("torch", "transformers", "diffusers", "gradio", "safetensors", "jaxtyping"):
    sys.modules[name] = None
trace = ds.read(sys.argv[1])
assert repr(trace).startswith("<Trace speculative on "), repr(trace)
import traces
assert traces.state_after(trace, len(trace.steps)).decoded
assert "churn" in ds.figures(trace)
for name in ds.figures(trace):
    assert ds.figure(name, trace).data
page = ds.view(trace, sys.argv[2] + "/run.html")
assert page.stat().st_size > 100_000
ds.write(trace, sys.argv[2] + "/copy.json.gz")
assert ds.read(sys.argv[2] + "/copy.json.gz") == trace
assert "srcdoc" in trace._repr_html_()
builder = ds.TraceBuilder("mine", "a/b")
builder.count(3, 4, 4)
assert builder.trace().summary.tokens == 4
assert not [name for name in sys.modules if name.split(".")[0] == "engines"]
for name in ("run", "record", "methods"):
    try:
        getattr(ds, name)
    except ImportError as error:
        assert str(error).startswith(f"ds.{name} runs models and needs "), error
        assert "pip install 'draftscope[engines]'" in str(error)
    else:
        raise AssertionError(name)
"""


@pytest.mark.slow
def test_reading_replaying_and_drawing_need_no_torch_and_importing_loads_nothing_heavy(tmp_path: Path) -> None:
    trace = ROOT / "assets" / "traces" / "speculative-juice.json.gz"
    command = [sys.executable, "-c", CODE, str(trace), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
