"""Whole texts of published diffusion language models, against their releases' loops written out naively."""

import shutil
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest
from support import checkpoints, elsewhere
from support.broken import configured
from support.checkpoints import job, write, write_json
from support.released import Released

from engines.diffusion_lm.sequence import TextTask
from engines.methods import METHODS
from engines.models import loading
from engines.models.loading import load
from engines.runtime.driver import Job, Run, open_session

LENGTH = 24
ATTENTION = {"sdar": "blocks", "Fast_dLLM_Qwen": "blocks", "llada2_moe": "blocks", "llada": "full", "Dream": "full"}
ATTENTION["PanguEmbedded"] = "causal"


def released(family: str, model: Any) -> Released:
    forward = partial(checkpoints.forward, family)
    kind, known = model.kind, max(model.tokens.values()) + 1
    return Released(forward, known, kind.mask, kind.ends, attention=ATTENTION[family], shift=kind.shift)


def compare(asked: Job, plain: Released, *how: Any, **more: Any) -> int:
    """Token by token up to the end, and pass by pass; how many passes."""
    run, length = Run(asked), asked.task.length
    steps = len(list(run))
    wanted = plain.decode(cast(TextTask, asked.task).prompt, length, *how, **more)
    stop = next((i + 1 for i, token in enumerate(wanted) if token in plain.ends), length)
    assert list(run.trace().output.tokens)[:stop] == wanted[:stop]
    assert steps == plain.passes
    return steps


@pytest.mark.one_quick
@pytest.mark.parametrize("block", [1, 8])
@pytest.mark.parametrize("family", list(ATTENTION))
def test_a_text_is_decoded_as_its_release_does(tmp_path: Path, family: str, block: int) -> None:
    model = load(write(tmp_path / "it", family))
    jobs = [job(model, prompt=prompt, block=str(block), threshold=0.4) for prompt in ("a hero", "here here a")]
    assert 6 < sum(compare(one, released(family, model), block, 0.4) for one in jobs) < 5 * LENGTH
    known = checkpoints.known(family)
    assert jobs[0].task.vocabulary == known < checkpoints.PADDED, "rows of the head beyond the tokenizer are no tokens"


@pytest.mark.slow
def test_fast_dllm_v2_is_decoded_in_its_own_order_and_runs_the_presets_of_s2d2(tmp_path: Path) -> None:
    family = "Fast_dLLM_Qwen"
    configured(bd_size=32)(write(tmp_path / "it", family))
    model: Any = load(tmp_path / "it")
    plain, s2d2 = partial(released, family, model), METHODS["s2d2"]
    own = METHODS["blockwise"].preset("Fast-dLLM v2")
    compare(job(model, **{**own, "length": LENGTH}), plain(), 32, 0.9, part=8)
    for letter, part in (("A", 4), ("B", 16), ("C", 32)):
        run = Run(asked := job(model, "s2d2", **{**s2d2.preset(f"Fast-dLLM v2 {letter}"), "length": LENGTH}))
        steps = list(run)
        assert (asked.config.size, asked.config.part) == (32, part)
        assert max(step.signals["open"] for step in steps) <= part
        assert run.trace().summary.complete and {"draft", "verify"} <= {step.call.mode for step in steps}, letter
    never = {**s2d2.preset("Fast-dLLM v2 A"), "length": LENGTH, "router": "never", "threshold": 0.4}
    compare(job(model, "s2d2", **never), plain(), 32, 0.4, part=4)


def test_openpangu_is_decoded_in_sub_blocks_by_other_methods_and_as_a_causal_model(tmp_path: Path) -> None:
    model: Any = load(write(tmp_path / "it", "PanguEmbedded"))
    plain, parts = partial(released, "PanguEmbedded", model), {"block": "8", "sub_block": "4", "threshold": 0.4}
    compare(job(model, **parts), plain(), 8, 0.4, part=4)
    compare(job(model, "s2d2", router="never", **parts), plain(), 8, 0.4, part=4)
    compare(job(model, "ar", top_k=1), plain(), 1, 0.0)
    verified = Run(job(model, "s2d2", block="8", router="always"))
    assert {step.call.mode for step in verified} >= {"draft", "verify"} and verified.trace().summary.complete


def test_llada2_repairs_its_text_as_released(tmp_path: Path) -> None:
    model = load(write(tmp_path / "it", "llada2_moe"))
    asked = job(model, "editing", length=LENGTH, block="8", threshold=0.5, edit=0.4)
    compare(asked, released("llada2_moe", model), 8, 0.5, edit=0.4)
    assert sum(fate.value == "edited" for step in Run(asked) for fate in step.fate) > 1


def test_a_drafter_that_reads_a_text_otherwise_is_refused(tmp_path: Path) -> None:
    target = load(write(tmp_path / "sdar", "sdar"))
    folder = write(tmp_path / "shifted", "Fast_dLLM_Qwen")
    shutil.copy(tmp_path / "sdar" / "tokenizer.json", folder / "tokenizer.json")
    write_json(folder / "tokenizer_config.json", {"mask_token": {"content": "<|MASK|>"}})
    shifted, other = load(folder), load(write(tmp_path / "llada2", "llada2_moe"))
    for small, block, problem in (
        (shifted, "8", r"drafter: shifted is block-causal and right-shifted .* sdar block-causal and al"),
        (other, "8", "drafter: llada2 and sdar have different vocabularies: token"),
        (shifted, "4", "block: shifted knows no blocks of 4; use 1 or 8"),
    ):
        with pytest.raises(ValueError, match=problem):
            open_session([job(target, "simsd", small=small, block=block)])


@pytest.mark.slow
@pytest.mark.parametrize(("family", "method"), [("sdar", "simsd"), ("qwen3", "speculative")])
@pytest.mark.parametrize("apart", [("cpu", elsewhere.NAME), (elsewhere.NAME, "cpu")])
def test_a_drafter_may_live_on_another_device(tmp_path: Path, family: str, method: str, apart: tuple[str, str]) -> None:
    def tokens(*devices: str) -> Any:
        loading._LOADED.clear()
        folders = (write(tmp_path / name, family, seed=seed) for name, seed in (("target", 5), ("draft", 14)))
        target, small = (load(folder, device) for folder, device in zip(folders, devices, strict=True))
        run = Run(job(target, method, small=small, length=8, gamma=2, top_k=1))
        assert {step.call.role for step in islice(run, 60)} == {"target", "draft"}
        return run.trace().output.tokens

    with elsewhere.device():
        apart_tokens = tokens(*apart)
    assert apart_tokens == tokens("cpu", "cpu")
