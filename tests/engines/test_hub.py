"""Published checkpoints in their own layout: what is read, how it decodes, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from support import checkpoints
from support.broken import Change, configured, removed, weighted
from support.checkpoints import (
    CAUSAL,
    LAYOUTS,
    PADDED,
    SPECIAL,
    tensors_of,
    write,
    write_json,
    write_weights,
)
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoModelForCausalLM

from engines.__main__ import main
from engines.config import make_config
from engines.diffusion_lm import masks
from engines.diffusion_lm.request import BlockForward
from engines.diffusion_lm.sequence import TextTask
from engines.methods import METHODS
from engines.models.catalog import MODELS, load_model, open_model, small_of
from engines.models.errors import ModelError
from engines.models.hub import published
from engines.models.language_model import DiffusionLM
from engines.models.own_folders import COSMOS
from engines.models.published_families import FAMILIES as PUBLISHED
from engines.models.published_texts import TEXTS
from engines.models.studio.image import FOLDER
from engines.models.weights import sha256
from engines.runtime.driver import Job, Run, open_session, run_batch
from traces import read

FAMILIES = [family for family in LAYOUTS if family not in CAUSAL]
PROMPT = "a hero"
BLOCKS = {"sdar": "4", "Fast_dLLM_Qwen": "8", "llada": "8", "Dream": "4", "llada2_moe": "8", "PanguEmbedded": "8"}


def job(model: DiffusionLM, prompt: str = PROMPT, **values: object) -> Job:
    method = METHODS["blockwise"]
    return Job(method, cast(Any, model), prompt, make_config(method.config, {"length": 16} | values))


def task_of(asked: Job) -> TextTask:
    return cast(TextTask, asked.task)


def logits_of(asked: Job) -> Sequence[tuple[BlockForward, Tensor]]:
    """Every request of a run with the logits that the session gave."""
    session, decoder = open_session([asked]), asked.decoder()
    answer: Any = None
    found = []
    while True:
        try:
            request: Any = decoder.send(answer)
        except StopIteration:
            return found
        logits = session.logits({0: request})[0, :, 0]
        found.append((request, request.cut(logits)))
        decision: Any = decoder.send(request.cut(logits.double().softmax(-1)))
        answer = tuple(int(value) for value in decision.readback)


@pytest.mark.parametrize("size", ["smallest", "usual"])
@pytest.mark.parametrize(("tied", "shards"), [(False, 1), (True, 3)])
@pytest.mark.parametrize("family", FAMILIES)
def test_cached_decoding_gives_the_logits_of_an_independent_forward_over_the_whole_row(
    tmp_path: Path, family: str, tied: bool, shards: int, size: str
) -> None:
    model = published.load_folder(write(tmp_path / "it", family, tied=tied, shards=shards))
    block = BLOCKS[family] if size == "usual" else str(min(model.kind.sizes, default=1))
    asked = job(model, block=block, mode="sample", threshold=0.3)
    task, tensors = task_of(asked), tensors_of(family, tied)
    finished = torch.empty(0, dtype=torch.long)
    worst = 0.0
    for request, logits in logits_of(asked):
        past = finished[: request.finished]
        ids = torch.cat([past, request.tokens[0]])
        position = torch.cat([torch.arange(len(past)), request.position])
        seen = torch.zeros(len(ids), len(ids), dtype=torch.bool)
        stored = 1 if family == "PanguEmbedded" else int(block)
        seen[: len(past), : len(past)] = masks.block_causal(torch.arange(len(past)), stored)
        seen[len(past) :, : len(past)] = True
        seen[len(past) :, len(past) :] = request.seen
        expected = checkpoints.forward(family, tensors, ids, position, seen)
        expected = expected[len(past) + request.read, : task.vocabulary]
        expected[:, task.mask] = -torch.inf
        assert logits.isinf().equal(expected.isinf())
        worst = max(worst, float((logits - expected).nan_to_num(0, 0, 0).abs().max()))
        finished = torch.cat([past, request.tokens[0, : request.keep]])
    assert worst < 1e-4
    assert float(expected[expected.isfinite()].std()) > 0.5, "too flat to tell"
    assert bool(len(finished)) == (family not in ("llada", "Dream"))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_what_it_was_published_as(tmp_path: Path, family: str) -> None:
    model = published.load_folder(write(tmp_path / family, family))
    kind = model.kind
    pangu = family == "PanguEmbedded"
    assert (kind.shift, kind.full) == (family in ("Fast_dLLM_Qwen", "Dream") or pangu, family in ("llada", "Dream"))
    names = Tokenizer.from_file(str(tmp_path / family / "tokenizer.json"))
    assert (kind.causal, [names.id_to_token(i) for i in kind.begins]) == (pangu, ["<s>"] if pangu else [])
    assert ("[unused0]" if pangu else "mask") in str(names.id_to_token(kind.mask)).lower()
    turn = {"llada": "<|eot_id|>", "llada2_moe": "<|role_end|>", "PanguEmbedded": "[unused10]"}
    ends = [turn.get(family, "<|im_end|>"), "</s>" if pangu else "<|endoftext|>"]
    assert [names.id_to_token(end) for end in kind.ends] == ends
    assert kind.longest == 96
    assert kind.sizes == ((1, 8) if family == "Fast_dLLM_Qwen" else ())
    weights = tmp_path / family / "model.safetensors"
    assert (model.card.id, model.card.weights) == (family, {"model.safetensors": sha256(weights)})


@pytest.mark.parametrize(
    ("family", "asked"),
    [
        ("sdar", "<|im_start|>user\na hero<|im_end|>\n<|im_start|>assistant\n"),
        (
            "Dream",
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
            "<|im_start|>user\na hero<|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            "llada",
            "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\na hero<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            "llada2_moe",
            "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>a hero<|role_end|>"
            "<role>ASSISTANT</role>",
        ),
    ],
)
def test_a_question_is_put_as_the_family_was_taught(tmp_path: Path, family: str, asked: str) -> None:
    folder = write(tmp_path / "chat", family)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    task = task_of(job(published.load_folder(folder), f" {PROMPT}\n"))
    assert tokenizer.decode(task.prompt, skip_special_tokens=False) == asked


def test_a_checkpoint_without_a_chat_template_continues_the_prompt(tmp_path: Path) -> None:
    folder = write(tmp_path / "base", "sdar")
    (folder / "tokenizer_config.json").unlink()
    model = published.load_folder(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.decode(task_of(job(model)).prompt) == PROMPT


def test_a_tokenizer_in_several_files_is_the_same(tmp_path: Path) -> None:
    whole, parts = (
        published.load_folder(write(tmp_path / name, "Dream", pieces=name == "parts")) for name in ("whole", "parts")
    )
    assert whole.kind == parts.kind
    assert task_of(job(whole)).prompt == task_of(job(parts)).prompt


def test_a_tokenizer_of_sentencepiece_is_told_what_to_do(tmp_path: Path) -> None:
    folder = write(tmp_path / "pangu", "PanguEmbedded")
    (folder / "tokenizer.json").rename(folder / "tokenizer.model")
    with pytest.raises(ModelError, match=r"tokenizer.model, of SentencePiece, .* write a tokenizer.json .* docs/mod"):
        published.load_folder(folder)


def test_a_tokenizer_of_sdar_that_lacks_the_mask_is_given_it_as_the_next_id(tmp_path: Path) -> None:
    folder = write(tmp_path / "bare", "sdar")
    tokenizer = checkpoints.tokenizer_of("sdar", SPECIAL["sdar"][:-1])
    tokenizer.save(str(folder / "tokenizer.json"))
    assert published.load_folder(folder).kind.mask == tokenizer.get_vocab_size()


def test_rows_of_the_head_beyond_the_tokenizer_are_no_tokens(tmp_path: Path) -> None:
    asked = job(published.load_folder(write(tmp_path / "padded", "sdar")))
    known = checkpoints.tokenizer_of("sdar").get_vocab_size()
    assert task_of(asked).vocabulary == known < PADDED
    assert {logits.shape[-1] for _, logits in logits_of(asked)} == {known}


def test_special_tokens_have_a_name_and_end_the_text(tmp_path: Path) -> None:
    model = published.load_folder(write(tmp_path / "named", "Fast_dLLM_Qwen"))
    kind = model.kind
    vocabulary = model.legend({}).vocabulary
    assert vocabulary is not None
    assert [vocabulary[i] for i in (kind.mask, kind.ends[0])] == ["|<MASK>|", "<|im_end|>"]
    hero = list(task_of(job(model, "hero")).prompt[-1:])
    for end in kind.ends:
        assert model.output([*hero, end, *hero]).text == model.output(hero).text


@pytest.mark.parametrize("family", FAMILIES)
def test_lanes_do_not_disturb_each_other(tmp_path: Path, family: str) -> None:
    model = published.load_folder(write(tmp_path / "lanes", family))
    jobs = [job(model, prompt, block=BLOCKS[family]) for prompt in ("a", "a hero", "here here here")]
    for trace, alone in zip(run_batch(jobs), jobs, strict=True):
        run = Run(alone)
        for _ in run:
            pass
        assert trace.output.tokens == run.trace().output.tokens
        assert model.kind.mask not in trace.output.tokens


@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_decodes_too(tmp_path: Path, family: str) -> None:
    folder = write(tmp_path / "half", family)
    model = published.load_folder(folder, dtype=torch.bfloat16)
    assert (model.dtype, published.load_folder(folder).dtype) == (torch.bfloat16, torch.float32)
    passes = [logits_of(job(each, block=BLOCKS[family], length=8)) for each in (model, published.load_folder(folder))]
    (_, half), (_, whole) = passes[0][0], passes[1][0]
    finite = whole.isfinite()
    assert half.isfinite().equal(finite)
    assert float((half - whole)[finite].abs().mean()) < 0.05 * float(whole[finite].std())


@pytest.mark.parametrize(
    ("prompt", "values", "said"),
    [
        ("a <|im_end|>", {}, r"prompt: holds '<\|im_end\|>'"),
        ("a |<MASK>|", {}, r"prompt: holds '\|<MASK>\|'"),
        ("a" * 96, {}, "has room for 80"),
        (PROMPT, {"block": "4"}, "knows no blocks of 4; use 1 or 8"),
    ],
)
def test_what_a_checkpoint_cannot_do_is_refused(
    tmp_path: Path, prompt: str, values: dict[str, object], said: str
) -> None:
    model = published.load_folder(write(tmp_path / "picky", "Fast_dLLM_Qwen"))
    with pytest.raises(ValueError, match=said):
        open_session([job(model, prompt, **({"block": "8"} | values))])


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def pickled_whole(folder: Path) -> None:
    (folder / "config.json").rename(folder / "a.pth")


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def sharded(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    write_weights(folder, tensors_of("llada"), shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()


def escaping(folder: Path) -> None:
    indexed(folder, "../elsewhere.safetensors")


def indexed(folder: Path, file: str) -> None:
    index = {"weight_map": {"model.transformer.wte.weight": file}}
    write_json(folder / "model.safetensors.index.json", index)


def in_pieces(name: str, text: str) -> Change:
    """A tokenizer in several files, of which one holds something else."""

    def change(folder: Path) -> None:
        (folder / "tokenizer.json").unlink()
        write(folder, "llada", pieces=True)
        (folder / name).write_text(text)

    return change


_Q0 = "model.transformer.blocks.0.q_proj.weight"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (removed("config.json"), "config.json is missing in"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json is not JSON"),
        (configured(d_model=None), "config.json has no 'd_model'"),
        (configured(d_model="32"), "config.json has '32' for 'd_model', which is not allowed"),
        (configured(n_layers=0), "config.json has 0 for 'n_layers'"),
        (configured(weight_tying=1), "config.json has 1 for 'weight_tying'"),
        (configured(n_layers=10**9), "config.json has 1000000000 for 'n_layers', which is not allowed"),
        (configured(rms_norm_eps=10**400), "config.json has 1000.*0 for 'rms_norm_eps', which is not allowed"),
        (lambda folder: (folder / "config.json").write_text("[" * 10**5), "config.json is not JSON: maximum recursion"),
        (in_pieces("vocab.json", "{"), "vocab.json, merges.txt or tokenizer_config.json cannot be read: .*EOF"),
        (in_pieces("merges.txt", "h e x\n"), "vocab.json, merges.txt or tokenizer_config.json cannot be read: "),
        (in_pieces("tokenizer_config.json", "[]"), "cannot be read: "),
        (configured(mask_token_id=5), "config.json has 5 for 'mask_token_id', its tokenizer"),
        (configured(embedding_size=30), "config.json has 30 for 'embedding_size', its tokenizer"),
        (configured(d_model=64), r"tensor 'model.transformer.* has shape \[.*32.*\], and its config.json asks for"),
        (configured(n_layers=3), r"tensor 'model.transformer.blocks.2.attn_norm.weight' and 8 more are missing"),
        (configured(n_layers=1), r"blocks.1.attn_norm.weight' and 8 more are in its weights, and a Llama.* no place"),
        (weighted(_Q0, None), f"tensor '{_Q0}' is missing in its weights"),
        (weighted("model.transformer.wpe.weight", torch.zeros(2)), "'model.transformer.wpe.weight' is in its weights"),
        (weighted(_Q0, torch.zeros(32, 31)), rf"tensor '{_Q0}' has shape \[32, 31\]"),
        (weighted(_Q0, torch.zeros(32, 32, dtype=torch.int8)), f"tensor '{_Q0}' is stored as I8"),
        (pickled, "model.safetensors is missing .* safetensors alone"),
        (cut, "model.safetensors cannot be read"),
        (sharded, "model-00002-of-00003.safetensors is missing"),
        (escaping, "outside the folder"),
        (lambda folder: indexed(folder, "a" * 5000), "names 'a*', which lies outside the folder or cannot be a file"),
        (removed("tokenizer.json"), "tokenizer.json is missing, and so is vocab.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer.json cannot be read"),
        (
            lambda folder: checkpoints.tokenizer_of("llada", ["<|eot_id|>"]).save(str(folder / "tokenizer.json")),
            r"its tokenizer has no <\|mdm_mask\|>",
        ),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_refused_by_name(tmp_path: Path, change: Change, said: str) -> None:
    folder = write(tmp_path / "LLaDA-tiny", "llada")
    change(folder)
    with pytest.raises(ModelError, match=said) as caught:
        published.load_folder(folder)
    assert str(caught.value).startswith("LLaDA-tiny: ")
    assert f"hf download OWNER/NAME --local-dir {folder}" in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            configured(model_type="bert"),
            r"has 'bert' for 'model_type', .*language models \(sdar, .*\(qwen2, .*, Cosmos",
        ),
        (configured(model_type="Emu3"), r"is of the family Emu3-Gen, as BAAI .*, which is not read. .* BAAI/Emu3-Gen-"),
        (pickled_whole, "has 'a.pth' and no config.json; pickles .* converted first for .*; LlamaGen, of .*; MAR"),
        (configured(model_type=["llada"]), r"config.json has \['llada'\] for 'model_type', and what can be read is"),
        (configured(block_type="sequential"), "'sequential' for 'block_type'; LLaDA is built for 'llama'"),
        (configured(quantization_config={"bits": 4}), "{'bits': 4} for 'quantization_config'; LLaDA is built for None"),
    ],
)
def test_what_is_of_no_family_is_told_which_there_are_and_not_to_fetch_it_again(
    tmp_path: Path, change: Change, said: str
) -> None:
    folder = write(tmp_path / "LLaDA-tiny", "llada")
    change(folder)
    with pytest.raises(ModelError, match=said) as caught:
        published.load_folder(folder)
    assert "hf download" not in str(caught.value)


def test_every_family_is_listed_with_state_and_licence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = {family.name: line for family in PUBLISHED for line in lines if line.startswith(f"  {family.name}: ")}
    assert list(listed) == [family.name for family in PUBLISHED]
    for family in PUBLISHED:
        assert f": {family.state}; {family.licence}. {family.said}" in listed[family.name]
    read = {name for family in PUBLISHED if family.state != "not read" for name in family.types}
    assert read == {*published.FAMILIES, *published.CAUSAL_FAMILIES, *published._DRAWING} - {COSMOS}


def test_a_tied_checkpoint_may_carry_a_head_which_is_not_used(tmp_path: Path) -> None:
    folder = write(tmp_path / "tied", "Fast_dLLM_Qwen", tied=True)
    write_weights(folder, tensors_of("Fast_dLLM_Qwen", tied=True) | {"lm_head.weight": torch.ones(PADDED, 32)})
    plain = published.load_folder(write(tmp_path / "plain", "Fast_dLLM_Qwen", tied=True))
    one, other = (logits_of(job(model, block="8"))[0][1] for model in (published.load_folder(folder), plain))
    assert one.equal(other)


@pytest.mark.parametrize("pieces", [False, True])
def test_code_that_comes_along_is_not_run(tmp_path: Path, pieces: bool) -> None:
    folder = write(tmp_path / "coded", "Dream", pieces=pieces)
    for name in ("modeling_dream.py", "configuration_dream.py", "tokenization_dream.py"):
        (folder / name).write_text("raise SystemExit('run')")
    write_json(folder / "generation_config.json", {"auto_map": {"x": "modeling_dream.x"}})
    assert published.load_folder(folder).kind.full


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache, empty."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def cached(hub: Path, name: str, family: str) -> Path:
    """A checkpoint as the hub's client stores it: files are links to blobs, large ones named by their SHA-256."""
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


def test_a_model_of_the_catalogue_is_read_from_the_cache_of_the_hub(hub: Path) -> None:
    name = "JetLM/SDAR-4B-Chat"
    with pytest.raises(ModelError, match=rf"{name}: is not in the hub's cache. Fetch it with: hf download {name}"):
        load_model(name)
    blob = cached(hub, name, "sdar")
    model = load_model(name)
    assert model.card.id == name
    assert model.card.weights == {"model.safetensors": blob.name}
    assert load_model(name) is model
    published._load.cache_clear()
    blob.unlink()
    with pytest.raises(ModelError, match=f"model.safetensors is missing .*: hf download {name} --force-download"):
        load_model(name)


def test_the_small_model_of_a_pair_speaks_of_the_same_tokens(hub: Path) -> None:
    large, small = "JetLM/SDAR-8B-Chat", "JetLM/SDAR-1.7B-Chat"
    assert small_of(large) == small
    for name in (large, small):
        cached(hub, name, "sdar")
    tasks = [task_of(job(cast(DiffusionLM, load_model(name)))) for name in (large, small)]
    assert replace(tasks[0], card=None) == replace(tasks[1], card=None)


def test_what_is_listed_is_of_a_known_family_and_says_how_to_fetch_it() -> None:
    published = [info for info in MODELS.values() if "/" in info.id]
    assert {info.id.split("/")[0] for info in published} == {
        "Qwen",
        "meta-llama",
        "HuggingFaceTB",
        "mistralai",
        "inclusionAI",
        "JetLM",
        "Efficient-Large-Model",
        "GSAI-ML",
        "Dream-org",
        "nvidia",
        "deepseek-community",
        "BAAI",
        "leloy",
        "wusize",
    }
    assert all(f"hf download {info.id}" in info.needs for info in published)
    assert all(info.small in MODELS for info in published if info.small)
    texts = [info for info in MODELS.values() if info.group and info.text]
    assert len(texts) == len(TEXTS) and all(info.licence in info.needs and info.gigabytes > 0 for info in texts)


def test_only_the_command_line_takes_folders(tmp_path: Path, hub: Path) -> None:
    folder = write(tmp_path / "mine", "sdar")
    assert open_model(str(folder)).card.id == "mine"
    with pytest.raises(ModelError, match="there is no"):
        load_model(str(folder))
    with pytest.raises(ModelError, match="neither a folder nor OWNER/NAME of the hub"):
        open_model(str(tmp_path / "none"))
    with pytest.raises(ModelError, match="somebody/something: is not in the hub's cache"):
        open_model("somebody/something")
    with pytest.raises(ModelError, match="device: 'cuda:99' is not available"):
        open_model(str(folder), "cuda:99")


def test_the_command_line_decodes_with_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, target = write(tmp_path / "mine", "llada"), tmp_path / "t.json"
    arguments = ["run", "blockwise", "--model", str(folder), "--set", "length=8", "-o", str(target)]
    assert main([*arguments, "--prompt", PROMPT]) == 0
    trace = read(target)
    assert (trace.model.id, trace.model.title) == ("mine", "LLaDA: mine")
    assert "model mine, " in capsys.readouterr().out
    assert main(arguments) == 2
    assert "prompt: is empty" in capsys.readouterr().err
    assert main(["run", "blockwise", "--model", "JetLM/none", "-o", str(target)]) == 3


def test_the_studio_model_is_read_by_the_same_code() -> None:
    model: Any = load_model("text-target")
    other = AutoModelForCausalLM.from_pretrained(FOLDER / "text-target", dtype=torch.float32).eval()
    ids = torch.arange(20)[None]
    with torch.inference_mode():
        states = model._network.model(ids, position_ids=ids).last_hidden_state
        found = model._network.lm_head(states)
        torch.testing.assert_close(found, other(ids).logits, rtol=0, atol=1e-4)
