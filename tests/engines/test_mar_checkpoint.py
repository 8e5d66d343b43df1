"""MAR as it is published: converted, compared with another implementation, decoded to pixels, refused."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support import compvis
from support import mar as other
from support.broken import Change, Evil, copied, refused, removed, reworded, weighted
from support.latents import CSPD, finished, picture, raster, shown

from engines.__main__ import main
from engines.config import make_config
from engines.continuous.denoising import noise_at
from engines.methods import METHODS
from engines.models import catalog
from engines.models.errors import ModelError
from engines.models.hub import mar_checkpoint, picture_convert, published
from engines.models.hub.assembling import outlined
from engines.models.hub.mar import MAR, MARModel, MARSize
from engines.models.hub.picture_convert import Asked
from engines.runtime.driver import Job
from engines.sampling.chance import SeededChance
from traces import dumps, loads

QUICK = {"steps": 4, "last": 200, "guidance": 3.0}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two converted models, `b` and a drafter `s`."""
    place = tmp_path_factory.mktemp("mar")
    for name, seed in (("b", 3), ("s", 4)):
        files = other.write(place / f"{name}-published", seed)
        asked = Asked(files / "checkpoint-last.pth", files / "kl16.ckpt", heads=other.HEADS)
        picture_convert.convert("mar", asked, place / name)
    return place


def load(folder: Path) -> MARModel:
    model = published.load_folder(folder)
    assert isinstance(model, MARModel)
    return model


def drawn_by_the_other(order: tuple[int, ...], trace: Any) -> Any:
    """The picture of a trace's tokens."""
    return shown(other.pixels(raster(order, trace.output.tokens, other.SIDE))[0])


@pytest.mark.parametrize("ramp", [False, True])
def test_a_whole_decode_and_its_pixels_are_those_of_another_implementation(home: Path, ramp: bool) -> None:
    model, chosen = load(home / "b"), METHODS["continuous"]
    config = make_config(chosen.config, QUICK | {"ramp": ramp})
    job = Job(chosen, model, "207", config)
    trace, task = finished(job), job.task
    order, count = task.canvas.order, other.SIDE**2
    assert sorted(order) == list(range(count)) != list(order)
    noise = noise_at(torch.arange(count), task, 4, SeededChance(0))
    reference, known = other.Reference(other.weights()), {}
    for k, cell in enumerate(order):
        conditions = [reference.condition(known, cell, label) for label in (207, None)]
        scale = 1 + 2 * (k + 1) / count if ramp else 3.0
        steps = [round(200 + i * (config.first - 200) / 3) for i in range(4)]
        known[cell] = reference.token(conditions, scale, steps, [*noise.path[k], noise.last[k]])
        found = torch.tensor(trace.output.tokens[k], dtype=torch.float64)
        torch.testing.assert_close(found, known[cell], atol=1e-3, rtol=1e-3)
    assert torch.stack(list(known.values())).std() > 0.3, "too flat to tell"
    assert np.abs(picture(trace.output.image) - drawn_by_the_other(order, trace)).max() <= 1


@pytest.mark.parametrize("unseen", ["7", "999"])
def test_conditions_of_stacked_rows_are_those_of_another_implementation(home: Path, unseen: str) -> None:
    from engines.continuous.request import PathForward

    model = load(home / "b")
    task = model.pose(unseen, None)
    order = task.canvas.order or ()
    tokens = torch.randn(5, other.TOKEN, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    empty = torch.zeros(3, 3, other.TOKEN, dtype=torch.float64)
    request = PathForward(tokens, 3, 0, empty, torch.ones(3, dtype=torch.float64))
    session = model.start([task], guided=True)
    conditions = session.conditions({0: request})[0]  # [2, 3, H]
    reference = other.Reference(other.weights())
    for k in range(3):
        known = {order[i]: tokens[i] for i in range(3 + k)}
        for row, label in enumerate((int(unseen), None)):
            expected = reference.condition(known, order[3 + k], label)
            torch.testing.assert_close(conditions[row, k].double(), expected, atol=1e-4, rtol=0)
    assert session.cost(request)[0] == 6, "a row for every prefix, with the class and without"


@pytest.mark.parametrize(
    ("method", "settings"), [*CSPD, pytest.param("cspd", {"drafter": "itself"}, marks=pytest.mark.slow)]
)
def test_cspd_draws_from_the_folder_to_pixels(home: Path, method: str, settings: dict[str, object]) -> None:
    model, small, chosen = load(home / "b"), load(home / "s"), METHODS[method]
    config = make_config(chosen.config, QUICK | {"gamma": 3, "prefill": 0.0} | settings)
    job = Job(chosen, model, "207", config, small=None if "drafter" in settings else small)
    trace = finished(job)
    assert loads(dumps(trace)) == trace
    assert trace.summary.complete
    assert any(step.call.mode == "verify" for step in trace.steps)
    assert np.abs(picture(trace.output.image) - drawn_by_the_other(job.task.canvas.order, trace)).max() <= 1
    assert set(trace.model.weights) == {"model.safetensors", "pixels/model.safetensors"}
    assert trace.model.title == "MAR: b"


def test_the_averaged_weights_are_written_as_they_were_published(home: Path) -> None:
    found, codec = load_file(home / "b" / "model.safetensors"), load_file(home / "b" / "pixels" / "model.safetensors")
    assert found.keys() == other.weights().keys()
    assert all(part.equal(found[name]) for name, part in other.weights().items())
    plain = compvis.weights(other.CODEC)
    assert codec.keys() == {name for name in plain if name.startswith(("decoder.", "post_quant_conv."))}
    assert all(part.equal(plain[name]) for name, part in codec.items())


@pytest.mark.parametrize(
    ("size", "millions"),
    [((768, 12, 12, 1024, 6), 208), ((1024, 16, 16, 1280, 8), 479), ((1280, 20, 16, 1536, 12), 943)],
)
def test_the_published_sizes_are_told_by_their_shapes(size: tuple[int, ...], millions: int) -> None:
    width, depth, heads, head_width, head_depth = size
    wanted = MARSize(width=width, depth=depth, heads=heads, head_width=head_width, head_depth=head_depth)
    network = outlined(lambda: MAR(wanted))
    shapes = {name: tuple(part.shape) for name, part in network.state_dict().items()}
    assert mar_checkpoint.size_of(published.Source("x", Path(), ""), shapes, None) == wanted
    assert abs(sum(part.numel() for part in network.parameters()) / 1e6 - millions) < 1  # as the paper has them


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (removed("model.safetensors"), "b: model.safetensors is missing"),
        (lambda folder: shutil.rmtree(folder / "pixels"), "b/pixels: model.safetensors is missing"),
        (weighted("mask_token", None), "tensor 'mask_token' is missing in its weights"),
        (weighted("mask_token", torch.zeros(1, 1, 9)), r"tensor 'mask_token' has shape \[1, 1, 9\]"),
        (weighted("norm.weight", torch.zeros(1)), "'norm.weight' is in its weights, and a MAR has no place for it"),
        (weighted("fake_latent", torch.zeros(1, 16, dtype=torch.int8)), "'fake_latent' is stored as I8"),
        (reworded('"heads": 2', '"heads": 3'), "3 for 'heads', which do not divide its 'width' 16"),
        (reworded('"depth": 2', '"depth": 3'), "'decoder_blocks.2.attn.proj.bias' and 23 more are missing"),
        (reworded('"side": 3', '"sides": 3'), "config.json has no 'side'"),
        (reworded('"mar"', '"marmalade"'), "'marmalade' for 'model_type', and what can be read .*"),
        (
            weighted("decoder.mid.attn_1.q.weight", torch.zeros(64, 64), "pixels/model.safetensors"),
            r"'decoder.mid.attn_1.q.weight' has shape \[64, 64\]",
        ),
        (
            weighted("decoder.up.0.attn.0.q.bias", torch.zeros(1), "pixels/model.safetensors"),
            "and a KL-16 has no place",
        ),
        (weighted("post_quant_conv.weight", None, "pixels/model.safetensors"), "no 'post_quant_conv.weight'"),
    ],
)
def test_a_model_that_is_not_whole_is_refused_by_name(home: Path, tmp_path: Path, change: Change, said: str) -> None:
    assert refused(copied(home / "b", tmp_path / "b"), change, said).startswith("b")


@pytest.mark.parametrize(
    ("file", "holds", "heads", "said"),
    [
        ("checkpoint-last.pth", {"model_ema": Evil()}, 2, "checkpoint-last.pth cannot be read as tensors alone"),
        ("checkpoint-last.pth", {"model_ema": {"a": torch.zeros(1)}}, 2, "not those of a MAR: no 'diffusion_pos"),
        ("checkpoint-last.pth", {"model_ema": {"a": 1}}, 2, "checkpoint-last.pth has 'a', which is no tensor"),
        ("kl16.ckpt", {"model": {"a": torch.zeros(1)}}, 2, "not those of an autoencoder of CompVis's kind"),
        ("kl16.ckpt", None, 2, "kl16.ckpt is missing"),
        ("", None, None, "its width is 16, and no published MAR has it; say how many heads it has by --heads"),
    ],
)
def test_a_conversion_that_cannot_be_right_writes_nothing(
    tmp_path: Path, file: str, holds: object, heads: int | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = other.write(tmp_path / "x")
    if file:
        (files / file).unlink() if holds is None else torch.save(holds, files / file)
    with pytest.raises(ModelError, match=said):
        picture_convert.convert(
            "mar", Asked(files / "checkpoint-last.pth", files / "kl16.ckpt", heads), tmp_path / "target"
        )
    assert not (tmp_path / "target").exists()
    assert "run" not in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_line_converts_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = other.write(tmp_path / "x")
    place = str(tmp_path / "mine")
    asked = ["convert-picture", "mar", str(files / "checkpoint-last.pth"), str(files / "kl16.ckpt"), place]
    assert main(asked) == 3
    assert "--heads" in capsys.readouterr().err
    assert main([*asked, "--heads", "2"]) == 0
    assert f"--model {place}" in capsys.readouterr().out
    run = [
        "run",
        "cspd",
        "--model",
        place,
        "--set",
        "steps=2",
        "--set",
        "drafter=itself",
        "-o",
        str(tmp_path / "t.json"),
    ]
    assert main([*run, "--prompt", "3"]) == 0
    assert main([*run, "--prompt", "cat"]) == 2
    assert "'cat' is no class; give a number from 0 to 999" in capsys.readouterr().err
    assert main(["convert-picture", "rar", "a", "b", str(tmp_path / "no")]) == 2
    assert capsys.readouterr().err.startswith("KIND: 'rar' is none; use janus, mar")


def test_it_is_listed_with_its_licence_and_loaded_by_its_folder_alone(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["expect", "--model", str(home / "b")]) == 0
    assert f"b: {load(home / 'b').parameters:,} parameters" in capsys.readouterr().out
    assert not any(name.startswith("mar-") for name in catalog.models_for("continuous-ar"))
    assert main(["list"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("mar-h"))
    assert all(said in line for said in ("MIT", "no published weights were tried", "convert-picture mar"))
    with pytest.raises(ModelError, match=r"mar-h: is loaded by its folder. It needs 4.0 GB: .*convert-picture mar"):
        catalog.load_model("mar-h")
