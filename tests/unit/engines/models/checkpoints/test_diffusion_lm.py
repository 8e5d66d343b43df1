"""Published language models in their own layout and folder: whole texts against their releases' loops, and refusals."""

import json
import os
import shutil
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from support import fake_device as elsewhere
from support import tiny_text_checkpoints as checkpoints
from support.damaged_checkpoints import Change, configured, refused, removed, weighted
from support.reference_decoding import Released
from support.tiny_text_checkpoints import (
    CAUSAL,
    DIFFUSION,
    NETWORKS,
    PROMPT,
    decoded,
    job,
    network_of,
    tokenizer_of,
    write,
    write_json,
)
from tokenizers import Tokenizer

from draftscope.cli.main import main
from draftscope.engines.diffusion_lm.block_sequence import TextTask
from draftscope.engines.methods import METHODS
from draftscope.engines.models import catalog, loading
from draftscope.engines.models.catalog import MODELS, VARIABLE, drafter_of, load_model, open_model, register_folders
from draftscope.engines.models.checkpoint_files import sha256
from draftscope.engines.models.checkpoints import diffusion_lm
from draftscope.engines.models.checkpoints.families import CHECKPOINTS, COSMOS
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.loading import load
from draftscope.engines.runtime.driver import Job, Run, open_session, run_batch
from draftscope.traces import read

SHIFTED, FULL = ("Fast_dLLM_Qwen", "Dream", "PanguEmbedded"), ("llada", "Dream")


def test_the_rows_of_the_table_load_the_families_that_are_built() -> None:
    rows = [kind for row in CHECKPOINTS if row.module == "diffusion_lm" for kind in row.types]
    assert sorted(rows) == sorted(diffusion_lm.FAMILIES) == sorted(DIFFUSION)


CHATML = "<|im_start|>user\na hero<|im_end|>\n<|im_start|>assistant\n"
HELPFUL = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
HEADERS = "<|start_header_id|>{}<|end_header_id|>\n\n"
LLAMA = f"{HEADERS.format('user')}a hero<|eot_id|>{HEADERS.format('assistant')}"
ROLES = "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>a hero<|role_end|><role>ASSISTANT</role>"


@pytest.mark.parametrize(
    ("family", "mask", "question"),
    [
        ("sdar", "<|MASK|>", CHATML),
        ("a2d-qwen3", "<|mask|>", CHATML + "<think>\n\n</think>\n\n"),
        ("bd3lm", "[MASK]", "<|endoftext|>a hero"),
        ("Dream", "<|mask|>", HELPFUL + CHATML),
        ("llada", "<|mdm_mask|>", f"<|startoftext|>{LLAMA}"),
        ("llada2_moe", "<|mask|>", ROLES),
        ("PanguEmbedded", "[unused0]", "<s>a hero"),
    ],
)
def test_a_question_is_put_as_the_family_was_taught(tmp_path: Path, family: str, mask: str, question: str) -> None:
    folder = write(tmp_path / "it", family)
    model: Any = load(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    task: Any = job(model, prompt=f" {PROMPT}\n").task
    assert tokenizer.decode(task.prompt_ids, skip_special_tokens=False) == question
    assert tokenizer.id_to_token(model.kind.mask) == mask
    assert (model.kind.shift, model.kind.full) == (family in SHIFTED, family in FULL)
    assert model.kind.longest == checkpoints.LONGEST
    assert model.card.weights == {"model.safetensors": sha256(folder / "model.safetensors")}
    loading._LOADED.clear()
    (folder / "tokenizer_config.json").unlink()  # no chat template: it goes on from the prompt
    plain: Any = job(load(folder)).task
    begins = {"PanguEmbedded": "<s>", "bd3lm": "<|endoftext|>"}.get(family, "")
    assert tokenizer.decode(plain.prompt_ids, skip_special_tokens=False) == begins + PROMPT


def test_tokenizers_in_other_forms(tmp_path: Path) -> None:
    single, pieces = (write(tmp_path / name, "Dream", pieces=name == "pieces") for name in ("whole", "pieces"))
    assert job(load(single)).task.prompt_ids == job(load(pieces)).task.prompt_ids
    bare = write(tmp_path / "bare", "sdar")
    tokenizer_of("sdar", checkpoints.SPECIAL["sdar"][:-1]).save(str(bare / "tokenizer.json"))
    model: Any = load(bare)
    assert model.kind.mask == checkpoints.known("sdar") - 1, "the mask is added as the next id"
    pangu = write(tmp_path / "pangu", "PanguEmbedded")
    (pangu / "tokenizer.json").rename(pangu / "tokenizer.model")
    with pytest.raises(ModelError, match=r"tokenizer.model, of SentencePiece, .* write a tokenizer.json .* docs/mod"):
        load(pangu)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["sdar", "llada", "qwen3"])
def test_sequences_do_not_disturb_each_other_and_half_precision_decodes(tmp_path: Path, family: str) -> None:
    model: Any = load(write(tmp_path / "it", family))
    method = "ar" if family in CAUSAL else "blockwise"
    jobs = [job(model, method, prompt) for prompt in ("a", "a hero", "here here here")]
    for trace, alone in zip(run_batch(jobs), jobs, strict=True):
        assert tuple(trace.output.tokens) == decoded(alone)
    half: Any = load(tmp_path / "it", dtype=torch.bfloat16)
    assert half.dtype == torch.bfloat16 and len(decoded(job(half, method))) == 16


def test_a_text_ends_where_its_files_say(tmp_path: Path) -> None:
    folder = write(tmp_path / "it", "qwen3")
    end = network_of("qwen3").config.eos_token_id
    write_json(folder / "generation_config.json", {"eos_token_id": [0, end]})
    model: Any = load(folder)
    assert model.ends == (0, end) and "generation_config.json" in model.card.files
    vocabulary = model.make_legend({}, [end]).vocabulary
    assert vocabulary[end] == "<|im_end|>"
    assert model.render_output([5, end, 6]).text == model.render_output([5]).text


def test_a_special_token_is_refused(tmp_path: Path) -> None:
    """Invalid prompts of causal models are tested in test_chat.py."""
    model: Any = load(write(tmp_path / "it", "Fast_dLLM_Qwen"))
    with pytest.raises(ValueError, match=r"prompt: holds '\|<MASK>\|'"):
        open_session([job(model, prompt="a |<MASK>|", block="8")])


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def indexed(name: str) -> Change:
    def change(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        write_json(folder / "model.safetensors.index.json", {"weight_map": {"a": name}})

    return change


@pytest.mark.parametrize(
    ("family", "change", "problem"),
    [
        ("llada", configured(embedding_size=30), "config.json has 30 for the size of its vocabulary, its tokenizer 45"),
        ("llada", configured(mask_token_id=5), "config.json has 5 for 'mask_token_id', its tokenizer 41"),
        ("llada", configured(block_type="sequential"), "'sequential' for 'block_type'; LLaDA is built for 'llama'"),
        ("llada2_moe", weighted("model.layers.1.mlp.experts.7.up_proj.weight", None), "experts.down_proj' is missing"),
        ("llada2_moe", configured(head_dim=None), "config.json has no 'head_dim'"),
        ("llada2_moe", configured(n_group=5), "5 groups of 1.6 experts; a token takes 2 experts of 2 groups"),
        ("llada", cut, "model.safetensors cannot be read"),
        ("llada", indexed("../a.safetensors"), "is outside the folder"),
        ("llada", removed("model.safetensors"), "model.safetensors is missing .* safetensors alone"),
        ("llada", lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer.json cannot be read"),
        ("llama", configured(rope_parameters={"rope_type": "yarn", "factor": None}), "config.json is refused: .*yarn"),
    ],
)
def test_an_incomplete_checkpoint_is_refused_by_name(tmp_path: Path, family: str, change: Change, problem: str) -> None:
    sentence = refused(write(tmp_path / "tiny", family), change, problem)
    assert sentence.startswith("tiny: ") and len(sentence) < 1000


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            configured(model_type="mine"),
            "'mine' for 'model_type', which is neither a causal language model .* docs/models.md",
        ),
        (configured(model_type="Emu3"), "is of the family Emu3-Gen, as BAAI .*, which is not read. .*BAAI/Emu3-Gen-hf"),
        (lambda folder: (folder / "config.json").rename(folder / "a.pth"), "has 'a.pth' and no config.json; pickles"),
    ],
)
def test_what_cannot_be_read_at_all_is_not_to_be_fetched_again(tmp_path: Path, change: Change, problem: str) -> None:
    assert "hf download" not in refused(write(tmp_path / "tiny", "llada"), change, problem)


@pytest.mark.parametrize("family", ["Dream", "qwen3"])
def test_code_that_comes_along_is_not_run(tmp_path: Path, family: str) -> None:
    folder = write(tmp_path / "it", family)
    for name in ("modeling_own.py", "configuration_own.py", "tokenization_own.py"):
        (folder / name).write_text("raise SystemExit('run')")
    code = {"AutoConfig": "configuration_own.Own", "AutoModelForCausalLM": "modeling_own.Own"}
    configured(auto_map=code)(folder)
    assert load(folder)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache, empty."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def cached(hub: Path, name: str, family: str) -> Path:
    """A checkpoint as the hub's client stores it: large files are links to blobs that are named by their SHA-256."""
    home = hub / f"models--{name.replace('/', '--')}"
    folder = write(home / "snapshots" / ("0" * 40), family)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("0" * 40)
    (home / "blobs").mkdir()
    weights = folder / "model.safetensors"
    blob = home / "blobs" / sha256(weights)
    weights.rename(blob)
    weights.symlink_to(blob)
    return blob


def test_a_model_is_read_from_the_cache_of_the_hub(hub: Path) -> None:
    name, other = "JetLM/SDAR-4B-Chat", "somebody/gpt"
    assert drafter_of(name) == "JetLM/SDAR-1.7B-Chat"
    with pytest.raises(ModelError, match=f"{name}: is neither a folder nor .* or download it with: hf download {name}"):
        load_model(name)
    blob = cached(hub, name, "sdar")
    model = load_model(name)
    assert (model.card.id, model.card.weights) == (name, {"model.safetensors": blob.name})
    assert load_model(name) is model
    cached(hub, other, "gpt2")
    assert open_model(other).card.id == other, "any causal model of transformers"
    loading._LOADED.clear()
    blob.unlink()
    with pytest.raises(ModelError, match=f"model.safetensors is missing .*: hf download {name} --force-download"):
        load_model(name)


def test_only_the_command_line_takes_folders(tmp_path: Path, hub: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = {name: write(tmp_path / name, name) for name in ("qwen3", "qwen2", "llama", "llada")}
    with pytest.raises(ModelError, match="there is no"):
        load_model(str(folders["qwen3"]))
    with pytest.raises(ModelError, match="neither a folder nor OWNER/NAME of the hub"):
        open_model(str(tmp_path / "none"))
    target = tmp_path / "t.json"
    command = ["run", "speculative", "--model", str(folders["qwen3"]), "--prompt", PROMPT, "--set", "length=8"]
    command += ["-o", str(target), "--drafter"]
    assert main([*command, str(folders["qwen2"])]) == 0, "another family of the same tokenizer drafts"
    trace = read(target)
    assert (trace.model.title, trace.draft_model and trace.draft_model.id) == ("qwen3: qwen3", "qwen2")
    assert main([*command, str(folders["llama"])]) == 2
    assert "drafter: llama and qwen3 have different vocabularies: token " in capsys.readouterr().err
    assert main([*command, str(folders["llada"])]) == 2
    assert main(["run", "blockwise", "--model", str(folders["llada"]), "--set", "length=8", "-o", str(target)]) == 2
    assert "prompt: is empty" in capsys.readouterr().err


def test_the_table_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    for row in CHECKPOINTS:
        assert f"  {row.name}: {row.state}; {row.licence}. {row.note}" in printed
        for example in row.examples:
            info = MODELS[example.name]
            assert (info.group, info.gigabytes) == (row.name, example.gigabytes) and info.licence in info.needs
            assert info.folder or info.fetched or f"hf download {info.id}" in info.needs
            assert not info.default_drafter or info.default_drafter in MODELS
    assert MODELS["Qwen/Qwen3-8B"].label == "Qwen3 8B (16.4 GB, Apache-2.0)"
    assert MODELS["text-target"].label == "Studio language model"
    assert not MODELS["Qwen/Qwen3-8B"].terms and MODELS["meta-llama/Llama-3.2-1B-Instruct"].terms


CONTINUOUS = ("mar", "xar", "harmon")
WRITES = {"causal": ("discrete-ar",), "blocks": ("diffusion-lm", "discrete-ar"), "bidirectional": ("diffusion-lm",)}


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registered models are registered in this module only."""
    for name in ("MODELS", "_OWN"):
        monkeypatch.setattr(catalog, name, dict(getattr(catalog, name)))


def offered(*folders: Path) -> tuple[str, ...]:
    """The problems with folders that the variable names."""
    return register_folders({VARIABLE: os.pathsep.join(map(str, folders))})


def test_every_family_that_is_read_can_be_named(tmp_path: Path) -> None:
    rows = {kind: row for row in CHECKPOINTS if row.module for kind in row.types}
    kinds = {*rows, *NETWORKS, "gemma3_text"}
    for kind in kinds:
        (tmp_path / f"my-{kind}").mkdir()
        settings = {"ffn_hidden_size": 8, "n_layers": 1} if kind == COSMOS else {"model_type": kind}
        (tmp_path / f"my-{kind}" / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert not offered(*tmp_path.iterdir()) and not offered()
    for kind in kinds:
        info, writes = catalog.MODELS[f"my-{kind}"], rows[kind].kind if kind in rows else "causal"
        drawn = ("continuous-ar",) if kind in CONTINUOUS else ("discrete-ar",)
        assert info.families == WRITES.get(writes, drawn) and info.text == (writes in WRITES)
        assert info.clips == (kind == COSMOS) and not info.terms, "a licence is that of a name, not of an architecture"
        assert (info.default_prompt == "207") == (kind in ("mar", "xar"))


def test_a_folder_that_cannot_be_offered_is_told_why(tmp_path: Path) -> None:
    names = ("empty", "mine", "toy-raster", "a b", "<b>")
    for name in names:
        (tmp_path / name).mkdir()
        kind = "mine" if name == "mine" else "qwen3"
        (tmp_path / name / "config.json").write_text("[" if name == "empty" else json.dumps({"model_type": kind}))
    problems = offered(*(tmp_path / name for name in names))
    assert catalog.MODELS == MODELS and len(problems) == len(names)
    assert all(problem.startswith(f"{VARIABLE}: ") for problem in problems)
    assert "config.json is not JSON" in problems[0] and "Fetch it again" in problems[0]
    assert "has 'mine' for 'model_type', which is neither a causal language model" in problems[1]
    assert all("has a name that is taken or contains characters other" in problem for problem in problems[2:])


LENGTH = 24
ATTENTION = {"sdar": "blocks", "Fast_dLLM_Qwen": "blocks", "llada2_moe": "blocks", "llada": "full", "Dream": "full"}
ATTENTION |= {"PanguEmbedded": "causal", "a2d-qwen3": "blocks", "bd3lm": "blocks"}


def released(family: str, model: Any) -> Released:
    forward = partial(checkpoints.forward, family)
    kind, known = model.kind, max(model.token_space.values()) + 1
    return Released(forward, known, kind.mask, kind.ends, attention=ATTENTION[family], shift=kind.shift)


def compare(job: Job, plain: Released, *how: Any, **more: Any) -> int:
    """Token by token up to the end, and pass by pass; how many passes."""
    run, length = Run(job), job.task.length
    steps = len(list(run))
    wanted = plain.decode(cast(TextTask, job.task).prompt_ids, length, *how, **more)
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
    assert jobs[0].task.vocab_size == known < checkpoints.PADDED, "rows of the head beyond the tokenizer are not tokens"


@pytest.mark.slow
def test_fast_dllm_v2_is_decoded_in_its_own_order_and_runs_the_presets_of_s2d2(tmp_path: Path) -> None:
    family = "Fast_dLLM_Qwen"
    configured(bd_size=32)(write(tmp_path / "it", family))
    model: Any = load(tmp_path / "it")
    plain, s2d2 = partial(released, family, model), METHODS["s2d2"]
    preset = METHODS["blockwise"].preset("Fast-dLLM v2")
    compare(job(model, **{**preset, "length": LENGTH}), plain(), 32, 0.9, part=8)
    for letter, part in (("A", 4), ("B", 16), ("C", 32)):
        run = Run(run_job := job(model, "s2d2", **{**s2d2.preset(f"Fast-dLLM v2 {letter}"), "length": LENGTH}))
        steps = list(run)
        assert (run_job.config.size, run_job.config.part) == (32, part)
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
    run_job = job(model, "editing", length=LENGTH, block="8", threshold=0.5, edit_threshold=0.4)
    compare(run_job, released("llada2_moe", model), 8, 0.5, edit=0.4)
    assert sum(fate.value == "edited" for step in Run(run_job) for fate in step.fate) > 1


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
