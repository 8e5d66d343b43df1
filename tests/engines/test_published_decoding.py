"""Whole texts of published diffusion language models, against their releases' loops written out naively."""

import shutil
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from support import checkpoints, elsewhere
from support.checkpoints import settings_of, write, write_json
from support.released import Released
from torch import Tensor

from engines.config import make_config
from engines.diffusion_lm.sequence import TextTask
from engines.methods import METHODS
from engines.models import loading
from engines.runtime.driver import Job, Run, open_session

LENGTH = 24
SEEDS = {"target": checkpoints.SEED, "draft": checkpoints.SEED + 9}
ATTENTION = {"sdar": "blocks", "Fast_dLLM_Qwen": "blocks", "llada2_moe": "blocks", "llada": "full", "Dream": "full"}
ATTENTION["PanguEmbedded"] = "causal"


def released(family: str, model: Any) -> Released:
    forward = partial(checkpoints.forward, family)
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
    model = loading.load_folder(write(tmp_path / "it", family))
    prompts = ("a hero", "here here a", "You are helpful")
    asked = [job(model, "blockwise", prompt, block="8", threshold=0.4) for prompt in prompts]
    assert 9 < sum(compare(one, released(family, model), 8, 0.4) for one in asked) < 5 * LENGTH


def test_fast_dllm_v2_is_decoded_in_its_own_order_and_runs_the_presets_of_s2d2(tmp_path: Path) -> None:
    family = "Fast_dLLM_Qwen"
    folder = write(tmp_path / "it", family)
    write_json(folder / "config.json", settings_of(family) | {"bd_size": 32})
    model: Any = loading.load_folder(folder)
    assert model.kind.sizes == (1, 32)
    compare(job(model, "blockwise", "a hero", "Fast-dLLM v2"), released(family, model), 32, 0.9, part=8)
    for preset in ("Fast-dLLM v2 A", "Fast-dLLM v2 B", "Fast-dLLM v2 C"):
        run = Run(job(model, "s2d2", "a hero", preset))
        modes = {step.call.mode for step in run}
        assert run.trace().summary.complete and {"draft", "verify"} <= modes, preset
    never = job(model, "s2d2", "a hero", "Fast-dLLM v2 A", router="never", threshold=0.4)
    compare(never, released(family, model), 32, 0.4, part=4)


def test_openpangu_is_decoded_in_sub_blocks_by_other_methods_and_as_a_causal_model(tmp_path: Path) -> None:
    family = "PanguEmbedded"
    model: Any = loading.load_folder(write(tmp_path / "it", family))
    compare(
        job(model, "blockwise", "a hero", block="8", sub_block="4", threshold=0.4),
        released(family, model),
        8,
        0.4,
        part=4,
    )
    never = job(model, "s2d2", "a hero", block="8", sub_block="4", router="never", threshold=0.4)
    compare(never, released(family, model), 8, 0.4, part=4)
    asked = Job(METHODS["ar"], model, "a hero", make_config(METHODS["ar"].config, {"length": LENGTH, "top_k": 1}))
    compare(asked, released(family, model), 1, 0.0)
    verified = Run(job(model, "s2d2", "a hero", block="8", router="always"))
    assert {step.call.mode for step in verified} >= {"draft", "verify"} and verified.trace().summary.complete


def test_llada2_repairs_its_text_as_released(tmp_path: Path) -> None:
    family = "llada2_moe"
    model = loading.load_folder(write(tmp_path / "it", family))
    asked = job(model, "editing", "a hero", block="8", threshold=0.5, edit=0.4)
    passes = compare(asked, released(family, model), 8, 0.5, edit=0.4)
    run = Run(asked)
    fates = [fate.value for step in run for fate in step.fate]
    assert fates.count("edited") > 1 and len(run.trace().steps) == passes


def pair(tmp_path: Path, family: str) -> tuple[Any, Any]:
    """A target and a drafter of one tokenizer."""
    models = [loading.load_folder(write(tmp_path / role, family, seed=seed)) for role, seed in SEEDS.items()]
    return models[0], models[1]


@pytest.mark.parametrize(("family", "verifier"), [("sdar", "exact"), ("llada2_moe", "eq1")])
def test_any_two_models_of_one_tokenizer_draft_and_verify_blocks(tmp_path: Path, family: str, verifier: str) -> None:
    target, small = pair(tmp_path, family)
    config = make_config(METHODS["simsd"].config, {"length": LENGTH, "gamma": 3, "verifier": verifier})
    asked = Job(METHODS["simsd"], target, "a hero", config, small=small)
    task = cast(TextTask, asked.task)
    session, decoder, answer = open_session([asked]), asked.decoder(), cast(Any, None)
    finished: dict[str, Tensor] = {role: torch.empty(0, dtype=torch.long) for role in SEEDS}
    worst, roles = 0.0, set()
    while True:
        try:
            request: Any = decoder.send(answer)
        except StopIteration:
            break
        probs = session.answer({0: request}, config, lambda *_: None)[0].value
        role, past = request.role, finished[request.role][: request.finished]
        block = torch.arange(len(past)) // 8
        for row, tokens in enumerate(request.tokens):
            seen = torch.zeros(len(past) + len(tokens), len(past) + len(tokens)).bool()
            seen[: len(past), : len(past)] = block[:, None] >= block[None, :]
            seen[len(past) :, : len(past)] = True
            seen[len(past) :, len(past) :] = request.seen
            place = torch.cat([torch.arange(len(past)), request.position])
            ids = torch.cat([past, tokens])
            expected = checkpoints.forward(family, ids, place, seen, seed=SEEDS[role])
            expected = expected[len(past) + request.read, : task.vocabulary]
            expected[:, task.mask] = -torch.inf
            given = probs[row] if len(request.tokens) > 1 else probs
            worst = max(worst, float((expected.softmax(-1) - given).abs().max()))
        finished[role] = torch.cat([past, request.tokens[0, : request.keep]])
        roles.add(role)
        decision: Any = decoder.send(probs)
        answer = tuple(int(value) for value in decision.readback)
    assert worst < 1e-5 and roles == {"target", "draft"}


def test_a_drafter_that_reads_a_text_otherwise_is_refused(tmp_path: Path) -> None:
    target = loading.load_folder(write(tmp_path / "sdar", "sdar"))
    folder = write(tmp_path / "shifted", "Fast_dLLM_Qwen")
    shutil.copy(tmp_path / "sdar" / "tokenizer.json", folder / "tokenizer.json")
    write_json(folder / "tokenizer_config.json", {"mask_token": {"content": "<|MASK|>"}})
    shifted = loading.load_folder(folder)
    config = make_config(METHODS["simsd"].config, {"length": LENGTH})
    with pytest.raises(
        ValueError, match=r"drafter: shifted is block-causal and right-shifted .* sdar block-causal and al"
    ):
        open_session([Job(METHODS["simsd"], target, "a hero", config, small=cast(Any, shifted))])
    other = loading.load_folder(write(tmp_path / "llada2", "llada2_moe"))
    with pytest.raises(ValueError, match="drafter: llada2 and sdar have different vocabularies: token"):
        open_session([Job(METHODS["simsd"], target, "a hero", config, small=cast(Any, other))])
    large = make_config(METHODS["simsd"].config, {"length": LENGTH, "block": "4"})
    with pytest.raises(ValueError, match="block: shifted knows no blocks of 4; use 1 or 8"):
        open_session([Job(METHODS["simsd"], target, "a hero", large, small=cast(Any, shifted))])


@pytest.mark.parametrize(("family", "method"), [("sdar", "simsd"), ("qwen3", "speculative")])
@pytest.mark.parametrize("apart", [("cpu", elsewhere.NAME), (elsewhere.NAME, "cpu")])
def test_a_drafter_may_live_on_another_device(tmp_path: Path, family: str, method: str, apart: tuple[str, str]) -> None:
    pair(tmp_path, family)
    config = make_config(METHODS[method].config, {"length": 8, "gamma": 2, "top_k": 1})

    def tokens(*devices: str) -> Any:
        loading._load.cache_clear()
        places = zip(("target", "draft"), devices, strict=True)
        target, small = (loading.load_folder(tmp_path / role, place) for role, place in places)
        run = Run(Job(METHODS[method], cast(Any, target), "a hero", config, small=cast(Any, small)))
        assert {step.call.role for step in islice(run, 60)} == {"target", "draft"}
        return run.trace().output.tokens

    with elsewhere.device():
        found = tokens(*apart)
    assert found == tokens("cpu", "cpu")
