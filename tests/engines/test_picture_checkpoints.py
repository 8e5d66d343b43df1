"""Published models that draw, in their own layouts: compared with other implementations, decoded to pixels, refused."""

import base64
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from support import chameleon, compvis, emu3, janus, llamagen, t5
from support.broken import Change, copied, refused, removed, weighted
from torch import Tensor
from transformers import LlamaModel

from engines.__main__ import main
from engines.ar.request import Forward
from engines.config import make_config
from engines.methods import METHODS
from engines.models import catalog
from engines.models.errors import ModelError
from engines.models.hub import chameleon as chameleon_of_the_hub
from engines.models.hub import picture_convert, published
from engines.models.hub.assembling import outlined
from engines.models.hub.llama_text import llama_config
from engines.models.hub.llamagen import LlamaGenSize, size_of
from engines.models.hub.picture_convert import Asked
from engines.models.picture_model import PictureModel
from engines.runtime.driver import Job, Run
from engines.sampling.distributions import GuidedSampling
from traces import dumps, loads, read


@dataclass(frozen=True)
class Case:
    """A family at a small size, and what another implementation makes of it."""

    write: Callable[[Path], Path]
    logits: Callable[[str, bool, Tensor], Tensor]
    """Logits [1 + N, K] of every code of a picture that has N of them, behind a prompt or the unconditional one."""
    pixels: Callable[[Tensor], Tensor]
    prompts: tuple[str, str]
    shape: tuple[int, int]
    codes: int


def _janus(released: bool) -> Case:
    tensors = janus.weights()
    return Case(
        lambda folder: janus.write(folder, released=released),
        lambda text, silent, codes: janus.forward(tensors, janus.prompt_ids(text, silent), codes),
        lambda codes: janus.pixels(tensors, codes),
        ("a red boot", "a blue bag on grass"),
        (janus.SIDE, janus.SIDE),
        janus.CODES,
    )


def _llamagen() -> Case:
    tensors = llamagen.weights()

    def write(folder: Path) -> Path:
        files = llamagen.write(folder.with_name(f"{folder.name}-published"))
        asked = Asked(files / "c2i_B_256.pt", files / "vq_ds16_c2i.pt", llamagen.DECODER.heads, llamagen.SIDE)
        picture_convert.convert("llamagen", asked, folder)
        return folder

    return Case(
        write,
        lambda text, silent, codes: llamagen.forward(tensors, llamagen.CLASSES if silent else int(text), codes),
        llamagen.pixels,
        ("7", "3"),
        (llamagen.SIDE, llamagen.SIDE),
        llamagen.CODES,
    )


def _llamagen_text() -> Case:
    tensors = llamagen.worded()

    def write(folder: Path) -> Path:
        files = llamagen.write(folder.with_name(f"{folder.name}-published"), texts=True)
        heads = llamagen.DECODER.heads
        asked = Asked(files / "t2i_XL_stage1_256.pt", files / "vq_ds16_t2i.pt", heads, llamagen.SIDE)
        picture_convert.convert("llamagen", asked, folder)
        t5.write(folder / "text")
        return folder

    return Case(
        write,
        lambda text, silent, codes: llamagen.forward_text(tensors, text, silent, codes),
        llamagen.pixels,
        ("a red boot", "bag"),
        (llamagen.SIDE, llamagen.SIDE),
        llamagen.CODES,
    )


def _chameleon(kind: str, shared: bool) -> Case:
    tensors = chameleon.weights(shared)

    def write(folder: Path) -> Path:
        chameleon.write(folder, shared, kind)
        asked = Asked(folder / "vqgan.ckpt", None, side=chameleon.SIDE)
        picture_convert.convert(kind, asked, folder / "pixels")
        if kind == "lumina-mgpt-2":
            assert json.loads((folder / "pixels" / "config.json").read_text())["first"] == 155_000
            configured("first", chameleon.FIRST)(folder / "pixels")
        return folder

    return Case(
        write,
        lambda text, silent, codes: chameleon.forward(tensors, kind, chameleon.prompt_ids(kind, text, silent), codes),
        lambda codes: chameleon.pixels(codes, kind),
        ("a red boot", "a bag"),
        (chameleon.SIDE, chameleon.SIDE),
        chameleon.CODES,
    )


def _emu3(older: bool) -> Case:
    return Case(
        lambda folder: emu3.write(folder, older),
        lambda text, silent, codes: emu3.forward(emu3.prompt_ids(text, silent), codes),
        emu3.pixels,
        ("a red boot", "a bag"),
        (emu3.SIDE, emu3.SIDE),
        emu3.CODES,
    )


CASES = {
    "emu3": _emu3(older=False),
    "emu3-older": _emu3(older=True),
    "lumina": _chameleon("lumina-mgpt", shared=True),
    "lumina-2": _chameleon("lumina-mgpt-2", shared=True),
    "anole": _chameleon("anole", shared=False),
    "janus": _janus(released=False),
    "janus-released": _janus(released=True),
    "llamagen": _llamagen(),
    "llamagen-text": _llamagen_text(),
}
"""By the name of the folder."""
EVERY = [
    pytest.param(name, marks=pytest.mark.slow) if name in ("janus-released", "emu3-older", "anole") else name
    for name in CASES
]
RUN = [
    name if name in ("janus", "lumina") else pytest.param(name, marks=pytest.mark.slow)
    for name in CASES
    if name not in ("janus-released", "emu3-older")  # the same networks under other names
]
"""Those that whole pictures are decoded with."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint of every family."""
    place = tmp_path_factory.mktemp("published")
    for name, case in CASES.items():
        case.write(place / name)
    return place


def load(folder: Path, dtype: torch.dtype | None = None) -> PictureModel:
    model = published.load_folder(folder, dtype=dtype)
    assert isinstance(model, PictureModel)
    return model


def drawn(case: Case, seed: int = 2) -> Tensor:
    count = case.shape[0] * case.shape[1]
    return torch.randint(0, case.codes, (count,), generator=torch.Generator().manual_seed(seed))


# ---------------------------------------------------------------- what is computed


@pytest.mark.parametrize("name", EVERY)
def test_logits_are_those_of_another_implementation_with_and_without_the_prompt_and_with_rollback_at_every_position(
    home: Path, name: str
) -> None:
    case, model = CASES[name], load(home / name)
    wanted = drawn(case)
    expected = torch.stack([case.logits(case.prompts[0], silent, wanted) for silent in (False, True)])
    assert expected.std() > 0.5, "too flat to tell"
    assert (expected[0] - expected[1]).abs().max() > 0.1, "the prompt says nothing"
    task = model.pose(case.prompts[0], GuidedSampling())
    assert (task.canvas.shape, task.vocabulary) == (case.shape, case.codes)
    for window in (1, 5):
        session = model.start([task], guided=True)
        for done in range(len(wanted)):
            last = min(done + window, len(wanted))
            wrong = torch.cat([wanted[:done], (wanted[done:last] + 1) % case.codes])  # rejected one by one
            for drafts in (wrong[: last - 1], wanted[: last - 1])[done == 0 :]:
                found = session.logits({0: Forward(drafts, done, max(done - 1, 0))})[0]
                torch.testing.assert_close(found[:, 0].double(), expected[:, done], rtol=0, atol=1e-4)
            torch.testing.assert_close(found.double(), expected[:, done:last], rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", RUN)
def test_lanes_whose_prompts_differ_in_length_do_not_see_each_other(home: Path, name: str) -> None:
    case, model = CASES[name], load(home / name)
    wanted = drawn(case)
    session = model.start([model.pose(text, GuidedSampling()) for text in case.prompts], guided=True)
    for done in range(len(wanted) - 3):
        ahead = {lane: Forward(wanted[: done + 1 + 2 * lane], done + lane, max(done + lane - 1, 0)) for lane in (0, 1)}
        found = session.logits(ahead)
        for lane, text in enumerate(case.prompts):
            request = ahead[lane]
            expected = case.logits(text, True, wanted)[request.done : len(request.tokens) + 1]
            torch.testing.assert_close(found[lane, 1, : request.wanted].double(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", EVERY)
def test_pixels_are_those_of_another_implementation(home: Path, name: str) -> None:
    case, model = CASES[name], load(home / name)
    codes = torch.stack([drawn(case), drawn(case, 7)])
    expected = case.pixels(codes)
    assert expected.std() > 0.2, "too flat to tell"
    with torch.inference_mode():
        torch.testing.assert_close(model.pixels(codes).double(), expected, rtol=0, atol=1e-4)
    shown = ((expected[0].clamp(-1, 1) + 1) * 127.5).permute(1, 2, 0).numpy()
    assert np.abs(picture(model.output(codes[0].tolist()).image or "") - shown).max() <= 0.51


def picture(address: str) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))))


# ---------------------------------------------------------------- decoding


def finished(job: Job) -> Any:
    running = Run(job)
    for _ in running:
        pass
    return running.trace()


@pytest.mark.parametrize("name", RUN)
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("ar", {}),
        ("scd", {"coupling": "none"}),
        ("scd", {"coupling": "maximal"}),
        ("scd", {"coupling": "gumbel"}),
        ("gsd", {"window": 8}),
        ("speculative", {"drafter": "itself"}),
    ],
)
def test_methods_draw_from_the_folder_to_pixels(home: Path, name: str, method: str, settings: dict[str, Any]) -> None:
    case, model, chosen = CASES[name], load(home / name), METHODS[method]
    preset = chosen.preset("Janus-Pro") if method == "scd" else {"top_k": 12, "guidance": 5.0}
    trace = finished(Job(chosen, model, case.prompts[0], make_config(chosen.config, {**preset, **settings})))
    assert loads(dumps(trace)) == trace
    assert trace.summary.complete
    assert (trace.canvas.kind, trace.canvas.shape) == ("image", case.shape)
    if method == "ar":
        assert len(trace.steps) == case.shape[0] * case.shape[1]
    tokens = torch.tensor([[int(str(token)) for token in trace.output.tokens]])
    shown = ((case.pixels(tokens)[0].clamp(-1, 1) + 1) * 127.5).permute(1, 2, 0).numpy()
    assert np.abs(picture(trace.output.image) - shown).max() <= 0.51
    assert picture(trace.legend.frames[-1].image).shape == shown.shape
    assert set(trace.model.weights) >= {"model.safetensors"}


@pytest.mark.parametrize("name", RUN)
def test_greedy_speculation_ends_where_ordinary_decoding_does(home: Path, name: str) -> None:
    case, model = CASES[name], load(home / name)
    ends = []
    for method, settings in (("ar", {}), ("scd", {"window": 6}), ("speculative", {"drafter": "itself"})):
        chosen = METHODS[method]
        config = make_config(chosen.config, {"top_k": 1, "guidance": 3.0, **settings})
        ends.append(finished(Job(chosen, model, case.prompts[0], config)).output.tokens)
    assert ends[0] == ends[1] == ends[2]
    row = torch.tensor([], dtype=torch.long)
    while len(row) < len(ends[0]):  # decoded by the other implementation alone
        cond, uncond = (case.logits(case.prompts[0], silent, row)[-1] for silent in (False, True))
        row = torch.cat([row, (3 * (cond - uncond) + uncond).argmax()[None]])
    assert tuple(row.tolist()) == ends[0]


def test_a_text_is_put_to_its_encoder_in_small_letters_and_has_no_more_tokens_than_there_are_slots(home: Path) -> None:
    model = load(home / "llamagen-text")
    asked, silent = model.prompts("A  red boot")
    assert [i - llamagen.CODES for i in asked] == t5.ids("a red boot")
    assert len(silent) == len(asked) and silent[-1] - silent[0] == len(asked) - 1
    with pytest.raises(ValueError, match=r"has 16 tokens, and llamagen-text has room for 12 beside its picture"):
        model.pose("a red boot shoe", GuidedSampling())
    with pytest.raises(ValueError, match="holds '</s>', which llamagen-text keeps"):
        model.pose("</s>", GuidedSampling())
    assert set(model.card.weights) == {f"{part}model.safetensors" for part in ("", "pixels/", "text/")}
    small = load(home / "llamagen")
    with pytest.raises(ValueError, match="different vocabularies"):
        Run(Job(METHODS["speculative"], model, "a bag", make_config(METHODS["speculative"].config, {}), small=small))


def test_a_second_model_of_the_same_codes_drafts_and_one_of_others_is_refused(home: Path, tmp_path: Path) -> None:
    model, chosen = load(home / "janus"), METHODS["speculative"]
    small = load(janus.write(tmp_path / "small", released=True, seed=9))
    config = make_config(chosen.config, {"drafter": "small", "guidance": 5.0})
    assert finished(Job(chosen, model, "a boot", config, small=small)).summary.complete
    weighted("model.vqmodel.quantize.embedding.weight", torch.ones(24, 4))(copied(home / "janus", tmp_path / "else"))
    with pytest.raises(ValueError, match="different vocabularies"):
        Run(Job(chosen, model, "a boot", config, small=load(tmp_path / "else")))


@pytest.mark.parametrize("from_coarse", [False, True])
def test_a_vqgan_inside_a_checkpoint_is_anoles_however_its_levels_are_counted(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_coarse: bool
) -> None:
    small = replace(chameleon_of_the_hub.KINDS["anole"], side=chameleon.SIDE)
    monkeypatch.setitem(chameleon_of_the_hub.KINDS, "anole", small)
    folder = copied(home / "anole", tmp_path / "whole")
    shutil.rmtree(folder / "pixels")
    tensors = load_file(folder / "model.safetensors")
    for name, part in compvis.weights(chameleon.CODEC).items():
        level = name.startswith("decoder.up.") and from_coarse
        tensors[f"model.vqmodel.{turned(name) if level else name}"] = part
    save_file(tensors, folder / "model.safetensors")
    whole, apart = load(folder), load(home / "anole")
    codes = drawn(CASES["anole"])[None]
    with torch.inference_mode():
        assert whole.pixels(codes).equal(apart.pixels(codes))
    assert (whole.prompts("a bag"), whole.tokens) == (apart.prompts("a bag"), apart.tokens)
    assert (whole.card.title, set(whole.card.weights)) == ("Anole: whole", {"model.safetensors"})


def turned(name: str) -> str:
    """A level counted in the order of computation."""
    level, rest = name.removeprefix("decoder.up.").split(".", 1)
    return f"decoder.up.{len(chameleon.CODEC.times) - 1 - int(level)}.{rest}"


@pytest.mark.parametrize("name", [pytest.param("janus", marks=pytest.mark.slow), "lumina"])
def test_half_precision_decodes_and_is_close(home: Path, name: str) -> None:
    case, model = CASES[name], load(home / name, torch.bfloat16)
    assert model.dtype == torch.bfloat16
    wanted = drawn(case)
    session = model.start([model.pose("a red boot", GuidedSampling())], guided=True)
    near = session.logits({0: Forward(wanted, 0, 0)})[0, :, : len(wanted) + 1].double()
    for row, silent in zip(near, (False, True), strict=True):
        assert (row - case.logits("a red boot", silent, wanted)).abs().mean() < 0.1
    config = make_config(METHODS["scd"].config, {"window": 8, "guidance": 5.0})
    assert finished(Job(METHODS["scd"], model, "a boot", config)).summary.complete


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (" ", "prompt: is empty; say what to draw"),
        ("a <begin_of_image> b", "prompt: holds '<begin_of_image>', which janus keeps for itself; leave it out"),
        ("a " * 60, "prompt: has 147 tokens, and janus has room for 80 beside its picture; shorten it"),
    ],
)
def test_a_prompt_that_cannot_be_read_is_refused(home: Path, said: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        load(home / "janus").pose(said, GuidedSampling())


# ---------------------------------------------------------------- what is refused


def configured(path: str, value: object, inside: str = "") -> Change:
    """A change of config.json, by the path of a field; None takes it away."""

    def change(folder: Path) -> None:
        folder = folder / inside
        whole = json.loads((folder / "config.json").read_text())
        *parents, field = path.split(".")
        part = whole
        for name in parents:
            part = part[name]
        part.pop(field, None)
        part |= {} if value is None else {field: value}
        (folder / "config.json").write_text(json.dumps(whole))

    return change


def rewritten(name: str, text: str) -> Change:
    return lambda folder: (folder / name).write_text(text) and None


def renamed_token(old: str, new: str) -> Change:
    def change(folder: Path) -> None:
        text = (folder / "tokenizer.json").read_text()
        assert f'"{old}"' in text
        (folder / "tokenizer.json").write_text(text.replace(f'"{old}"', f'"{new}"'))

    return change


_Q = "model.language_model.layers.0.self_attn.q_proj.weight"
_BOOK = "model.vqmodel.quantize.embedding.weight"
_TEXT = "text_config"
_VQ_BOOK = "quantize.embedding.weight"


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("janus", removed("model.safetensors"), "model.safetensors is missing .* safetensors alone"),
        ("janus", removed("tokenizer.json"), "tokenizer.json is missing"),
        ("janus", weighted(_Q, None), f"tensor '{_Q}' is missing in its weights"),
        ("janus", weighted(_Q, torch.zeros(32, 31)), rf"tensor '{_Q}' has shape \[32, 31\]"),
        ("janus", weighted(_Q, torch.zeros(32, 32, dtype=torch.int8)), f"tensor '{_Q}' is stored as I8"),
        (
            "janus",
            weighted("model.extra.weight", torch.zeros(2)),
            "'model.extra.weight' is in its weights, and a Janus",
        ),
        ("janus", weighted(_BOOK, None), f"not those of a VQ-16 tokenizer: no '{_BOOK}'"),
        ("janus", configured(_TEXT, None), "config.json has None for 'text_config'; it is an object"),
        ("janus", configured(f"{_TEXT}.hidden_size", 64), "has shape"),
        ("janus", configured(f"{_TEXT}.num_hidden_layers", 3), "tensor 'model.language_model.layers.2.* are missing"),
        ("janus", configured(f"{_TEXT}.num_hidden_layers", "2"), "config.json has '2' for 'num_hidden_layers'"),
        (
            "janus",
            configured(f"{_TEXT}.rope_scaling", {"factor": 2}),
            "for 'rope_scaling'; Janus-Pro is built for None",
        ),
        ("janus", configured(f"{_TEXT}.rope_parameters.rope_type", "yarn"), "config.json has 'yarn' for 'rope_type'"),
        ("janus", configured("vision_config.image_size", 9), "9 for 'image_size', which codes of 2 pixels do not fill"),
        ("janus", configured("vq_config.num_hidden_layers", 3), "config.json has 3 for 'num_hidden_layers'; Janus-Pro"),
        ("janus", configured("model_type", "multi_modality"), "config.json has None for 'language_config'"),
        ("janus-released", configured("model_type", "janus"), "config.json has None for 'text_config'"),
        ("janus-released", configured("model_type", "sdar"), "config.json has no 'vocab_size'"),
        ("janus-released", weighted("gen_embed.weight", None), "tensor 'gen_embed.weight' is missing"),
        ("janus-released", configured("gen_vision_config.cls", "VQ-8"), "config.json has 'VQ-8' for 'cls'"),
        (
            "lumina",
            removed("pixels/config.json"),
            "lumina/pixels: config.json is missing .* convert-picture lumina-mgpt",
        ),
        (
            "lumina",
            rewritten("pixels/config.json", '{"kind": "chameleon"}'),
            "'chameleon' for 'kind'; it is one of lumin",
        ),
        (
            "lumina",
            rewritten("pixels/config.json", '{"kind": "lumina-mgpt", "side": 5}'),
            "of 5 codes a side are no whole",
        ),
        ("lumina", rewritten("pixels/config.json", '{"kind": "lumina-mgpt", "side": 8}'), "has no <reserved08804>"),
        ("lumina", weighted("model.layers.1.self_attn.q_norm.bias", torch.zeros(3, 8)), r"has shape \[3, 8\]"),
        (
            "lumina",
            weighted("model.layers.1.self_attn.q_norm.bias", None),
            "'model.layers.1.self_attn.q_norm.bias' is mis",
        ),
        ("lumina", weighted("lm_head.weight", torch.zeros(9, 32)), r"'lm_head.weight' has shape \[9, 32\]"),
        ("lumina", configured("vocab_size", 90), "has shape"),
        ("lumina", configured("swin_norm", "no"), "config.json has 'no' for 'swin_norm'"),
        (
            "lumina",
            weighted(_VQ_BOOK, torch.zeros(25, 4), "pixels/model.safetensors"),
            "names 24 codes, and its VQGAN has 25",
        ),
        (
            "lumina",
            weighted("decoder.norm_out.bias", None, "pixels/model.safetensors"),
            "'decoder.norm_out.bias' is missing",
        ),
        ("lumina-2", removed("tokenizer_config.json"), "tokenizer_config.json is missing"),
        ("lumina-2", rewritten("tokenizer_config.json", "{}"), "has neither 'bos_token' nor 'eos_token'"),
        (
            "lumina-2",
            weighted("decoder.up.1.attn.0.norm.conv_b.bias", None, "pixels/model.safetensors"),
            "tensor 'decoder.up.1.attn.0.norm.conv_b.bias' is missing",
        ),
        ("anole", renamed_token("<racm3:break>", "<racm3:broken>"), "its tokenizer has no <racm3:break>"),
        ("anole", renamed_token("IMGIMGAZ", "IMGIMGQZ"), "names 23 codes, and its VQGAN has 24"),
        (
            "emu3",
            weighted("model.vqmodel.decoder.conv_out.bias", None),
            "'model.vqmodel.decoder.conv_out.bias' is missing",
        ),
        ("emu3", weighted("lm_head.weight", torch.zeros(9, 32)), r"'lm_head.weight' has shape \[9, 32\]"),
        (
            "emu3",
            weighted("model.text_model.embed_tokens.weight", None),
            "'model.text_model.embed_tokens.weight' is mis",
        ),
        ("emu3", configured("vq_config.channel_multiplier", 2), "2 for 'channel_multiplier'; it is a list of whole"),
        ("emu3", configured("vq_config.hidden_size", 32), "which do not end at its 'hidden_size' 32"),
        ("emu3", configured("vq_config.codebook_size", 21), "has shape"),
        ("emu3", configured("image_area", "large"), "config.json has 'large' for 'image_area'"),
        ("emu3", renamed_token("<|visual token 000019|>", "<|x|>"), r"its tokenizer has no <\|visual token 000019"),
        ("emu3-older", weighted("text_model.lm_head.weight", None), "tensor 'text_model.lm_head.weight' is missing"),
        ("emu3-older", configured("text_config.rope_theta", -1), "config.json has -1 for 'rope_theta'"),
        (
            "llamagen-text",
            configured("feed_forward_proj", "relu", "text"),
            "'relu' for 'feed_forward_proj'; T5 is built",
        ),
        ("llamagen-text", configured("features", 17), "has shape"),
        ("llamagen-text", configured("d_model", 18, "text"), "has shape"),
        (
            "llamagen-text",
            weighted("shared.weight", None, "text/model.safetensors"),
            "tensor 'shared.weight' is missing",
        ),
        (
            "llamagen-text",
            lambda folder: shutil.rmtree(folder / "text"),
            "Fetch it with: hf download google/flan-t5-xl",
        ),
        ("llamagen", removed("pixels/model.safetensors"), "llamagen/pixels: model.safetensors is missing"),
        ("llamagen", configured("heads", 3), "3 heads and 2 groups for 2 layers of 32, which is no network"),
        ("llamagen", configured("side", None), "config.json has no 'side'"),
        ("llamagen", configured("codes", 23), "config.json has 23 for 'codes', and its tokenizer 24"),
        ("llamagen", configured("layers", 3), "'layers.2.attention.wo.weight' and 6 more are missing"),
        ("llamagen", weighted("layers.1.attention.wqkv.weight", torch.zeros(96, 31)), r"has shape \[96, 31\]"),
        ("llamagen", weighted("cls_embedding.cap_proj.fc1.weight", torch.zeros(1)), "and a LlamaGen has no place for"),
        (
            "llamagen",
            weighted("decoder.conv_blocks.0.res.0.conv1.bias", None, "pixels/model.safetensors"),
            "tensor 'decoder.conv_blocks.0.res.0.conv1.bias' is missing",
        ),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_refused_by_name(
    home: Path, tmp_path: Path, name: str, change: Change, said: str
) -> None:
    problem = refused(copied(home / name, tmp_path / name), change, said)
    assert problem.startswith((f"{name}: ", f"{name}/pixels: ", f"{name}/text: ", "google/flan-t5-xl: "))


def test_the_command_line_draws(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    asked = ["run", "scd", "--model", str(home / "janus"), "--preset", "Janus-Pro", "--prompt", "a boot"]
    assert main([*asked, "-o", str(out)]) == 0
    trace = read(out)
    assert (trace.model.id, trace.model.title, trace.prompt) == ("janus", "Janus-Pro: janus", "a boot")
    assert {"config.json", "tokenizer.json"} <= set(trace.model.files)
    assert catalog.open_model(str(home / "janus")).card.id == "janus"


# ---------------------------------------------------------------- conversions


def saved(file: str, holds: object) -> Change:
    return lambda folder: torch.save(holds, folder / file)


def emptied(file: str) -> Change:
    """A file of torch's whose pickle takes from an empty stack."""

    def change(folder: Path) -> None:
        with zipfile.ZipFile(folder / file) as read:
            parts = {name: read.read(name) for name in read.namelist()}
        with zipfile.ZipFile(folder / file, "w") as written:
            for name, data in parts.items():
                written.writestr(name, b"\x80\x02." if name.endswith("data.pkl") else data)

    return change


@pytest.mark.parametrize(
    ("change", "side", "said"),
    [
        (emptied("c2i_B_256.pt"), 4, r"c2i_B_256.pt cannot be read as tensors alone \(pop from empty list\)"),
        (removed("vq_ds16_c2i.pt"), 4, "vq_ds16_c2i.pt is missing"),
        (saved("vq_ds16_c2i.pt", {"ema": {"a": torch.zeros(1)}}), 4, "not those of a VQ-16 tokenizer: no 'quantize"),
        (saved("c2i_B_256.pt", {"model": {"a": torch.zeros(1)}}), 4, "not those of a LlamaGen: no 'tok_emb"),
        (lambda folder: (folder / "c2i_B_256.pt").write_bytes(b"no"), 4, "cannot be read as tensors alone"),
    ],
)
def test_a_conversion_that_cannot_be_right_writes_nothing(tmp_path: Path, change: Change, side: int, said: str) -> None:
    files = llamagen.write(tmp_path / "x")
    change(files)
    with pytest.raises(ModelError, match=said):
        asked = Asked(files / "c2i_B_256.pt", files / "vq_ds16_c2i.pt", 2, side)
        picture_convert.convert("llamagen", asked, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_sizes_of_llamagen_are_told_by_width_and_name() -> None:
    for name, width, layers, millions in (("c2i_B_256.pt", 768, 12, 111), ("c2i_3B_384.pt", 3200, 24, 3097)):
        inner = -(-int(2 * 4 * width / 3) // 256) * 256
        heads = 12 if width == 768 else 32
        wanted = LlamaGenSize(16 if "256" in name else 24, 16384, 1000, width, inner, layers, heads, heads)
        found = size_of(published.Source(name, Path(), ""), wanted.shapes, None, None)
        assert found == wanted
        assert round(sum(int(np.prod(shape)) for shape in wanted.shapes.values()) / 1e6) == millions
    with pytest.raises(ModelError, match=r"its name says neither 256 nor 384 nor 512 pixels; .* by --side"):
        size_of(published.Source("mine.pt", Path(), ""), wanted.shapes, None, None)


@pytest.mark.parametrize(
    ("said", "billions"),
    [
        ({"max_position_embeddings": 16384, "num_hidden_layers": 30, "vocab_size": 102400, "use_cache": False}, 6.5),
        (
            {
                "hidden_size": 2048,
                "intermediate_size": 5632,
                "max_position_embeddings": 16384,
                "num_attention_heads": 16,
                "num_hidden_layers": 24,
                "num_key_value_heads": 16,
                "rope_scaling": None,
                "vocab_size": 102400,
            },
            1.4,
        ),
    ],
)
def test_the_published_configs_of_janus_are_understood(said: dict[str, Any], billions: float) -> None:
    text = llama_config(published.Source("x", Path(), ""), {k: v for k, v in said.items() if v is not None}, "Janus")
    size = sum(part.numel() for part in outlined(lambda: LlamaModel(text)).parameters())
    assert round(size / 1e9, 1) == billions  # layers and embedding, counted by hand
    assert (text.head_dim, text.rms_norm_eps, text.rope_parameters["rope_theta"]) == (128, 1e-6, 10_000)


@pytest.mark.parametrize("shards", [1, 2])
def test_the_pickles_of_janus_become_the_same_model(home: Path, tmp_path: Path, shards: int) -> None:
    folder = copied(home / "janus-released", tmp_path / "janus-pro")
    (folder / "model.safetensors").unlink()
    tensors, names = janus.weights(), sorted(janus.weights())
    if shards == 1:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        where = {name: f"pytorch_model-0000{1 + i % 2}-of-00002.bin" for i, name in enumerate(names)}
        for file in set(where.values()):
            torch.save({name: tensors[name] for name in names if where[name] == file}, folder / file)
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": where}))
    with pytest.raises(ModelError, match=r"model.safetensors is missing"):
        published.load_folder(folder)
    assert main(["convert-picture", "janus", str(folder), str(tmp_path / "x")]) == 0
    row = torch.arange(6)[None]
    one, two = (load(place).logits(row, row) for place in (tmp_path / "x", home / "janus-released"))
    assert one.equal(two)
    (folder / ("pytorch_model.bin" if shards == 1 else "pytorch_model-00002-of-00002.bin")).unlink()
    with pytest.raises(ModelError, match=r"pytorch_model.* is missing"):
        picture_convert.convert("janus", Asked(folder, None), tmp_path / "y")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("deepseek-community/Janus-Pro-7B", ("hf download deepseek-community/Janus-Pro-7B", "DeepSeek Model License")),
        (
            "lumina-mgpt-7b-768",
            ("hf download Alpha-VLLM/Lumina-mGPT-7B-768", "convert-picture lumina-mgpt", "Chameleon"),
        ),
        ("BAAI/Emu3-Gen-hf", ("hf download BAAI/Emu3-Gen-hf", "Apache-2.0")),
        ("llamagen-c2i-b", ("github.com/FoundationVision/LlamaGen", "convert-picture llamagen", "MIT")),
    ],
)
def test_it_is_listed_with_its_state_and_licence(
    name: str, said: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert name not in catalog.models_for("discrete-ar")
    assert main(["list"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(name))
    assert all(part in line for part in (*said, "no published weights were tried"))
    with pytest.raises(ModelError, match=f"^{name}: "):
        catalog.load_model(name)
