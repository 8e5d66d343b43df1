"""Cosmos-1.0-Autoregressive in its published layout: converted, compared with another implementation, and decoded."""

import base64
import io
import json
import pickle
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file
from support import cosmos as other
from support.broken import Change, Evil, configured, copied, refused, removed, weighted

from engines.__main__ import main
from engines.ar.request import Forward
from engines.config import ConfigError, make_config
from engines.methods import METHODS
from engines.models import catalog
from engines.models.clip_model import ClipDrawing, Pictures, pack
from engines.models.errors import ModelError
from engines.models.hub import cosmos_convert, cosmos_layout, cosmos_tokenizer, pickles, published
from engines.models.hub.cosmos import CosmosVideo
from engines.models.hub.cosmos_tokenizer import LEVELS, CosmosTokenizer, TokenizerSize
from engines.models.hub.torchscript import read_archive
from engines.models.weights import Source
from engines.runtime.driver import Job, Run
from engines.sampling.distributions import GuidedSampling, Sampling
from traces import dumps, loads, read

STRETCHED = other.FIELDS | other.STRETCHED | {"rope_theta": 40.0, "norm_eps": 1e-5}


@pytest.fixture(scope="module")
def as_published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model in `4b`, one that YaRN stretches in `12b`, and the tokenizer in `dv` and `halves`."""
    home = tmp_path_factory.mktemp("published")
    other.write_model(home / "4b")
    other.write_model(home / "12b", STRETCHED, {"model": other.weights(STRETCHED, "")})
    other.write_tokenizer(home / "dv")
    other.write_tokenizer(home / "halves", halves=True)
    return home


@pytest.fixture(scope="module")
def converted(as_published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both models, converted."""
    home = tmp_path_factory.mktemp("converted")
    cosmos_convert.convert(as_published / "4b", as_published / "dv", home / "4b")
    cosmos_convert.convert(as_published / "12b", as_published / "halves", home / "12b")
    return home


def load(folder: Path) -> CosmosVideo:
    model = published.load_folder(folder)
    assert isinstance(model, CosmosVideo)
    return model


def codes(count: int, seed: int = 2) -> torch.Tensor:
    return torch.randint(0, 240, (count,), generator=torch.Generator().manual_seed(seed))


def prompt(seed: int = 2) -> str:
    return pack(codes(other.GIVEN, seed).tolist())


# ---------------------------------------------------------------- what is computed


@pytest.mark.parametrize(("name", "fields"), [("4b", other.FIELDS), ("12b", STRETCHED)])
def test_logits_are_those_of_another_implementation_in_full_and_in_windows_with_rollback_at_every_position(
    converted: Path, name: str, fields: dict[str, Any]
) -> None:
    model, row = load(converted / name), codes(other.LENGTH)
    expected = other.forward(row, fields)
    assert expected.std() > 0.5, "too flat to tell"
    with torch.inference_mode():
        whole = model.logits(row[None], torch.arange(len(row))[None])[0]
    torch.testing.assert_close(whole.double(), expected, rtol=0, atol=1e-4)
    task = model.pose(pack(row[: other.GIVEN].tolist()), Sampling())
    wanted, expected = row[other.GIVEN :], expected[other.GIVEN - 1 : -1]
    for window in (1, 5):
        session = model.start([task], guided=False)
        for done in range(len(wanted)):
            last = min(done + window, len(wanted))
            wrong = torch.cat([wanted[:done], (wanted[done:last] + 1) % 240])  # drafts that are rejected one by one
            for drafts in (wrong[: last - 1], wanted[: last - 1])[done == 0 :]:
                found = session.logits({0: Forward(drafts, done, max(done - 1, 0))})[0, 0]
                torch.testing.assert_close(found[0].double(), expected[done], rtol=0, atol=1e-4)
            torch.testing.assert_close(found.double(), expected[done:last], rtol=0, atol=1e-4)


def test_yarn_and_the_place_in_the_clip_matter() -> None:
    row = codes(other.LENGTH)
    plain = STRETCHED | {"apply_yarn": False}
    assert (other.forward(row, STRETCHED) - other.forward(row, plain)).abs().max() > 1e-2
    layout = cosmos_layout.read_layout(Source("x", Path(), ""), plain)
    turned = cosmos_layout.angles(layout, (5, 2, 3))
    expected = torch.tensor([other.turns(plain, (t, y, x)) for t in range(5) for y in range(2) for x in range(3)])
    torch.testing.assert_close(turned, torch.cat([expected, expected], -1), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("layers", "hidden", "stretched"), [(16, 4096, False), (40, 5120, True)])
def test_the_published_sizes_are_read(layers: int, hidden: int, stretched: bool) -> None:
    said = {"dim": hidden, "n_layers": layers, "n_heads": 32, "n_kv_heads": 8, "ffn_hidden_size": 14336}
    said |= {"vocab_size": 64000, "norm_eps": 1e-5} | ({"head_dim": 128} if stretched else {})
    layout = cosmos_layout.read_layout(Source("x", Path(), ""), said)
    assert (layout.frames, layout.height, layout.width, layout.theta) == (33, 640, 1024, 500_000)
    assert bool(layout.stretch) == stretched
    turned = cosmos_layout.angles(layout, (5, 40, 64))
    fields = said | {"rope_theta": 5e5, "head_dim": 128} | (other.STRETCHED if stretched else {})
    for t, y, x in ((0, 0, 0), (4, 39, 63), (2, 17, 5)):
        expected = torch.tensor(other.turns(fields, (t, y, x)))
        torch.testing.assert_close(turned[(t * 40 + y) * 64 + x, :64], expected, rtol=0, atol=1e-4)
    shapes = layout.shapes
    assert shapes["layers.3.attention.wk.weight"] == (1024, hidden)
    assert shapes["layers.3.feed_forward.w2.weight"] == (hidden, 14336)
    assert round(sum(np.prod(shape) for shape in shapes.values()) / 1e9, 2) == (11.56 if stretched else 4.01)


def test_the_published_tokenizer_is_told_by_its_shapes() -> None:
    size = TokenizerSize(4, (128, 256, 512, 512), 2, 16, (2, 1), LEVELS)
    with torch.device("meta"):
        tokenizer = CosmosTokenizer(size)
    shapes = tokenizer.shapes()
    assert (size.cell, size.span, tokenizer.codes) == (16, 8, 64_000)
    assert cosmos_tokenizer.size_of(Source("x", Path(), ""), shapes, LEVELS) == size
    assert shapes["encoder.conv_in.0.conv3d.weight"] == (128, 192, 1, 3, 3)
    assert shapes["decoder.up.0.block.0.nin_shortcut.conv3d.weight"] == (256, 512, 1, 1, 1)
    assert shapes["decoder.conv_out.1.conv3d.weight"] == (192, 192, 3, 1, 1)
    samplers = {name.split(".conv3d")[0] for name in shapes if "sample.conv" in name}
    assert samplers == {
        *(f"encoder.down.{name}" for name in ("0.downsample.conv1", "0.downsample.conv2", "0.downsample.conv3")),
        *(f"encoder.down.{name}" for name in ("1.downsample.conv1", "1.downsample.conv3")),
        *(f"decoder.up.{name}" for name in ("1.upsample.conv1", "1.upsample.conv2", "1.upsample.conv3")),
        *(f"decoder.up.{name}" for name in ("2.upsample.conv2", "2.upsample.conv3")),
    }


def test_pixels_and_codes_are_those_of_another_implementation(converted: Path) -> None:
    model, codec = load(converted / "4b"), other.Codec()
    row = codes(other.LENGTH)
    with torch.inference_mode():
        expected = codec.decode(row.view(1, 5, 2, 3))
        found = model._tokenizer.decoder(model._tokenizer.post_quant_conv(codec.quantizer.back(row.view(1, 5, 2, 3))))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert expected.shape == (1, 3, 33, 32, 48)
    assert expected.std() > 0.05, "too flat to tell"
    shown = ((expected.clamp(-1, 1) + 1) * 127.5).permute(0, 2, 3, 4, 1)
    assert (model.decode(row[None]).float() - shown).abs().max() <= 0.51
    clips = torch.rand(3, 3, 33, 32, 48, generator=torch.Generator().manual_seed(4)) * 2 - 1
    with torch.inference_mode():
        own, theirs = model._tokenizer.encode(clips), codec.encode(clips)
        first = model._tokenizer.encode(clips[:, :, :9])
    assert own.equal(theirs)
    assert len(theirs.unique()) > 20, "too few codes to tell"
    assert first.equal(own[:, :2]), "later frames tell of earlier ones"


def test_every_code_comes_back_from_where_it_lies(converted: Path) -> None:
    model = load(converted / "4b")
    every = torch.arange(240)
    assert model._tokenizer.places(every).equal(other.Codec().quantizer.back(every).float())
    assert model._tokenizer.places(torch.tensor(model.blank)).abs().max() == 0
    assert model.embedding.shape == (240, 4)


# ---------------------------------------------------------------- decoding


def picture(address: str) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))))


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("ar", {}),
        ("scd", {"coupling": "none"}),
        ("scd", {"coupling": "maximal"}),
        ("scd", {"coupling": "gumbel"}),
        ("gsd", {"window": 8}),
        ("speculative", {"drafter": "itself"}),
        ("speculative", {"drafter": "lookup"}),
    ],
)
def test_methods_continue_a_clip_from_the_folder_to_pixels(
    converted: Path, method: str, settings: dict[str, object]
) -> None:
    model, chosen = load(converted / "4b"), METHODS[method]
    preset = chosen.preset("Cosmos") if method == "scd" else {"top_p": 0.8}
    assert (preset["top_p"], chosen.config().temperature) == (0.8, 1.0)
    running = Run(Job(chosen, model, prompt(), make_config(chosen.config, {**preset, **settings})))
    for _ in running:
        pass
    trace = running.trace()
    assert loads(dumps(trace)) == trace
    assert trace.summary.complete
    assert (trace.canvas.kind, trace.canvas.shape) == ("video", (3, 2, 3))
    if method == "ar":
        assert len(trace.steps) == 18
    assert (len(trace.output.video), trace.output.given) == (33, 9)
    whole = model.continued(prompt(), [int(str(token)) for token in trace.output.tokens])
    np.testing.assert_array_equal(np.stack([picture(frame) for frame in trace.output.video]), whole.numpy())
    assert picture(trace.legend.frames[-1].image).shape == (32, 3 * 48, 3)
    assert set(trace.model.weights) == {"model.safetensors", "tokenizer/model.safetensors"}


def test_a_second_model_of_the_same_tokens_drafts(converted: Path) -> None:
    chosen, model, small = METHODS["speculative"], load(converted / "4b"), load(converted / "12b")
    assert model.tokens == small.tokens != ""
    config = make_config(chosen.config, {"drafter": "small", "top_p": 0.8})
    running = Run(Job(chosen, model, prompt(), config, small=small))
    for _ in running:
        pass
    assert running.trace().summary.complete


def test_half_precision_decodes_and_is_close(converted: Path) -> None:
    model, chosen = published.load_folder(converted / "4b", "cpu", torch.bfloat16), METHODS["scd"]
    assert model.dtype == torch.bfloat16
    row = codes(other.LENGTH)
    near = model.logits(row[None], torch.arange(30)[None])[0].double() - other.forward(row)
    assert near.abs().mean() < 0.1
    running = Run(Job(chosen, model, prompt(), make_config(chosen.config, {"top_p": 0.8, "window": 8})))
    for _ in running:
        pass
    assert running.trace().summary.complete


def test_large_frames_are_shrunk_in_a_trace(converted: Path) -> None:
    model = load(converted / "4b")
    drawing = model.pose(prompt(), Sampling()).drawing
    assert isinstance(drawing, ClipDrawing)
    assert drawing.pictures.longest == 512
    small = replace(drawing, pictures=Pictures(most=3, together=1, longest=24))
    canvas = [None] * 18
    assert {picture(frame).shape for frame in small.output(canvas).video} == {(16, 24, 3)}
    frames = small.legend(dict.fromkeys(range(7), canvas)).frames
    assert [frame.step for frame in frames] == [0, 3, 6]
    assert picture(frames[0].image).shape == (16, 72, 3)


def gif(frames: int, height: int, width: int) -> bytes:
    made = np.random.default_rng(0).integers(0, 255, (frames, height, width, 3), np.uint8)
    pictures = [Image.fromarray(frame) for frame in made]
    buffer = io.BytesIO()
    pictures[0].save(buffer, "GIF", save_all=True, append_images=pictures[1:])
    return buffer.getvalue()


def test_the_command_line_converts_and_continues_a_file(
    as_published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, clip, out = tmp_path / "mine", tmp_path / "mine.gif", tmp_path / "x.json"
    assert main(["convert-cosmos", str(as_published / "4b"), str(as_published / "dv"), str(place)]) == 0
    assert f"--model {place} --preset Cosmos" in capsys.readouterr().out
    clip.write_bytes(gif(12, 64, 90))
    asked = ["run", "scd", "--model", str(place), "--preset", "Cosmos", "-o", str(out), "--prompt"]
    assert main([*asked, str(clip)]) == 0
    trace = read(out)
    assert trace.prompt == load(place).prompt_for(clip.read_bytes())
    assert (trace.model.id, trace.model.title) == ("mine", "Cosmos-1.0-Autoregressive: mine")
    clip.write_bytes(gif(8, 64, 90))
    capsys.readouterr()
    assert main([*asked, str(clip)]) == 2
    terms, refused = capsys.readouterr().err.splitlines()
    assert "NVIDIA Open Model License" in terms and refused == "clip: the file has 8 frames; give one with at least 9."
    assert main(["convert-cosmos", str(as_published / "4b"), str(as_published / "dv"), str(place)]) == 3
    assert capsys.readouterr().err.startswith(f"{place}: is not an empty folder. Name a new one")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("a red boot", "'a red boot' names no clip; give the path of a GIF or MP4 on the command line"),
        ("", "names no clip"),
        ("codes AAAA", "these are not 12 codes below 240"),
        (pack([240] * 12), "these are not 12 codes below 240"),
    ],
)
def test_what_names_no_clip_is_refused(converted: Path, said: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(converted / "4b").pose(said, Sampling())
    with pytest.raises(ValueError, match="guidance: 4b cannot run without its clip, as guidance does; use 1"):
        load(converted / "4b").pose(prompt(), GuidedSampling(guidance=2.0))


# ---------------------------------------------------------------- what is refused


_MODEL, _CODES, _Q = "model.safetensors", "tokenizer/model.safetensors", "layers.0.attention.wq.weight"
_DOWN = "encoder.down.0.block.0.conv1.0.conv3d.weight"


def as_a_pickle(folder: Path) -> None:
    removed(_MODEL)(folder)
    (folder / "model.pt").write_bytes(b"anything")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (as_a_pickle, r"model.pt is a pickle, which is never read here .* python -m engines convert-cosmos SOURCE"),
        (removed(_MODEL), "model.safetensors is missing"),
        (removed("config.json"), "config.json is missing"),
        (removed("tokenizer/config.json"), "4b/tokenizer: config.json is missing"),
        (removed(_CODES), "4b/tokenizer: model.safetensors is missing"),
        (configured(dim=None), "config.json has no 'dim'"),
        (configured(n_layers=True), "config.json has True for 'n_layers', which is not allowed"),
        (configured(n_kv_heads=3), "3 for 'n_kv_heads', which does not divide its 4 'n_heads'"),
        (configured(rope_dim="1D"), "config.json has '1D' for 'rope_dim'; Cosmos-1.0-Autoregressive is built for '3D'"),
        (configured(vision_encoder="pixtral-12b-vit"), "'pixtral-12b-vit' for 'vision_encoder'"),
        (configured(vocab_size=64000), "64000 for 'vocab_size', and its tokenizer makes 240 codes"),
        (configured(video_height=40), "33 frames of 40x48, which codes of 8x16x16 do not fill"),
        (configured(num_video_frames=9), "9 for 'num_video_frames', and 9 are given"),
        (configured(video_latent_shape=[5, 40, 64]), r"\[5, 40, 64\] for 'video_latent_shape', not \[5, 2, 3\]"),
        (configured(apply_yarn=True, yarn_beta_fast=1), "1 for 'yarn_beta_slow', which is not below"),
        (configured(apply_yarn=True, original_latent_shape=[3]), r"\[3\] for 'original_latent_shape'; it is three"),
        (
            configured(model_type="gpt2", ffn_hidden_size=None),
            "config.json has 'gpt2' for 'model_type', and what can be read is .*, Cosmos",
        ),
        (configured(insert_cross_attn=True), "has True for 'insert_cross_attn', as the 5B and 13B Video2World models"),
        (configured(input_types=["text_and_video"]), r"'text_and_video'\] for 'input_types', as the 5B and 13B"),
        (weighted("layers.0.cross_attention.wq.weight", torch.zeros(2)), "layers.0.cross_attention.wq.*5B and"),
        (weighted(_Q, None), f"tensor '{_Q}' is missing in its weights"),
        (weighted(_Q, torch.zeros(64, 23)), rf"tensor '{_Q}' has shape \[64, 23\]"),
        (weighted("pos_emb.weight", torch.zeros(2)), "'pos_emb.weight' is in its weights, and a Qwen3For"),
        (weighted(_DOWN, None, _CODES), f"no '{_DOWN}'|not those of a discrete video tokenizer"),
        (weighted("decoder.up.1.upsample.conv1.conv3d.weight", None, _CODES), "'decoder.up.1.upsample.* is missing"),
        (weighted("decoder.legacy.weight", torch.zeros(1), _CODES), "'decoder.legacy.weight' is in its weights, and a"),
        (configured(n_layers=3), "tensor 'layers.2.attention.k_norm.weight' and 10 more are missing"),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_refused_by_name(
    converted: Path, tmp_path: Path, change: Change, said: str
) -> None:
    assert refused(copied(converted / "4b", tmp_path / "4b"), change, said).startswith("4b")


def harmful(folder: Path) -> None:
    """A model.pt that calls a function."""
    torch.save({"model.norm.weight": Evil()}, folder / "model.pt")


def scripted(payload: bytes, inside: str = "x/data.pkl") -> Change:
    def change(folder: Path) -> None:
        with zipfile.ZipFile(folder / "autoencoder.jit", "w") as archive:
            archive.writestr(inside, payload)

    return change


def rewritten(change: Callable[[str, bytes], bytes]) -> Change:
    """The archive with other bytes in it."""

    def rewrite(folder: Path) -> None:
        with zipfile.ZipFile(folder / "autoencoder.jit") as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(folder / "autoencoder.jit", "w") as archive:
            for name, data in parts.items():
                archive.writestr(name, change(name, data))

    return rewrite


def doubled(folder: Path) -> None:
    torch.save(other.weights() | {"model.norm.weight": torch.ones(24, dtype=torch.int8)}, folder / "model.pt")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (removed("model.pt"), "model.pt is missing"),
        (harmful, "model.pt cannot be read as tensors alone"),
        (lambda folder: (folder / "model.pt").write_bytes(b"no"), "model.pt cannot be read as tensors alone"),
        (lambda folder: torch.save([1], folder / "model.pt"), "model.pt holds no state dict"),
        (lambda folder: torch.save({"a": 1}, folder / "model.pt"), "model.pt has 'a', which is no tensor"),
        (doubled, "tensor 'norm.weight' is stored as torch.int8; only F16, BF16, F32 can be read"),
        (configured(n_layers=1), "layers.1.attention.k_norm.weight' and 10 more are in its weights"),
        (configured(model_type="qwen2", n_layers=None), "config.json is not that of a Cosmos-1.0-Autoregressive model"),
        (configured(vocab_size=200), "has shape"),
        (removed("autoencoder.jit"), "encoder.jit is missing .* and so is autoencoder.jit"),
        (lambda folder: (folder / "autoencoder.jit").write_bytes(b"no"), "autoencoder.jit cannot be read"),
        (scripted(b"", "x/y.pkl"), "autoencoder.jit is no TorchScript archive"),
        (scripted(pickle.dumps(Evil(), 2)), "autoencoder.jit holds something other .* __builtin__.print"),
        (rewritten(lambda name, data: data[:-1] if "/data/" in name else data), "holds something .* storage '0' of"),
        (
            rewritten(lambda name, data: data.replace(b"_rebuild_tensor_v2", b"_import_dotted_name")),
            "_import_dotted_name",
        ),
        (rewritten(lambda name, data: b"big" if name.endswith("byteorder") else data), "machine of another byte order"),
        (scripted(pickle.dumps({"a": 1}, 2)), "autoencoder.jit holds something other .* dict for 'the module'"),
    ],
)
def test_a_conversion_that_cannot_be_right_writes_nothing(
    as_published: Path, tmp_path: Path, change: Change, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, target = tmp_path / "both", tmp_path / "target"
    shutil.copytree(as_published / "4b", folder)
    shutil.copy(as_published / "dv" / "autoencoder.jit", folder)
    change(folder)
    with pytest.raises(ModelError, match=said) as caught:
        cosmos_convert.convert(folder, folder, target)
    assert str(caught.value).startswith("both: ")
    assert str(caught.value).count("\n") == 0
    assert not target.exists()
    assert "run" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["4b", "12b"])
def test_tensors_are_written_as_they_were_published(as_published: Path, converted: Path, name: str) -> None:
    fields = other.FIELDS if name == "4b" else STRETCHED
    written = load_file(converted / name / _MODEL)
    assert all(tensor.equal(written[key]) for key, tensor in other.weights(fields, "").items())
    codec = other.Codec().state_dict()
    tokens = load_file(converted / name / _CODES)
    assert tokens.keys() == codec.keys()
    assert all(tensor.equal(tokens[key]) for key, tensor in codec.items())
    assert json.loads((converted / name / "tokenizer" / "config.json").read_text()) == {"levels": other.LEVELS}


def test_large_checkpoints_are_written_in_shards(
    as_published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, converted: Path
) -> None:
    monkeypatch.setattr(pickles, "SHARD_BYTES", 20_000)
    told: list[str] = []
    cosmos_convert.convert(as_published / "4b", as_published / "dv", tmp_path / "x", told.append)
    assert len(list((tmp_path / "x").glob("model-*-of-*.safetensors"))) > 2
    assert len(told) == len(list((tmp_path / "x").rglob("*.safetensors")))
    row = codes(other.LENGTH)[None]
    one, two = (load(folder).logits(row, torch.arange(30)[None]) for folder in (tmp_path / "x", converted / "4b"))
    assert one.equal(two)


def test_a_disk_that_is_full_is_a_sentence_and_leaves_no_config(
    as_published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(tensors: object, file: object) -> None:
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(pickles, "save_file", full)
    with pytest.raises(
        ModelError, match=r"model.safetensors: cannot be written \(No space left on device\). Make room"
    ):
        cosmos_convert.convert(as_published / "4b", as_published / "dv", tmp_path / "x")
    assert not (tmp_path / "x" / "config.json").exists()


def test_an_archive_is_read_as_torch_would_run_it(as_published: Path) -> None:
    found = read_archive(as_published / "dv" / "autoencoder.jit")
    assert found["quantizer._levels"].tolist() == other.LEVELS
    assert found["encoder.patcher3d.wavelets"].shape == (2,)
    assert all(tensor.equal(found[name]) for name, tensor in other.Codec().state_dict().items())


# ---------------------------------------------------------------- the hub and the catalogue


def test_the_hubs_cache_is_read_by_name_and_what_was_not_converted_says_how(
    as_published: Path, converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    theirs = "nvidia/Cosmos-1.0-Autoregressive-4B"
    for name, folder in (("somebody/cosmos", converted / "4b"), (theirs, as_published / "4b")):
        home = tmp_path / f"models--{name.replace('/', '--')}"
        shutil.copytree(folder, home / "snapshots" / ("0" * 40))
        (home / "refs").mkdir()
        (home / "refs" / "main").write_text("0" * 40)
    assert catalog.open_model("somebody/cosmos").card.id == "somebody/cosmos"
    with pytest.raises(ModelError, match=f"^{theirs}: model.pt is a pickle.*: python -m engines convert-cosmos"):
        catalog.load_model(theirs)


def test_it_is_listed_with_its_state_and_licence_and_offered_only_where_it_was_converted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, str]] = []

    def cached(name: str, file: str) -> str | None:
        asked.append((name, file))
        return "/somewhere/config.json" if file == "config.json" else None  # fetched, as a pickle

    monkeypatch.setattr(catalog, "try_to_load_from_cache", cached)
    for size in ("4B", "12B"):
        name = f"nvidia/Cosmos-1.0-Autoregressive-{size}"
        assert not catalog.at_hand(name)
        assert name not in catalog.models_for("discrete-ar")
        assert (name, "model.safetensors.index.json") in asked
    assert main(["list"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(name))
    assert "code is Apache-2.0" in line
    assert "weights are under the NVIDIA Open Model License" in line
    assert "no published weights were tried" in line
    assert f"hf download {name}, converted once by python -m engines convert-cosmos" in line
