"""Scene pictures: where things are, and how the tokenizer's codes come about."""

import numpy as np
import pytest
import torch

from engines.models.bundled.networks import SIZE, Tokenizer, Transformer, TransformerSize, condition_ids
from engines.models.bundled.prompts import PROMPTS, SCENES, THINGS, WATERS, Place
from engines.models.bundled.video import MOTIONS
from engines.models.bundled.video_networks import FRAMES
from training import scenes_data, video_data
from training.image_tokenizer import Training
from training.scenes import GROUNDS, draw
from training.scenes_data import FEET, LOWEST_FLIGHT, STEP, TEST, TRAIN, background, compose

SIGN = np.array([1.0, 0.0, 1.0, 1.0], np.float32)
"""A magenta that no scene has."""


@pytest.fixture
def squares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Squares in place of emoji, whose font is fetched."""

    def square(text: str, size: int, kind: Place) -> np.ndarray:
        return np.broadcast_to(SIGN, (size, size, 4))

    for module in (scenes_data, video_data):
        monkeypatch.setattr(module, "sprite", square)
        monkeypatch.setattr(module, "BACKGROUNDS", 2)


@pytest.mark.parametrize(("scene", "ground"), [(scene, ground) for scene in GROUNDS for ground in GROUNDS[scene]])
def test_a_background_follows_from_its_seed(scene: str, ground: str) -> None:
    first, again, other = (draw(scene, ground, np.random.default_rng(seed)) for seed in (1, 1, 2))
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
    thing = next(name for name in ("dog", "shark", "bat") if motion in video_data.CAN[THINGS[name][1]])
    clip = video_data.compose(thing, "night", motion, TEST, np.random.default_rng(0))
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
    said = [str(prompt) for prompt in PROMPTS]
    assert [prompt for prompt in said if "shark" in prompt] == [f"a shark {SCENES[name]}" for name in WATERS]
    assert [prompt for prompt in said if "owl" in prompt] == [f"an owl {where}" for where in SCENES.values()]


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
