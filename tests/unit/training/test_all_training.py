"""Training: what it learns from, what networks start from, and that a run goes on where it stopped."""

import json
from argparse import Namespace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.tiny_llama import greedy, llama
from torch import nn

from draftscope.engines.continuous.denoising import path_distributions
from draftscope.engines.continuous.gaussian_bridges import make_bridge
from draftscope.engines.models.bundled.image_networks import (
    SIZE,
    Tokenizer,
    Transformer,
    TransformerSize,
    condition_ids,
)
from draftscope.engines.models.bundled.patch import SIZES, PatchSize, PatchTransformer, condition_vectors
from draftscope.engines.models.bundled.prompts import PROMPTS, SCENES, THINGS, WATERS, Place
from draftscope.engines.models.bundled.video import FRAMES, MOTIONS
from draftscope.engines.models.eagle import Eagle, EagleSize
from draftscope.engines.models.torch_model import hidden_states
from training import patch, scenes, scenes_data, smollm2_answers, smollm2_eagle, video_ar
from training import trainer as loop
from training.image_ar import inputs
from training.image_draft import compare, draw, inherit
from training.image_tokenizer import Training
from training.scenes import GROUNDS
from training.scenes_data import FEET, LOWEST_FLIGHT, STEP, TEST, TRAIN, background, compose
from training.smollm2_answers import PARTS, Writer, prompts, store
from training.smollm2_eagle import Answers, acceptance, train
from training.trainer import Preset, Run, export, load_exported, muon, parse

PRESETS = {"cpu": Preset(steps=4, batch=2, lr=0.1)}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MODELS", tmp_path / "models")
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))


def started(monkeypatch: pytest.MonkeyPatch, *flags: str, steps: int = 4) -> Run:
    """A run with this command line, which has trained for at most `steps` steps."""
    monkeypatch.setattr("sys.argv", ["train", "--preset", "cpu", *flags])
    options, _ = parse("", PRESETS)
    model = nn.Linear(3, 3)
    run = Run("line", model, [torch.optim.SGD(model.parameters(), 0.1)], Preset(steps=steps, batch=2, lr=0.1))
    run.resume(options)
    for _ in run.steps():
        run.update(model(torch.ones(2, 3)).square().mean())
    export(run, "A line", {}, options, "numbers")
    return run


def weight(run: Run) -> torch.Tensor:
    return run.model.get_parameter("weight")


def test_a_finished_run_is_kept_unless_it_is_asked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first = started(monkeypatch)
    again = started(monkeypatch)
    assert again.step == 4 and torch.equal(weight(first), weight(again))
    assert not torch.equal(weight(started(monkeypatch, "--fresh", "--seed", "1")), weight(first))


def test_the_manifest_counts_weights_as_the_model_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(monkeypatch)
    run.model = nn.Module()  # a lean form, whose weights are buffers
    run.model.register_buffer("weight", torch.zeros(3, 3))
    export(run, "", {}, parse("", PRESETS)[0], "numbers")
    assert json.loads((loop.MODELS / "MANIFEST.json").read_text(encoding="utf-8"))["line"]["parameters"] == 12


def test_the_learning_rate_can_fall_linearly_at_the_end() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    run = Run("line", model, [optimizer], Preset(steps=1_000, batch=1, lr=1.0, linear=0.5))
    run.resume(Namespace(fresh=True))
    rates = [optimizer.param_groups[0]["lr"] for _ in run.steps()]
    assert rates[200] == rates[500] == 1 and rates[750] == pytest.approx(0.5) and rates[-1] < 0.01


SIGN = np.array([1.0, 0.0, 1.0, 1.0], np.float32)
"""A magenta that no scene has."""


@pytest.fixture
def squares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Squares in place of emoji, whose font is fetched."""

    def square(text: str, size: int, kind: Place) -> np.ndarray:
        return np.broadcast_to(SIGN, (size, size, 4))

    for module in (scenes_data, video_ar):
        monkeypatch.setattr(module, "sprite", square)
        monkeypatch.setattr(module, "BACKGROUNDS", 2)


@pytest.mark.parametrize(("scene", "ground"), [(scene, ground) for scene in GROUNDS for ground in GROUNDS[scene]])
def test_a_background_follows_from_its_seed(scene: str, ground: str) -> None:
    first, again, other = (scenes.draw(scene, ground, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.shape == (SIZE, SIZE, 3) and (first == again).all() and (first != other).any()
    assert (background(scene, ground, TRAIN, 0) != background(scene, ground, TEST, 0)).any()


@pytest.mark.usefixtures("squares")
def test_things_stand_on_the_ground_fly_above_the_horizon_and_lie_in_the_water() -> None:
    rng = np.random.default_rng(0)
    seen = {kind: set() for kind in ("land", "air", "sea")}
    for _ in range(20):
        for thing, scene in (("dog", "meadow"), ("balloon", "snow"), ("shark", "night")):
            rows, columns = (compose(thing, scene, TEST, rng) == (255, 0, 255)).all(2).nonzero()
            assert columns.min() % STEP == 0 and rows.min() % STEP == 0
            seen[THINGS[thing][1]].add(int(rows.max()) + 1)
    assert seen["land"] == seen["sea"] == set(FEET) and max(seen["air"]) <= LOWEST_FLIGHT


@pytest.mark.usefixtures("squares")
@pytest.mark.parametrize("motion", MOTIONS)
def test_what_moves_in_a_clip_moves_by_whole_patches(motion: str) -> None:
    thing = next(name for name in ("dog", "shark", "bat") if motion in video_ar.CAN[THINGS[name][1]])
    clip = video_ar.compose(thing, "night", motion, TEST, np.random.default_rng(0))
    assert clip.shape == (FRAMES, SIZE, SIZE, 3)
    corners = []
    for frame in clip:
        rows, columns = (frame == (255, 0, 255)).all(2).nonzero()
        corners.append((int(columns.max()), int(rows.max())))  # the left edge may have left the frame
    steps = np.diff(corners, axis=0)
    assert (steps % STEP == 0).all() and abs(steps).max() <= STEP
    assert (steps != 0).any() == (motion != "passed by")
    assert (clip != clip[0]).any()


def test_only_things_of_the_sea_need_one_and_a_prompt_has_the_article_of_its_thing() -> None:
    assert set(GROUNDS) == set(SCENES)
    names = [str(prompt) for prompt in PROMPTS]
    assert [prompt for prompt in names if "shark" in prompt] == [f"a shark {SCENES[name]}" for name in WATERS]
    assert [prompt for prompt in names if "owl" in prompt] == [f"an owl {where}" for where in SCENES.values()]


def test_the_tokenizer_has_a_code_for_every_patch_and_the_transformer_an_id_for_every_condition() -> None:
    model = Tokenizer(codes=32)
    image = torch.rand(2, 3, SIZE, SIZE) * 2 - 1
    codes = model.encode(image)
    assert codes.shape == (2, SIZE // STEP, SIZE // STEP) and model.decode(codes).shape == image.shape
    network = Transformer(TransformerSize(16, 1, 2, 16))
    ids = condition_ids(torch.tensor([[0, 0], [4, 7], [-1, -1]]))
    assert len(ids.flatten().unique()) == 6 and ids.min() == 1024
    assert ids.max() == network.backbone.embed_tokens.num_embeddings - 1
    assert network(ids, torch.arange(2).expand(3, 2)).shape == (3, 2, 1024)


def test_the_codebook_starts_at_clusters_follows_them_and_restarts_codes_out_of_use() -> None:
    torch.manual_seed(0)
    model = Training()
    centres = 10 * torch.randn(len(model.counts), model.sums.shape[1])
    model.start(centres.repeat(2, 1))
    book = model.tokenizer.codebook
    assert len(torch.cdist(book, centres).argmin(1).unique()) > 0.6 * len(book)
    before = book.clone()
    model.follow(book[:1] + 1, torch.tensor([0]))
    assert (book[0] > before[0]).all() and torch.allclose(book[1:], before[1:], atol=1e-5)
    model = Training()
    model.usage += 100
    model.usage[7] = 0
    outputs = torch.stack([model.tokenizer.codebook[0], torch.full((12,), 50.0)])
    model.restart(outputs, torch.tensor([0, 0]))
    assert torch.equal(model.tokenizer.codebook[7], outputs[1])


LABELS = torch.tensor([[3, 1], [-1, -1]])


def tiny(layers: int) -> Transformer:
    torch.manual_seed(layers)
    network = Transformer(TransformerSize(width=32, layers=layers, heads=2, feed_forward=48)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3)  # laws that differ
    return network


def test_sequences_come_with_the_laws_they_were_drawn_from() -> None:
    target = tiny(2)
    codes, logits = draw(target, LABELS, torch.Generator().manual_seed(0))
    again, _ = draw(target, LABELS, torch.Generator().manual_seed(0))
    with torch.inference_mode():
        afresh = target(*inputs(target, codes, LABELS))[:, target.prefix - 1 :]
        divergence, variation, _ = compare(target, codes, LABELS, logits)
    assert torch.equal(codes, again)
    torch.testing.assert_close(logits.float(), afresh, rtol=1e-3, atol=1e-3)  # they are kept in half precision
    assert divergence.abs().max() < 1e-3 and variation.max() < 1e-2
    assert 100 < len(codes.unique()) < 1024


def test_a_drafter_as_deep_as_the_target_starts_out_equal_to_it() -> None:
    target, same, small = tiny(2), tiny(2), tiny(1)
    with torch.no_grad():
        same.head.weight.add_(1)
    inherit(same, target)
    inherit(small, target)
    codes, logits = draw(target, LABELS, torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert compare(same, codes, LABELS, logits)[1].max() < 1e-2
        assert compare(small, codes, LABELS, logits)[1].mean() > 0.05


def test_a_patch_transformer_starts_out_equal_to_the_one_it_is_copied_from() -> None:
    codes, grown = tiny(1), PatchTransformer(PatchSize("", TransformerSize(32, 3, 2, 48), 16, 1)).eval()
    patch.inherit(grown, codes)
    positions = torch.arange(2).expand(2, -1)
    with torch.inference_mode():
        embedded = codes.backbone.embed_tokens(condition_ids(LABELS)) + codes.position(positions)
        wanted = hidden_states(codes.backbone, positions, None, None, inputs_embeds=embedded)
        torch.testing.assert_close(grown(condition_vectors(LABELS), positions), wanted)


def test_the_loss_of_a_mixture_is_the_share_of_its_drafts_that_the_target_rejects() -> None:
    target, mixture = (load_exported(PatchTransformer(SIZES[k]), f"patch-{k}").eval() for k in ("target", "mixture"))
    generator, token, labels = torch.Generator().manual_seed(0), torch.zeros(4, 144, 8), torch.tensor([[1, 2]] * 4)
    with torch.no_grad():
        by_the_targets_paths = patch.loss(mixture, token, labels, generator, target)
        conditions, theirs = (patch.conditions(model, token, labels, generator)[1] for model in (mixture, target))
        drafts = make_bridge(mixture.head(conditions), patch.SAMPLING)
        noise = torch.randn(len(conditions), patch.SAMPLING.steps + 1, 8, generator=generator, dtype=torch.float64)
        pick = torch.rand(2, len(conditions), generator=generator, dtype=torch.float64)
        paths = drafts.sample_path(noise[:, :-1], pick[0])
        states = torch.cat([paths.states, paths.last.draw(noise[:, -1], pick[1])[:, None]], 1)
        judged = path_distributions(target.head.lean()(theirs, patch.SAMPLING.schedule), states, patch.SAMPLING)
        ratio = judged.log_density(states[:, 1:].transpose(0, 1)).sum(0) - drafts.log_density(states)
    assert abs(by_the_targets_paths - (1 - ratio.exp().clamp(max=1).mean())) < 0.05


ASKED = [[5, 9, 12, 5, 9], [7, 3], [40, 41, 42, 43, 44, 45, 46], [1, 2, 3], [9, 9, 9, 30], [60]]
TAPS, LONGEST = (0,), 20


def written(ends: tuple[int, ...], min_tokens: int = 0, seed: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    network = llama.__wrapped__(0)  # the writer takes its layers
    drawn = torch.arange(len(ASKED)) % 2 == 1
    generator = torch.Generator().manual_seed(seed)
    return Writer(network, ends, TAPS).write(ASKED, drawn, LONGEST, min_tokens, generator)


def test_answers_are_the_models_own_with_its_hidden_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2_answers, "packs", lambda kind: False)
    network = llama(0)
    greedy_texts = [greedy(network, prompt, LONGEST) for prompt in ASKED]
    end = greedy_texts[0][8]  # so that texts end at different places
    answers = written((end,))
    for i, ((ids, states), prompt) in enumerate(zip(answers, ASKED, strict=True)):
        answer = ids.tolist()[len(prompt) :]
        assert ids.tolist()[: len(prompt)] == prompt
        assert end not in answer[:-1] and (answer[-1] == end or len(answer) == LONGEST)
        if i % 2 == 0:
            assert answer == greedy_texts[i][: len(answer)]
        with torch.inference_mode():
            hidden = network.model(ids[None], output_hidden_states=True)
        wanted = torch.cat([hidden.hidden_states[1], hidden.last_hidden_state], -1)[0]
        torch.testing.assert_close(states.float(), wanted, rtol=2e-2, atol=2e-2)  # they are kept in bfloat16
    assert len({len(ids) for ids, _ in answers}) > 2
    assert answers[1][0].tolist() != [*ASKED[1], *greedy_texts[1]], "every second one is drawn"
    assert sum(
        ids[-1] == end or len(ids) == len(prompt) + LONGEST
        for (ids, _), prompt in zip(written((end,), 3), ASKED, strict=True)
    ) < len(ASKED)


def test_in_half_precision_hidden_states_are_close(monkeypatch: pytest.MonkeyPatch) -> None:
    network = llama(0)
    for ids, states in written(()):
        with torch.inference_mode():
            wanted = network.model(ids[None]).last_hidden_state[0]
        assert torch.nn.functional.cosine_similarity(states[:, 32:].float(), wanted).min() > 0.99


def test_prompts_differ_and_those_held_out_have_words_of_their_own() -> None:
    learnt, held_out = (list(islice(prompts(split), 3000 if not split else 150)) for split in (False, True))
    assert len({*learnt}) == 3000 and len({*held_out}) == 150 and not {*learnt} & {*held_out}
    assert not any("{" in prompt for prompt in (*learnt, *held_out))
    for kind in ("who", "topic", "task", "goal"):
        words = PARTS["words"][kind]
        assert not any(word in prompt for prompt in learnt for word in words[::10] if len(word) > 12)
        assert not any(word in prompt for prompt in held_out for word in words[1::10] if len(word) > 12)
    wrong = "Correct the spelling of this text and repeat it whole: "
    assert any(
        prompt.startswith(wrong) and not any(line[:20] in prompt for line in PARTS["sentences"]) for prompt in learnt
    )


@pytest.mark.nightly
def test_it_learns_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2_eagle, "FOLDER", tmp_path)
    monkeypatch.setattr(smollm2_eagle, "LIKELIEST", 16)
    with pytest.raises(SystemExit, match=r"no answers to learn from; run: python -m training\.smollm2_answers"):
        Answers.of("held")
    for name, seeds in (("held-0000", (9,)), ("train-0000", (0, 1)), ("train-0001", (2, 3))):
        texts = [text for seed in seeds for text in written((), seed=seed)]
        lengths = [len(prompt) for prompt in ASKED] * len(seeds)
        store(tmp_path / f"{name}.safetensors", texts, lengths, torch.arange(len(texts)) % 2 == 1)
    answers, held_out = Answers.of("train"), Answers.of("held")
    batches = list(answers.batches(100, 0))
    assert sorted(number for batch in batches for number in batch) == list(range(24)) and len(batches) > 5
    ids, states, wanted = answers.batch([0, 1])
    assert ids.shape == states.shape[:2] == wanted.shape and states.shape[2] == 64
    assert wanted.sum(1).tolist() == [LONGEST, LONGEST], "the token after the prompt is learnt, too"

    network: Any = llama(0)
    embedding = network.model.embed_tokens.weight.detach()
    texts = drafter(network)
    frequent = answers.frequent(32, 64)
    assert frequent.tolist() == sorted({*frequent.tolist()}) and len(frequent) == 32
    texts.ids.copy_(frequent)
    before = acceptance(texts.eval(), embedding, answers, range(24))
    run = Run("tiny-eagle", texts, muon(texts, texts, 5e-3), Preset(steps=150, batch=100, lr=5e-3))
    train(run, texts, embedding, held_out, 0)
    after = acceptance(texts, embedding, answers, range(24))
    for name in ("greedy_1", "greedy_2", "drawn_1"):  # a random target can only be learnt by heart
        assert after[f"acceptance_{name}"] > before[f"acceptance_{name}"] + 0.1, (before, after)
    again = drafter(network)
    more = Run("tiny-eagle", again, muon(again, again, 5e-3), Preset(steps=150, batch=100, lr=5e-3))
    more.resume(Namespace(fresh=False))
    assert more.step == 150 and torch.equal(again.ids, texts.ids)
    assert acceptance(again.eval(), embedding, answers, range(24)) == after


def drafter(network: Any) -> Eagle:
    torch.manual_seed(0)
    eagle = Eagle(network.config, EagleSize(TAPS, 24, 32))
    smollm2_eagle.inherit(eagle, network)
    return eagle
