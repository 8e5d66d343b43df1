"""Published models that draw: compared with transformers' and diffusers' own classes, decoded to pixels, refused."""

import math
import re
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support import tiny_image_checkpoints as drawing
from support.damaged_checkpoints import Change, Evil, configured, refused, removed, weighted
from support.tiny_image_checkpoints import CODES, SIDE
from torch import Tensor
from torch.nn import functional as F

from draftscope.cli.main import main
from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.continuous.flow import flow_schedule
from draftscope.engines.continuous.path_request import PathRequest
from draftscope.engines.methods import METHODS
from draftscope.engines.models import loading
from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints import conversion
from draftscope.engines.models.checkpoints.images import chameleon, cosmos, emu3
from draftscope.engines.models.checkpoints.images.mar import MAR, MARSize
from draftscope.engines.models.checkpoints.images.video_model import pack
from draftscope.engines.models.checkpoints.images.xar import CellSession
from draftscope.engines.models.errors import ModelError
from draftscope.engines.runtime.driver import Job
from draftscope.engines.sampling.distributions import GuidedSampling, Sampling
from draftscope.engines.settings import ConfigError, make_config
from draftscope.engines.testing.conformance import finish
from draftscope.traces import dumps, loads, read
from draftscope.visualizers.picture import picture_of

CODED = ("janus", "emu3", "lumina-mgpt", "lumina-mgpt-2", "anole")
LATENT = ("mar", "xar", "harmon")
LUMINA = "<reserved08706><racm3:break>"
PROMPTS = {
    "janus": (
        "<｜begin▁of▁sentence｜><|User|>: a boot\n\n<|Assistant|>:<begin_of_image>",  # noqa: RUF001
        f"<｜begin▁of▁sentence｜>{'<｜▁pad▁｜>' * 32}<begin_of_image>",  # noqa: RUF001
    ),
    "emu3": (
        "<|extra_203|>a boot masterpiece, film grained, best quality.<|image start|>4*4<|image token|>",
        f"<|extra_203|>{emu3._BAD}<|image start|>4*4<|image token|>",
    ),
    "lumina-mgpt": (
        f"<s>Generate an image of 8x8 according to the following prompt:\na boot{LUMINA}{'<reserved08802>' * 2}",
        "<racm3:break><reserved08802><reserved08802>",
    ),
    "lumina-mgpt-2": (
        "<|endoftext|>Generate an image of 8x8 according to the following prompt:\na boot"
        f"{LUMINA}{'<reserved08801>' * 2}",
        "<racm3:break><reserved08801><reserved08801>",
    ),
    "anole": (f"<s>a boot{LUMINA}", "<s><racm3:break>"),
}
"""Tokens before a picture of `a boot`, and before an unconditional one."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint of every family, and with drafters of some."""
    folder = tmp_path_factory.mktemp("published")
    for family in (*CODED, *LATENT, "cosmos"):
        drawing.write(family, folder / family)
    for family in LATENT:
        drawing.write(family, folder / f"{family}-small", seed=1)
    return folder


def as_picture(pixels: Tensor) -> np.ndarray[Any, Any]:
    """Pixels [3, H, W] in [-1, 1] as a picture has them."""
    assert pixels.std() > 0.05, "too flat to tell"
    return ((pixels.clamp(-1, 1) + 1) * 127.5).permute(1, 2, 0).numpy()


def randn(*shape: int, seed: int = 2) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def native_logits(family: str, words: list[int], codes: Tensor) -> Tensor:
    """Logits [1 + N, K] of every code after a prompt and N codes, by the classes of transformers."""
    tokenizer = drawing.tokenizer(family)
    if family == "janus":
        network = drawing.janus()
        text = network.model.language_model.embed_tokens(torch.tensor(words))
        drawn = network.prepare_embeddings_for_image_generation(codes)
        out = network.model.language_model(inputs_embeds=torch.cat([text, drawn])[None]).last_hidden_state
        logits: Tensor = network.model.generation_head(out[0, len(words) - 1 :])
        return logits
    ids = torch.tensor([*map(tokenizer.token_to_id, drawing.names(family))] or range(100, 100 + CODES))
    line = tokenizer.token_to_id({"emu3": "<|extra_200|>", "anole": ""}.get(family, "<reserved08799>"))
    row, positions = list(words), []
    for i in range(len(codes) + 1):
        row += [line] if line is not None and i and i % SIDE == 0 else []
        positions.append(len(row) - 1)
        row += ids[codes[i : i + 1]].tolist()
    network = drawing.emu3() if family == "emu3" else drawing.chameleon()
    body = network.model.text_model if family == "emu3" else network.model
    return network.lm_head(body(input_ids=torch.tensor([row])).last_hidden_state)[0, positions][:, ids]


def native_pixels(family: str, codes: Tensor) -> Tensor:
    """Pictures [B, 3, H, W] of codes, by the classes of transformers and diffusers."""
    if family in ("janus", "emu3"):
        vq = getattr(drawing, family)().model.vqmodel
        pixels: Tensor = vq.decode(codes if family == "janus" else codes.unflatten(1, (SIDE, SIDE)))
        return pixels
    vq = drawing.vqgan(family == "lumina-mgpt-2")
    pixels = vq.decode(codes, force_not_quantize=True, shape=(len(codes), SIDE, SIDE, 4)).sample
    return pixels


@pytest.mark.one_quick
@pytest.mark.parametrize("family", CODED)
def test_logits_are_transformers_own_with_and_without_the_prompt_and_with_rollback(home: Path, family: str) -> None:
    model, codes = loading.load(home / family), torch.arange(SIDE**2) * 7 % CODES
    words = [drawing.tokenizer(family).encode(text).ids for text in PROMPTS[family]]
    assert [list(ids) for ids in model.prompts(" a boot ")] == words
    expected = torch.stack([native_logits(family, ids, codes) for ids in words])
    assert expected.std() > 0.1 and (expected[0] - expected[1]).abs().max() > 0.01, "too flat to tell"
    session = model.open_session([model.make_task("a boot", GuidedSampling())], guided=True)
    for done in range(len(codes)):
        last = min(done + 5, len(codes))
        wrong = torch.cat([codes[:done], (codes[done:last] + 1) % CODES])  # drafts that are rejected one by one
        for drafts in (wrong[: last - 1], codes[: last - 1])[done == 0 :]:
            logits = session.logits({0: ProbsRequest(drafts, done, max(done - 1, 0))})[0]
            torch.testing.assert_close(logits[:, 0], expected[:, done], rtol=0, atol=1e-4)
        torch.testing.assert_close(logits, expected[:, done:last], rtol=0, atol=1e-4)


@pytest.mark.one_quick
@pytest.mark.parametrize("family", CODED)
def test_scd_draws_the_picture_that_the_native_classes_make_of_its_tokens(home: Path, family: str) -> None:
    model, method = loading.load(home / family), METHODS["scd"]
    config = make_config(method.config, method.preset("Janus-Pro"))
    trace = finish(Job(method, model, "a boot", config))
    assert loads(dumps(trace)) == trace and trace.summary.complete
    assert trace.canvas.shape == (SIDE, SIDE)
    codes = torch.tensor([[int(str(token)) for token in trace.output.tokens]])
    drawn = as_picture(native_pixels(family, codes)[0])
    assert np.abs(np.asarray(picture_of(trace.output.image)) - drawn).max() <= 0.51
    assert np.asarray(picture_of(trace.legend.frames[-1].image)).shape == drawn.shape


def test_a_prompt_that_cannot_be_read_is_refused(home: Path) -> None:
    model = loading.load(home / "janus")
    problems = ((" ", "is empty"), ("a <begin_of_image>", "holds '<begin_of_image>'"), ("a" * 600, "has room"))
    for prompt, problem in problems:
        with pytest.raises(ValueError, match=f"prompt: .*{problem}"):
            model.make_task(prompt, GuidedSampling())


def test_a_config_without_room_for_a_picture_is_told_so(home: Path, tmp_path: Path) -> None:
    folder = copytree(home / "emu3", tmp_path / "emu3")
    configured(text_config={"max_position_embeddings": 4})(folder)
    with pytest.raises(ValueError, match=r"has room for 4 tokens, and a picture alone takes \d+; correct the size of"):
        loading.load(folder).make_task("a boot", GuidedSampling())


def test_emu3s_newer_names_and_chameleons_shared_norms_are_read(home: Path, tmp_path: Path) -> None:
    newer = copytree(home / "emu3", tmp_path / "newer")
    names = ((r"^text_model\.lm_head", "lm_head"), (r"^text_model\.model", "model.text_model"), (r"^vq", "model.vq"))
    save_file(drawing.replaced(load_file(newer / "model.safetensors"), *names), newer / "model.safetensors")
    shared, state = copytree(home / "anole", tmp_path / "shared"), load_file(home / "anole/model.safetensors")
    norms, copied = (
        {n: part for n, part in state.items() if "_norm." in n},
        copytree(home / "anole", tmp_path / "whole"),
    )
    save_file(state | {n: part[:1].clone() for n, part in norms.items()}, shared / "model.safetensors")
    save_file(state | {n: part[:1].repeat(4, 1) for n, part in norms.items()}, copied / "model.safetensors")
    ids = torch.arange(8)[None]
    for one, other in ((newer, home / "emu3"), (shared, copied)):
        first, second = (loading.load(folder).logits(ids, ids) for folder in (one, other))
        assert first.equal(second)


def test_a_vqgan_inside_a_checkpoint_is_anoles(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its levels are counted from the coarse one on."""
    monkeypatch.setitem(chameleon.VARIANTS, "anole", chameleon.Variant("Anole", SIDE))
    folder = copytree(home / "anole", tmp_path / "whole")
    rmtree(folder / "pixels")
    state = load_file(folder / "model.safetensors")
    state = {name: part for name, part in state.items() if "vqmodel" not in name}
    for name, part in drawing.compvis(drawing.vqgan()).items():
        level = re.match(r"decoder\.up\.(\d)", name)
        counted = f"decoder.up.{1 - int(level[1])}{name[level.end() :]}" if level else name
        state[f"model.vqmodel.{counted}"] = part.clone()
    save_file(state, folder / "model.safetensors")
    copied, apart, codes = (*map(loading.load, (folder, home / "anole")), torch.arange(SIDE**2)[None])
    assert copied.pixels(codes).equal(apart.pixels(codes))
    assert (copied.token_space, copied.card.title) == (apart.token_space, "Anole: whole")


@pytest.mark.one_quick
@pytest.mark.parametrize("family", LATENT)
@pytest.mark.parametrize("method", ["continuous", "cspd", "cspd-block", "cspd-release"])
def test_cspd_draws_from_the_folder_to_pixels(home: Path, family: str, method: str) -> None:
    model, small = (loading.load(home / name) for name in (family, f"{family}-small"))
    settings = {"steps": 4, "guidance": 3.0} | ({} if method == "continuous" else {"gamma": 3, "prefill_share": 0.0})
    config, prompt = make_config(METHODS[method].config, settings), "a boot" if family == "harmon" else "207"
    trace = finish(Job(METHODS[method], model, prompt, config, drafter=None if method == "continuous" else small))
    assert loads(dumps(trace)) == trace and trace.summary.complete
    assert any(step.call.mode == "verify" for step in trace.steps) == (method != "continuous")
    latents = model.raster(torch.tensor(trace.output.tokens)[None]) / 0.2325
    drawn = as_picture(drawing.kl16().decode(latents.float()).sample[0])
    assert np.abs(np.asarray(picture_of(trace.output.image)) - drawn).max() <= 1


@pytest.mark.parametrize("unseen", [0, 2])
@pytest.mark.parametrize("family", ["mar", "harmon"])
def test_what_is_not_visible_is_left_out_and_every_prefix_has_its_row(home: Path, family: str, unseen: int) -> None:
    model, wanted = loading.load(home / family), 2 if unseen else 3
    tasks = [model.make_task(prompt, None) for prompt in (("a boot", "cat") if family == "harmon" else ("7", "999"))]
    order, tokens = torch.tensor(tasks[0].canvas.order), randn(5, 4)
    noise, scale = torch.zeros(wanted, 3, 4, dtype=torch.float64), torch.ones(wanted, dtype=torch.float64)
    request = PathRequest(tokens, 3, 0, noise, scale, num_visible_missing=unseen)
    session = model.open_session(tasks, guided=True)
    conditions = session.conditions({0: request, 1: request})
    assert session._backbone.cost(request)[0] == (2 if unseen else 6), (
        "a row for every prefix, with the prompt and without"
    )
    for sequence, task in enumerate(tasks):
        for k in range(wanted):
            visible = order[: 3 if unseen else 3 + k]
            positions = torch.cat([torch.arange(4), 4 + visible.sort().values])
            known = torch.zeros(SIDE**2, 4, dtype=torch.float64).index_copy(0, visible, tokens[: len(visible)])
            expected = _condition(model, task, known[visible.sort().values].float(), positions)[order[3 + k]]
            torch.testing.assert_close(conditions[sequence][0, k], expected, atol=1e-5, rtol=0)


def _condition(model: Any, task: Any, known: Tensor, positions: Tensor) -> Tensor:
    """Conditions of all positions where nothing but the visible tokens goes through the encoder and the Qwen2."""
    mar = model._mar
    harmon = hasattr(task, "text")
    label = mar.fake_latent if harmon else mar.class_emb.weight[task.label][None]
    x = torch.cat([label.expand(4, -1), mar.z_proj(known)]) + mar.encoder_pos_embed_learned[0, positions]
    x = mar.z_proj_ln(x)[None]
    for layer in mar.encoder_blocks:
        x = layer(x)
    x = mar.encoder_norm(x)
    if harmon:
        words = drawing.tokenizer("harmon").encode(
            f"<|im_start|>user\nGenerate an image: {task.text}<|im_end|>\n<|im_start|>assistant\n"
        )
        network = drawing.harmon()
        inside = network.proj_in(x[0])
        row = torch.cat([network.qwen.embed_tokens(torch.tensor(words.ids)), inside[4:], inside[:4]])
        out = network.qwen(inputs_embeds=row[None]).last_hidden_state[0, len(words.ids) :]
        x = x + network.proj_out(torch.cat([out[-4:], out[:-4]]))
    hidden = torch.zeros(1, 4 + SIDE**2, 16).index_copy(1, positions, x)
    visible = torch.zeros(1, 4 + SIDE**2, dtype=torch.bool).index_fill(1, positions, True)[:, 4:]
    conditions: Tensor = mar.decode(hidden, visible)[0]
    return conditions


def test_a_cell_of_xar_behind_stored_ones_is_that_of_one_pass_over_all(home: Path) -> None:
    model, flow = loading.load(home / "xar"), flow_schedule(5)
    rows = CellSession(model._xar, torch.tensor([[7, 1000]]), 4)
    tokens, noisy = randn(3, 16), randn(1, 16, seed=3)
    request = PathRequest(
        tokens[:2], 2, 0, torch.zeros(1, 5, 16, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    )
    mask = model._xar.get_buffer("mask")[0, 0, :12, :12]

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    with torch.inference_mode():
        conditions = rows.logits({0: request})[0].flatten(0, 1)
        velocity, _ = rows.conditioned_on(conditions, flow)(noisy.repeat(2, 1), flow, 2)
        x = torch.cat([tokens[:2], noisy]).reshape(1, 12, 4).float()
        for row, label in enumerate((7, 1000)):
            clean, now = (model._xar.modulation(torch.tensor([label]), t)[0] for t in (0, flow.timestep[2]))
            parts = torch.cat([clean.expand(8, -1), now.expand(4, -1)])[None]
            expected = model._xar(x, parts, torch.arange(12)[None], attend)[0, 8:].flatten()
            torch.testing.assert_close(velocity[row], expected, atol=1e-5, rtol=1e-5)
    assert rows.cost(request) == (2, 2 * 4 * (2 + 5)), "every denoising step feeds the cell"


def test_xar_draws_cells_or_tokens_and_takes_no_settings_of_diffusion_heads(home: Path, tmp_path: Path) -> None:
    configured(cell=1)(copytree(home / "xar", tmp_path / "single"))
    single, cells = loading.load(tmp_path / "single"), loading.load(home / "xar")
    assert single.make_task("1", None).canvas.order[:6] == (0, 1, 4, 5, 2, 3)
    assert cells.make_task("1", None).canvas.shape == (2, 2) and single.token_space != cells.token_space
    with pytest.raises(ConfigError, match="sampler: 'ddim' is for diffusion heads"):
        cells.make_task("1", make_config(METHODS["cspd"].config, {"sampler": "ddim"}))
    with pytest.raises(ValueError, match="'cat' is not an ImageNet class; give a number from 0 to 999"):
        cells.make_task("cat", None)
    settings = {"steps": 4, "gamma": 3, "prefill_share": 0.0, "drafter": "itself"}
    trace = finish(Job(METHODS["cspd"], cells, "1", make_config(METHODS["cspd"].config, settings)))
    assert [fate.value for fate in trace.steps[-1].fate] == ["accepted"] * 3 + ["bonus"]


def test_cosmos_is_a_qwen3_whose_rotations_turn_with_time_row_and_column(home: Path) -> None:
    model, native = loading.load(home / "cosmos"), drawing.cosmos()
    assert (model.shape.latents, model.shape.rows, model.shape.columns) == (4, 2, 3)
    row = torch.arange(24) * 31 % 240
    angles = [
        [t, t * 5e5**-0.5, y, x] for t in range(4) for y in range(2) for x in range(3)
    ]  # heads of 8: four rotations, of which 8 // 6 turn with the row and as many with the column
    turned = torch.tensor(angles).repeat(1, 2)
    native.model.rotary_emb = cosmos.PlaceRotary(turned)
    expected = native(input_ids=row[None]).logits[0]
    torch.testing.assert_close(model.logits(row[None], torch.arange(24)[None])[0], expected, rtol=0, atol=1e-4)
    session = model.open_session([model.make_task(pack(row[:18].tolist()), Sampling())], guided=False)
    for done in range(6):
        logits = session.logits({0: ProbsRequest(row[18 : 18 + done], done, max(done - 1, 0))})[0, 0, 0]
        torch.testing.assert_close(logits, expected[17 + done], rtol=0, atol=1e-4)


@pytest.mark.parametrize(("layers", "width", "stretched"), [(16, 4096, False), (40, 5120, True)])
def test_published_sizes_of_cosmos_are_read_and_the_larger_is_stretched(
    layers: int, width: int, stretched: bool
) -> None:
    settings = {"dim": width, "n_layers": layers, "n_heads": 32, "n_kv_heads": 8, "ffn_hidden_size": 14336}
    config = cosmos.config_of(
        CheckpointDir("x", Path(), ""), settings | {"vocab_size": 64000, "norm_eps": 1e-5, "head_dim": 128}
    )
    sizes = (config.num_video_frames, config.video_height, config.video_width, config.theta)
    assert sizes == (33, 640, 1024, 500_000)
    turned = cosmos.angles_of(config, (5, 40, 64))[(2 * 40 + 17) * 64 + 5]
    speeds = [5e5 ** (-2 * k / 44) for k in range(22)]  # of 64 rotations, 21 each turn with row and column
    if stretched:  # by YaRN (arXiv 2309.00071), from three latent frames on
        ramp = [min(max((s * 3 / (2 * math.pi) - 1) / 3, 0), 1) for s in speeds]
        speeds = [s * (k + (1 - k) / 2) for s, k in zip(speeds, ramp, strict=True)]
    torch.testing.assert_close(turned[:22], torch.tensor([2 * speed for speed in speeds]))
    assert turned[22] == 17 and turned[43] == 5 and turned[:64].equal(turned[64:])


def test_codes_of_clips_are_levels_and_later_frames_do_not_tell_of_earlier_ones(home: Path) -> None:
    tokenizer = loading.load(home / "cosmos")._tokenizer
    all_codes, levels = torch.arange(240), torch.tensor((5, 4, 4, 3))
    assert tokenizer.coordinates(all_codes).unique(dim=0).shape == (240, 4)
    assert (tokenizer.coordinates(all_codes) * (levels // 2) + levels // 2).round().long().amax(0).equal(levels - 1)
    assert tokenizer.coordinates(torch.tensor(tokenizer.middle)).abs().max() == 0
    clips = torch.rand(2, 3, 13, 16, 24, generator=torch.Generator().manual_seed(4)) * 2 - 1
    codes = tokenizer.encode(clips)
    assert codes.shape == (2, 4, 2, 3) and len(codes.unique()) > 8
    assert tokenizer.encode(clips[:, :, :9]).equal(codes[:, :3])
    assert tokenizer.decode(codes).shape == clips.shape


@pytest.mark.slow
def test_the_command_line_converts_cosmos_and_reads_a_clip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files, folder, clip = drawing.pickles("cosmos", tmp_path / "files").source, tmp_path / "mine", tmp_path / "clip.gif"
    assert main(["model", "convert", "cosmos", str(files), str(files), str(folder)]) == 0
    assert f"run scd --model {folder}" in capsys.readouterr().out
    iio.imwrite(clip, np.random.default_rng(0).integers(0, 255, (12, 32, 48, 3), np.uint8))
    run = ["run", "scd", "--model", str(folder), "--preset", "Cosmos", "-o", str(tmp_path / "x.json"), "--prompt"]
    assert main([*run, str(clip)]) == 0
    trace, model = read(tmp_path / "x.json"), loading.load(folder)
    assert (len(trace.output.video), trace.output.given, trace.prompt) == (
        13,
        9,
        model.prompt_for(clip.read_bytes()),
    )
    frames = model.continued(trace.prompt, [int(str(token)) for token in trace.output.tokens])
    np.testing.assert_array_equal(np.asarray(picture_of(trace.output.video[-1])), frames[-1].numpy())
    assert str(tmp_path) not in dumps(trace).decode(errors="ignore")
    clip.write_bytes(b"nothing")
    for prompt, problem in (
        ("a red boot", "is not a clip"),
        (str(tmp_path / "none.mp4"), "cannot be read (No such file or directory); check the path."),
        (str(clip), "clip: the file is neither a GIF nor an MP4"),
    ):
        assert main([*run, prompt]) == 2 and problem in capsys.readouterr().err
    assert main(["model", "convert", "cosmos", str(files), str(files), str(folder)]) == 3
    assert main(["model", "convert", "rar", str(files), str(tmp_path / "no")]) == 2
    assert "KIND: 'rar' is none; use lumina-mgpt" in capsys.readouterr().err


_Q = "model.language_model.layers.0.self_attn.q_proj.weight"


@pytest.mark.parametrize(
    ("family", "change", "problem"),
    [
        ("janus", weighted(_Q, None), f"tensor '{_Q}' is missing"),
        ("janus", weighted(_Q, torch.zeros(32, 31)), rf"tensor '{_Q}' has shape \[32, 31\], .* asks for \[32, 32\]"),
        ("janus", weighted(_Q, torch.zeros(32, 32, dtype=torch.int8)), "stored as torch.int8; only plain floats"),
        ("janus", weighted("model.extra", torch.zeros(2)), "tensor 'model.extra' is in its weights, and Janus"),
        ("janus", configured(text_config={"num_hidden_layers": 999}), "999 for 'num_hidden_layers', and there are"),
        ("emu3", configured(image_area="large"), "config.json has 'large' for 'image_area'"),
        ("lumina-mgpt", removed("pixels/config.json"), "config.json is missing .* convert lumina-mgpt vqgan.ckpt"),
        ("anole", weighted("quantize.embedding.weight", torch.zeros(25, 4), "pixels/model.safetensors"), "has 25"),
        ("mar", configured(heads=3), "3 for 'heads', which do not divide its 'width' 16"),
        ("xar", configured(cell=4), "cannot draw cells of 4x4; it was trained on 2x2, or 1x1"),
        ("harmon", configured(llm={"model_type": "llama"}), "'llama' for 'model_type'; Harmon is built for 'qwen2'"),
        ("cosmos", configured(insert_cross_attn=True), "True for 'insert_cross_attn'; Cosmos"),
        ("cosmos", configured(video_width=25), "clips of 13 frames of 16x25, which codes of 4x8x8 do not fill"),
    ],
)
def test_an_incomplete_checkpoint_is_refused_by_name(
    home: Path, tmp_path: Path, family: str, change: Change, problem: str
) -> None:
    assert refused(copytree(home / family, tmp_path / family), change, problem).startswith(family)


@pytest.mark.one_quick
@pytest.mark.parametrize(
    ("family", "file", "content", "problem"),
    [
        ("mar", "checkpoint-last.pth", {"model_ema": Evil()}, "cannot be read as tensors alone"),
        ("mar", "checkpoint-last.pth", {"model": {"a": torch.zeros(1)}}, "not those of a MAR: no 'diffusion_pos"),
        ("mar", "kl16.ckpt", {"model": {"a": torch.zeros(1)}}, "not those of an autoencoder"),
        ("xar", "xAR-B.pth", {"model": {"a": "b"}}, "'a', which is not a tensor"),
        ("cosmos", "model.pt", {"layers.0.cross_attention.wq.weight": torch.zeros(1)}, "there are 1 tensors"),
        ("cosmos", "autoencoder.jit", {"a": Evil()}, "holds something other than a module's tensors"),
    ],
)
def test_a_conversion_that_cannot_be_right_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], family: str, file: str, content: object, problem: str
) -> None:
    request = drawing.pickles(family, tmp_path / "files")
    torch.save(content, tmp_path / "files" / file)
    with pytest.raises(ModelError, match=problem):
        conversion.convert(request, tmp_path / "target")
    assert not (tmp_path / "target").exists()
    assert "run" not in capsys.readouterr().out


def test_a_published_mar_tells_its_heads_by_its_width(tmp_path: Path) -> None:
    request = drawing.pickles("mar", tmp_path / "files")
    with pytest.raises(ModelError, match=r"its width is 16, and no published MAR has it; .* by --heads"):
        conversion.convert(conversion.Request("mar", request.source, request.second), tmp_path / "target")
    with torch.device("meta"):
        base = MAR(MARSize())
    assert 205e6 < sum(parameter.numel() for parameter in base.parameters()) < 211e6, "208 M in the paper"
