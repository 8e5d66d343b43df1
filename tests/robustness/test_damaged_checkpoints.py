"""A checkpoint with one damaged or changed file decodes or ends in one sentence."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from robustness.strategies import as_json, changed, damaged, examples, names_field, one_line
from support import tiny_image_checkpoints as drawing
from support import tiny_text_checkpoints as checkpoints

from draftscope.engines.methods import METHODS
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.loading import load
from draftscope.engines.runtime.driver import Job, Run
from draftscope.engines.settings import make_config

METHOD = {"diffusion-lm": "blockwise", "discrete-ar": "ar", "continuous-ar": "continuous"}
FEW = {"diffusion-lm": {"length": 8}, "discrete-ar": {}, "continuous-ar": {"steps": 2, "last_timestep": 100}}
"""Settings that make a pass short."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny sound checkpoint of every family of language models and of Janus."""
    folder = tmp_path_factory.mktemp("sound")
    for family in checkpoints.SPECIAL:
        checkpoints.write(folder / family, family, shards=1 + (family == "Dream"), pieces=family == "Dream")
    drawing.write("janus", folder / "janus")
    return folder


def damage(folder: Path, draw: Callable[[Any], Any]) -> None:
    """Remove, damage or change one file; of weights only the header."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in (".json", ".safetensors", ".txt")]
    file = draw(st.sampled_from(files))
    data, action = file.read_bytes(), draw(st.sampled_from(("change", "change", "damage", "remove")))
    size = int.from_bytes(data[:8], "little")
    if action == "remove":
        file.unlink()
    elif action == "change" and file.suffix == ".json":
        file.write_bytes(as_json(draw(changed(json.loads(data), 2))))
    elif action == "change" and file.suffix == ".safetensors":
        head = as_json(draw(changed(json.loads(data[8 : 8 + size]), 2)))
        file.write_bytes(len(head).to_bytes(8, "little") + head + data[8 + size :])
    else:
        file.write_bytes(draw(damaged(data, 8 + size if file.suffix == ".safetensors" else None)))


def one_pass(folder: Path, prompt: str) -> None:
    """Load a checkpoint and run one forward pass, or be refused in a line that a reader can act on."""
    try:
        model: Any = load(folder)
        family = model.families[0]
        if family == "diffusion-lm":
            FEW[family]["block"] = str(min(max(model.kind.sizes or (1,)), 8))
        method = METHODS[METHOD[family]]
        with suppress(StopIteration):
            next(iter(Run(Job(method, model, prompt, make_config(method.config, FEW[family])))))
    except ModelError as error:
        one_line(error)
    except ValueError as error:
        names_field(error)


@pytest.mark.slow
@examples(25, 1500)
@given(data=st.data(), family=st.sampled_from((*checkpoints.SPECIAL, "janus")))
def test_a_damaged_checkpoint_ends_in_a_sentence(home: Path, data: st.DataObject, family: str) -> None:
    with TemporaryDirectory() as copy_folder:  # always another: models are kept by their path
        folder = Path(shutil.copytree(home / family, Path(copy_folder) / family))
        damage(folder, data.draw)
        one_pass(folder, "a red boot")
