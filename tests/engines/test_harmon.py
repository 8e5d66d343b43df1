"""Harmon as it lies on the hub: compared with another implementation, decoded to pixels, refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support import harmon as other
from support.broken import Change, Evil, configured, copied, refused, removed, reworded, weighted
from support.latents import CSPD, finished, picture, raster, shown

from engines.__main__ import main
from engines.config import make_config
from engines.continuous.denoising import noise_at
from engines.continuous.request import PathForward
from engines.methods import METHODS
from engines.models import catalog
from engines.models.errors import ModelError
from engines.models.hub import picture_convert, published
from engines.models.hub.harmon import HarmonModel, stretch
from engines.models.hub.mar import MAR, MARSize
from engines.models.hub.picture_convert import Asked
from engines.runtime.driver import Job
from engines.sampling.chance import SeededChance
from traces import dumps, loads

QUICK = {"steps": 4, "last": 200, "guidance": 3.0}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two checkpoints, `b` and a drafter `s`."""
    place = tmp_path_factory.mktemp("harmon")
    other.write(place / "b", 3)
    other.write(place / "s", 4)
    return place


def load(folder: Path) -> HarmonModel:
    model = published.load_folder(folder)
    assert isinstance(model, HarmonModel)
    return model


def test_conditions_of_lanes_with_prompts_of_unequal_length_are_those_of_another_implementation(home: Path) -> None:
    model = load(home / "b")
    tasks = [model.pose(prompt, None) for prompt in ("a red boot", "cat")]
    order = tasks[0].canvas.order or ()
    tokens = torch.randn(5, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    empty = torch.zeros(3, 3, 4, dtype=torch.float64)
    request = PathForward(tokens, 3, 0, empty, torch.ones(3, dtype=torch.float64))
    session = model.start(tasks, guided=True)
    conditions = session.conditions({0: request, 1: request})
    for lane, task in enumerate(tasks):
        for row, prompt in enumerate((task.text, None)):
            reference = other.Reference(other.weights(), prompt)
            for k in range(3):
                expected = reference.condition({order[i]: tokens[i] for i in range(3 + k)}, order[3 + k], None)
                torch.testing.assert_close(conditions[lane][row, k].double(), expected, atol=1e-4, rtol=0)
    assert session.cost(request)[0] == 6, "a row for every prefix, with the text and without"


def test_a_whole_decode_and_its_pixels_are_those_of_another_implementation(home: Path) -> None:
    chosen = METHODS["continuous"]
    job = Job(chosen, load(home / "b"), " a red boot ", make_config(chosen.config, QUICK))
    trace, task = finished(job), job.task
    order, count = task.canvas.order, other.SIDE**2
    noise = noise_at(torch.arange(count), task, 4, SeededChance(0))
    references = [other.Reference(other.weights(), prompt) for prompt in ("a red boot", None)]
    known: dict[int, torch.Tensor] = {}
    for k, cell in enumerate(order):
        conditions = [reference.condition(known, cell, None) for reference in references]
        steps = [round(200 + i * (job.config.first - 200) / 3) for i in range(4)]
        known[cell] = references[0].token(conditions, 3.0, steps, [*noise.path[k], noise.last[k]])
        found = torch.tensor(trace.output.tokens[k], dtype=torch.float64)
        torch.testing.assert_close(found, known[cell], atol=1e-3, rtol=1e-3)
    drawn = shown(other.pixels(raster(order, trace.output.tokens, other.SIDE))[0])
    assert np.abs(picture(trace.output.image) - drawn).max() <= 1
    assert set(trace.model.weights) == {"model.safetensors"}
    assert trace.model.licence == "S-Lab License 1.0: for research, not for commercial use"


@pytest.mark.parametrize(("method", "settings"), CSPD)
def test_cspd_draws_from_the_folder_to_pixels(home: Path, method: str, settings: dict[str, object]) -> None:
    chosen = METHODS[method]
    config = make_config(chosen.config, QUICK | {"gamma": 3, "prefill": 0.0} | settings)
    job = Job(chosen, load(home / "b"), "a red boot", config, small=load(home / "s"))
    trace = finished(job)
    assert loads(dumps(trace)) == trace
    assert any(step.call.mode == "verify" for step in trace.steps)
    drawn = shown(other.pixels(raster(job.task.canvas.order, trace.output.tokens, other.SIDE))[0])
    assert np.abs(picture(trace.output.image) - drawn).max() <= 1


def test_learnt_positions_are_stretched_linearly_for_a_larger_canvas(home: Path, tmp_path: Path) -> None:
    mar = MAR(MARSize(side=3, token=4, width=8, depth=1, heads=2, buffer=2, head_width=8, head_depth=1))
    tables = {
        "encoder_pos_embed_learned": 2,
        "decoder_pos_embed_learned": 2,
        "diffusion_pos_embed_learned": 0,
    }
    for name in tables:
        torch.nn.init.normal_(getattr(mar, name))
    before = {name: getattr(mar, name).detach().clone() for name in tables}
    stretch(mar, 6)
    for name, front in tables.items():
        found, old = getattr(mar, name)[0], before[name][0]
        assert found[:front].equal(old[:front])
        for row, column in ((0, 0), (2, 3), (5, 1)):
            expected = torch.zeros(8)
            for y in range(3):
                for x in range(3):
                    # Centres of cells, and beyond the outermost ones their values.
                    at = [min(max((place + 0.5) / 2 - 0.5, 0), 2) for place in (row, column)]
                    share = max(0, 1 - abs(at[0] - y)) * max(0, 1 - abs(at[1] - x))
                    expected += share * old[front + 3 * y + x]
            torch.testing.assert_close(found[front + 6 * row + column], expected)
    configured(side=4)(copied(home / "b", tmp_path / "b"))
    chosen = METHODS["continuous"]
    trace = finished(Job(chosen, load(tmp_path / "b"), "cat", make_config(chosen.config, {"steps": 2, "last": 200})))
    assert trace.canvas.shape == (4, 4)
    assert picture(trace.output.image).shape == (8, 8, 3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (removed("model.safetensors"), "model.safetensors is missing"),
        (removed("tokenizer.json"), "tokenizer.json is missing"),
        (weighted("mar.mask_token", None), "tensor 'mar.mask_token' is missing"),
        (weighted("proj_in.2.bias", None), "tensor 'proj_in.2.bias' is missing"),
        (weighted("proj_out.2.bias", torch.zeros(3)), r"'proj_out.2.bias' has shape \[3\]"),
        (weighted("llm.model.norm.weight", torch.zeros(32, dtype=torch.int8)), "'llm.model.norm.weight' is stored as"),
        (weighted("ear.weight", torch.zeros(1)), "'ear.weight' is in its weights, and a Harmon has no place"),
        (weighted("vae.post_quant_conv.weight", None), "no 'post_quant_conv.weight'"),
        (weighted("vae.decoder.conv_in.bias", torch.zeros(3)), r"'vae.decoder.conv_in.bias' has shape \[3\]"),
        (reworded('"mar_base"', '"mar_tiny"'), "'mar_tiny' for 'type' of 'mar'; it is one of mar_base"),
        (reworded('"encoder_num_heads": 2,', ""), "its width is 16, and no published MAR has it"),
        (reworded('"diffloss_w": 12', '"diffloss_w": 13'), "13 for 'diffloss_w' of 'mar', and its tensors 12"),
        (reworded('"num_hidden_layers": 2', '"num_hidden_layers": 3'), "'llm.model.layers.2.* missing"),
        (reworded('"use_sliding_window": false', '"use_sliding_window": true'), "True for 'use_sliding_window'"),
        (reworded('"model_type": "qwen2"', '"model_type": "llama"'), "'llama' for 'model_type'; Harmon is built for"),
    ],
)
def test_a_model_that_is_not_whole_is_refused_by_name(home: Path, tmp_path: Path, change: Change, said: str) -> None:
    assert refused(copied(home / "b", tmp_path / "b"), change, said).startswith("b:")


def test_a_pickle_beside_the_files_of_the_hub_becomes_the_same_model(home: Path, tmp_path: Path) -> None:
    files = other.write_pickle(tmp_path / "published")
    asked = Asked(files / "harmon_0.5b.pth", files / "kl16.ckpt")
    picture_convert.convert("harmon", asked, tmp_path / "mine")
    published.load_folder(tmp_path / "mine")
    found, plain = (load_file(place / "model.safetensors") for place in (tmp_path / "mine", home / "b"))
    unread = {name for name in plain if name.startswith(("vae.encoder.", "vae.quant_conv."))}
    assert found.keys() == plain.keys() - unread
    assert all(part.equal(plain[name]) for name, part in found.items())
    for change, said in (
        (lambda: torch.save({"proj_in.0.bias": Evil()}, files / "harmon_0.5b.pth"), "read as tensors alone"),
        (lambda: torch.save({"a": torch.zeros(1)}, files / "harmon_0.5b.pth"), "not those of a MAR"),
        (
            lambda: (files / "config.json").unlink(),
            "config.json is missing in .* Put config.json and tokenizer.json of",
        ),
    ):
        change()
        with pytest.raises(ModelError, match=said):
            picture_convert.convert("harmon", asked, tmp_path / "other")
        assert not (tmp_path / "other").exists()


def test_prompts_are_texts_without_special_tokens(home: Path) -> None:
    model = load(home / "b")
    for prompt, said in ((" ", "is empty"), ("a <|im_end|> b", "'<|im_end|>'")):
        with pytest.raises(ValueError, match=said.replace("|", r"\|")):
            model.pose(prompt, None)


def test_it_is_listed_with_its_licence_and_its_memory_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    info = catalog.MODELS["wusize/Harmon-1_5B"]
    assert info.small == "wusize/Harmon-0_5B"
    assert info.label == "Harmon 1.5B, 256x256 (10.1 GB, S-Lab License 1.0: for research, not for commercial use)"
    assert main(["list"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("wusize/Harmon-1_5B"))
    assert all(said in line for said in ("for research, not for commercial use", "no published weights were tried"))
    assert main(["expect", "--model", str(home / "b")]) == 0
    assert f"b: {load(home / 'b').parameters:,} parameters" in capsys.readouterr().out
