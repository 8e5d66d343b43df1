"""Numbers and figures of traces in trackers, by their own clients, offline."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image
from support import handmade
from support.waiting import wait_until

from draftscope.trace import displayable
from draftscope.traces import write
from draftscope.traces.files import ROOT
from draftscope.tracking import metrics

TRACE = displayable(handmade.scd())


def test_the_numbers_are_those_of_the_summary_and_by_position() -> None:
    found = metrics(TRACE)
    assert found["tokens"] == TRACE.summary.tokens and found["acceptance"] == TRACE.summary.acceptance
    assert 0 <= found["acceptance/position 1"] <= 1
    assert "seconds" not in metrics(displayable(handmade.ar())) or handmade.ar().summary.seconds


def test_a_run_of_another_client_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^run: SimpleNamespace of types is not known; use a run of wandb or trackio"):
        TRACE.log_to(SimpleNamespace())


@pytest.mark.slow
def test_weights_and_biases_gets_numbers_settings_and_figures(tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed: pip install 'draftscope[tracking]'")
    quiet = wandb.Settings(console="off", x_disable_stats=True, x_disable_meta=True, silent=True)
    run = wandb.init(project="test", mode="offline", dir=str(tmp_path), settings=quiet)
    TRACE.log_to(run, figures=["churn"], step=3)
    assert run.config["draftscope/method"] == "scd" and run.config["draftscope/window"] == 4
    assert TRACE.prompt not in str(dict(run.config))
    run.finish()
    (record,) = tmp_path.rglob("*.wandb")
    wait_until(lambda: b"tokens_per_forward" in record.read_bytes())  # another process writes it
    (drawn,) = tmp_path.rglob("media/plotly/figures/churn_*.json")
    assert "data" in drawn.read_text()


TRACKIO = """
import sys
import trackio
from PIL import Image
import draftscope as ds
from draftscope.visualizers import export

export.render_images = lambda jobs: [open(sys.argv[1], "rb").read() for _ in jobs]
run = trackio.init(project="test", name="run", embed=False, auto_log_gpu=False, auto_log_cpu=False)
trace = ds.read(sys.argv[2])
trace.log_to(run, figures=["churn"])
trackio.finish()
(logged,) = trackio.SQLiteStorage.get_logs("test", "run")
assert logged["tokens"] == trace.summary.tokens, logged
assert logged["figures/churn"]["_type"] == "trackio.image", logged
assert run.config["draftscope/method"] == "scd" and trace.prompt not in str(run.config)
"""


@pytest.mark.slow
def test_trackio_gets_numbers_settings_and_pictures(tmp_path: Path) -> None:
    """In a process of its own, as trackio decides while it is imported where it writes."""
    pytest.importorskip("trackio", reason="trackio is not installed: pip install 'draftscope[tracking]'")
    picture, trace = tmp_path / "figure.png", tmp_path / "run.json"
    Image.new("RGB", (4, 4)).save(picture)
    write(TRACE, trace)
    environment = os.environ | {"TRACKIO_DIR": str(tmp_path / "trackio")}
    command = [sys.executable, "-c", TRACKIO, str(picture), str(trace)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "trackio").rglob("*.png"))
