"""xAR as it is published: converted, compared with another implementation, decoded to pixels, refused."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from support import xar as other
from support.broken import Change, Evil, copied, refused, removed, reworded, weighted
from support.latents import finished, picture, shown

from engines.__main__ import main
from engines.config import ConfigError, make_config
from engines.continuous.denoising import noise_at
from engines.continuous.flow import flow_at
from engines.continuous.request import PathForward
from engines.methods import METHODS
from engines.models import catalog
from engines.models.errors import ModelError
from engines.models.hub import picture_convert, published, xar_checkpoint
from engines.models.hub.assembling import outlined
from engines.models.hub.picture_convert import Asked
from engines.models.hub.xar import XAR, CellSession, XARSize
from engines.models.hub.xar_pictures import XARModel
from engines.runtime.driver import Job
from engines.sampling.chance import SeededChance
from traces import dumps, loads

CELLS = {"b": other.CELL, "b1": 1}
"""Folders, and the side of the cells that they draw."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with converted models: `b` draws cells and `b1` single tokens, `s` and `s1` are their drafters."""
    place = tmp_path_factory.mktemp("xar")
    for name, seed in (("b", 3), ("s", 4)):
        files = other.write(place / f"{name}-published", seed)
        for side, end in ((None, ""), (1, "1")):
            asked = Asked(files / "xAR-B.pth", files / "kl16.ckpt", side=side)
            picture_convert.convert("xar", asked, place / f"{name}{end}")
    return place


def load(folder: Path) -> XARModel:
    model = published.load_folder(folder)
    assert isinstance(model, XARModel)
    return model


def pixels_of(tokens: object) -> object:
    """What the other implementation draws of a trace's tokens."""
    return shown(other.pixels(torch.tensor(tokens).reshape(1, other.COUNT, other.TOKEN))[0])


@pytest.mark.parametrize("name", CELLS)
def test_a_whole_decode_and_its_pixels_are_those_of_another_implementation(home: Path, name: str) -> None:
    chosen, size = METHODS["continuous"], CELLS[name] ** 2
    config = make_config(chosen.config, {"steps": 4, "guidance": 3.0, "ramp": True})
    job = Job(chosen, load(home / name), "207", config)
    trace, count = finished(job), other.COUNT // size
    noise = noise_at(torch.arange(count), job.task, 4, SeededChance(0))
    reference = other.Reference(other.weights(), size)
    clean = torch.zeros(0, other.TOKEN, dtype=torch.float64)
    for k in range(count):
        scale = 1 + 2 * k / (count - 1)  # none at the first cell, all of it at the last
        expected = reference.draw(clean, 207, scale, [*noise.path[k], noise.last[k]])
        found = torch.tensor(trace.output.tokens[k], dtype=torch.float64).reshape(size, -1)
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
        clean = torch.cat([clean, expected])
    assert clean.std() > 0.3, "too flat to tell"
    assert np.abs(picture(trace.output.image) - pixels_of(trace.output.tokens)).max() <= 1


@pytest.mark.parametrize("name", CELLS)
def test_velocities_behind_stored_cells_are_those_of_another_implementation(home: Path, name: str) -> None:
    model, size = load(home / name), CELLS[name] ** 2
    width, noise = size * other.TOKEN, torch.Generator().manual_seed(2)
    rows = CellSession(model._xar, torch.tensor([[7, 1000], [999, 1000]]), size)
    reference, flow = other.Reference(other.weights(), size), flow_at(5)

    def asked(tokens: torch.Tensor, done: int, cached: int, wanted: int) -> PathForward:
        empty = torch.zeros(wanted, 5, width, dtype=torch.float64)
        return PathForward(tokens, done, cached, empty, torch.ones(wanted, dtype=torch.float64))

    first = torch.randn(2, width, generator=noise, dtype=torch.float64)
    longer = torch.cat([first[:1], torch.randn(2, width, generator=noise, dtype=torch.float64)])
    rounds = [
        {0: asked(first, 1, 0, 2), 1: asked(first[:0], 0, 0, 1)},
        # The second token of lane 0 was rejected, and lane 1 begins to draft.
        {0: asked(longer, 2, 1, 2), 1: asked(first, 0, 0, 3)},
    ]
    with torch.inference_mode():
        for requests in rounds:
            conditions = rows.logits(requests)
            parts = [conditions[lane, :, : request.wanted] for lane, request in requests.items()]
            together = torch.cat(parts, 1)  # [R, M, 2]
            x = torch.randn(together.shape[1], width, generator=noise, dtype=torch.float64)
            velocity, _ = rows.conditioned_on(together.flatten(0, 1), flow)(x.repeat(2, 1), flow, 2)
            found, m = velocity.unflatten(0, (2, -1)), 0
            for lane, request in requests.items():
                for k in range(request.done, request.done + request.wanted):
                    clean = request.tokens[:k].reshape(-1, other.TOKEN)
                    for row, label in enumerate(((7, 999)[lane], None)):
                        noisy = x[m].reshape(size, -1)
                        expected = reference.velocity(clean, noisy, flow.timestep[2], label).flatten()
                        torch.testing.assert_close(found[row, m].double(), expected, atol=5e-4, rtol=5e-4)
                    m += 1
    assert rows.cost(asked(longer, 2, 1, 2)) == (2, 2 * size * (2 + 5 * 2)), "every denoising step feeds the cells"


@pytest.mark.parametrize(
    ("method", "settings", "name"),
    [
        ("cspd", {"mode": "exact"}, "b1"),
        pytest.param("cspd", {"mode": "exact"}, "b", marks=pytest.mark.slow),
        pytest.param("cspd", {"mode": "paper"}, "b1", marks=pytest.mark.slow),
        pytest.param("cspd", {"mode": "distance-only"}, "b1", marks=pytest.mark.slow),
        pytest.param("cspd-block", {}, "b1", marks=pytest.mark.slow),
        pytest.param("cspd-release", {}, "b1", marks=pytest.mark.slow),
    ],
)
def test_cspd_draws_from_the_folder_to_pixels(home: Path, method: str, settings: dict[str, object], name: str) -> None:
    chosen, small = METHODS[method], load(home / name.replace("b", "s"))
    given = {"steps": 4, "guidance": 3.0, "ramp": True, "gamma": 3, "prefill": 0.0} | settings
    job = Job(chosen, load(home / name), "207", make_config(chosen.config, given), small=small)
    trace = finished(job)
    assert loads(dumps(trace)) == trace
    assert trace.summary.complete
    assert any(step.call.mode == "verify" for step in trace.steps)
    assert np.abs(picture(trace.output.image) - pixels_of(trace.output.tokens)).max() <= 1
    assert trace.model.licence.startswith("no licence file")
    assert set(trace.model.weights) == {"model.safetensors", "pixels/model.safetensors"}


def test_drafts_of_the_model_itself_are_all_accepted(home: Path) -> None:
    chosen = METHODS["cspd"]
    given = {"steps": 4, "guidance": 3.0, "gamma": 3, "prefill": 0.0, "drafter": "itself"}
    trace = finished(Job(chosen, load(home / "b"), "207", make_config(chosen.config, given)))
    assert [step.call.mode for step in trace.steps] == ["draft", "draft", "draft", "verify"]
    assert [fate.value for fate in trace.steps[-1].fate] == ["accepted"] * 3 + ["bonus"]


@pytest.mark.parametrize(
    ("size", "millions"),
    [(XARSize(), 172), (XARSize(width=1024, depth=16, heads=16), 608), (XARSize(width=1280, depth=20, heads=16), 1186)],
)
def test_the_published_sizes_are_told_by_their_shapes(size: XARSize, millions: int) -> None:
    network = outlined(lambda: XAR(size))
    shapes = {name: tuple(part.shape) for name, part in network.state_dict().items()}
    assert xar_checkpoint.size_of(published.Source("x", Path(), ""), shapes) == size
    assert (
        abs(sum(part.numel() for part in network.parameters()) / 1e6 - millions) < 1
    )  # 172, 608 and 1.1 billion there


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sampler": "ddim"}, "sampler: 'ddim' is for diffusion heads; .* leave it at 'ddpm'"),
        ({"first": 999}, "first: 999 is for diffusion heads; .* begins at noise alone; leave it at 960"),
    ],
)
def test_settings_of_diffusion_heads_are_refused(home: Path, settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(home / "b").pose("207", make_config(METHODS["cspd"].config, settings))


def test_models_of_other_cells_do_not_draft_for_each_other(home: Path) -> None:
    chosen = METHODS["cspd"]
    job = Job(chosen, load(home / "b"), "207", make_config(chosen.config, {}), small=load(home / "s1"))
    with pytest.raises(ValueError, match="drafter: s1 and b have different vocabularies"):
        finished(job)


def masked(change: Callable[[torch.Tensor], None]) -> Change:
    """Another mask."""
    mask = other.mask()
    change(mask)
    return weighted("mask", mask)


TABLE = "decoder_blocks.1.attn.rope.freqs_sin"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (removed("model.safetensors"), "b: model.safetensors is missing"),
        (lambda folder: shutil.rmtree(folder / "pixels"), "b/pixels: model.safetensors is missing"),
        (weighted("encoder_norm.weight", None), "tensor 'encoder_norm.weight' is missing in its weights"),
        (weighted("pred.bias", torch.zeros(9)), r"tensor 'pred.bias' has shape \[9\]"),
        (
            weighted("fake_latent", torch.zeros(1)),
            "'fake_latent' is in its weights, and a published xAR has no place for it",
        ),
        (weighted("pred.bias", torch.zeros(4, dtype=torch.int8)), "'pred.bias' is stored as I8"),
        (weighted(TABLE, other.angles().flip(0).sin().float()), f"'{TABLE}' holds other rotary positions"),
        (masked(lambda mask: mask[..., 0, 4:].fill_(0)), "lets the first token see 16 of 16|not that of cells"),
        (masked(lambda mask: mask[..., 5, 9].fill_(0)), "its mask is not that of cells"),
        (reworded('"cell": 2', '"cell": 4'), "cannot draw cells of 4x4; it was trained on 2x2, or 1x1"),
        (reworded('"cell": 2', '"cells": 2'), "config.json has no 'cell'"),
        (reworded('"heads": 2', '"heads": 3'), "3 for 'heads', whose rotary pairs do not divide 16"),
        (reworded('"depth": 2', '"depth": 3'), "'decoder_blocks.2.* and 29 more are missing"),
        (weighted("post_quant_conv.weight", None, "pixels/model.safetensors"), "no 'post_quant_conv.weight'"),
    ],
)
def test_a_model_that_is_not_whole_is_refused_by_name(home: Path, tmp_path: Path, change: Change, said: str) -> None:
    assert refused(copied(home / "b", tmp_path / "b"), change, said).startswith("b")


@pytest.mark.parametrize(
    ("holds", "side", "said"),
    [
        ({"model_ema": Evil()}, None, "xAR-B.pth cannot be read as tensors alone"),
        ({"model": {"a": torch.zeros(1)}}, None, "not those of an xAR: no 'encoder_pos_embed_learned'"),
        (
            {"model": other.weights() | {"a": torch.zeros(1)}},
            None,
            "'a' is in its weights, and a published xAR has no place",
        ),
        ({"model": other.weights()}, 4, "cannot draw cells of 4x4; it was trained on 2x2, or 1x1"),
    ],
)
def test_a_conversion_that_cannot_be_right_writes_nothing(
    tmp_path: Path, holds: object, side: int | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = other.write(tmp_path / "x")
    torch.save(holds, files / "xAR-B.pth")
    with pytest.raises(ModelError, match=said):
        asked = Asked(files / "xAR-B.pth", files / "kl16.ckpt", side=side)
        picture_convert.convert("xar", asked, tmp_path / "target")
    assert not (tmp_path / "target").exists()
    assert "run" not in capsys.readouterr().out


def test_it_is_listed_with_what_is_known_of_its_licence_and_its_memory_is_told(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("xar-h"))
    assert "no licence file: all rights are its authors', so ask them" in line
    assert "convert-picture xar" in line
    with pytest.raises(ModelError, match=r"xar-h: is loaded by its folder. It needs 4.9 GB"):
        catalog.load_model("xar-h")
    assert main(["expect", "--model", str(home / "b")]) == 0
    assert f"b: {load(home / 'b').parameters:,} parameters" in capsys.readouterr().out
