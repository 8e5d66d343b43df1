"""Whole texts of published diffusion language models, against their releases' loops written out naively."""

from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from support import checkpoints
from support.checkpoints import settings_of, tensors_of, write, write_json
from support.released import Released

from engines.config import make_config
from engines.diffusion_lm.sequence import TextTask
from engines.methods import METHODS
from engines.models.hub import published
from engines.runtime.driver import Job, Run

LENGTH = 24
ATTENTION = {"sdar": "blocks", "Fast_dLLM_Qwen": "blocks", "llada2_moe": "blocks", "llada": "full", "Dream": "full"}


def released(family: str, model: Any) -> Released:
    forward = partial(checkpoints.forward, family, tensors_of(family))
    kind, known = model.kind, max(model.tokens.values()) + 1
    return Released(forward, known, kind.mask, kind.ends, attention=ATTENTION[family], shift=kind.shift)


def job(model: Any, method: str, prompt: str, preset: str = "", **values: object) -> Job:
    chosen = METHODS[method]
    named = dict(chosen.preset(preset)) if preset else {}
    return Job(chosen, model, prompt, make_config(chosen.config, named | {"length": LENGTH} | values))


def compare(asked: Job, plain: Released, *how: Any, **more: Any) -> int:
    """Token by token up to the end, and pass by pass; how many passes."""
    run = Run(asked)
    steps = len(list(run))
    wanted = plain.decode(cast(TextTask, asked.task).prompt, LENGTH, *how, **more)
    stop = next((i + 1 for i, token in enumerate(wanted) if token in plain.ends), LENGTH)
    assert list(run.trace().output.tokens)[:stop] == wanted[:stop]
    assert steps == plain.passes
    return steps


@pytest.mark.parametrize("family", list(ATTENTION))
def test_a_text_is_decoded_as_its_release_does(tmp_path: Path, family: str) -> None:
    model = published.load_folder(write(tmp_path / "it", family))
    for prompt in ("a hero", "here here a"):
        asked = job(model, "blockwise", prompt, block="8", threshold=0.4)
        assert 3 < compare(asked, released(family, model), 8, 0.4) < 2 * LENGTH


def test_fast_dllm_v2_is_decoded_in_its_own_order_and_runs_the_presets_of_s2d2(tmp_path: Path) -> None:
    family = "Fast_dLLM_Qwen"
    folder = write(tmp_path / "it", family)
    write_json(folder / "config.json", settings_of(family) | {"bd_size": 32})
    model: Any = published.load_folder(folder)
    assert model.kind.sizes == (1, 32)
    compare(job(model, "blockwise", "a hero", "Fast-dLLM v2"), released(family, model), 32, 0.9, part=8)
    for preset in ("Fast-dLLM v2 A", "Fast-dLLM v2 B", "Fast-dLLM v2 C"):
        run = Run(job(model, "s2d2", "a hero", preset))
        modes = {step.call.mode for step in run}
        assert run.trace().summary.complete and {"draft", "verify"} <= modes, preset
    never = job(model, "s2d2", "a hero", "Fast-dLLM v2 A", router="never", threshold=0.4)
    compare(never, released(family, model), 32, 0.4, part=4)


def test_llada2_repairs_its_text_as_released(tmp_path: Path) -> None:
    family = "llada2_moe"
    model = published.load_folder(write(tmp_path / "it", family))
    asked = job(model, "editing", "a hero", block="8", threshold=0.5, edit=0.4)
    passes = compare(asked, released(family, model), 8, 0.5, edit=0.4)
    run = Run(asked)
    fates = [fate.value for step in run for fate in step.fate]
    assert fates.count("edited") > 1 and len(run.trace().steps) == passes
