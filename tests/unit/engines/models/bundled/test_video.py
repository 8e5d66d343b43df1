"""User clips, read within bounds or rejected, and the studio video model, which continues them."""

from itertools import cycle
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest
import torch

from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.models.bundled import video
from draftscope.engines.models.bundled.image_networks import CODES, GRID, SIZE
from draftscope.engines.models.bundled.video import FRAMES, GIVEN, GIVEN_FRAMES, LENGTH
from draftscope.engines.models.checkpoints.images.video_model import pack
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.sampling.distributions import Sampling
from draftscope.engines.settings import ConfigError
from draftscope.engines.testing.conformance import finish
from draftscope.traces import dumps, loads
from draftscope.traces.schema import Trace
from draftscope.visualizers.picture import picture_of

PLAIN = Sampling()


@pytest.mark.slow
def test_codes_keep_what_a_clip_shows() -> None:
    model = video.load()
    clips = model.decode(model.held_out.codes[:6])[:, :: FRAMES - 1]  # two frames, of which a GIF keeps both
    again = torch.stack([torch.tensor(model.parse_prompt(model.prompt_for(as_gif(clip.numpy())))) for clip in clips])
    error = ((model.decode(again).float() - clips.float()) / 255).square().mean()
    assert -10 * torch.log10(error) > 20  # what went through codes, a palette of 256 colours, and codes again


def test_equal_frames_are_drawn_alike_and_others_are_not() -> None:
    model, codes = video.load(), video.load().held_out.codes[:2]
    clips = model.decode(torch.cat([codes, codes.flip(1)])[[0, 1, 0]])
    assert clips.shape == (3, FRAMES, SIZE, SIZE, 3)
    assert torch.equal(clips[0], clips[2]) and not torch.equal(clips[0], clips[1])
    drawn = model._tokenizer.decode(codes[1].reshape(FRAMES, 12, 12)).detach().movedim(1, -1)
    assert (127.5 * (drawn + 1) - clips[1]).abs().max() <= 1
    alone = model.decode(codes[1:, GIVEN:])
    assert (alone[0].int() - clips[1, GIVEN_FRAMES:].int()).abs().max() <= 1


@pytest.mark.slow
def test_cached_equals_uncached_at_every_position_and_after_rollbacks() -> None:
    """In passes over one token, over a few and over many, which other code answers."""
    model = video.load()
    codes = model.held_out.codes[2]
    task = model.make_task("clip 3", PLAIN)
    with torch.inference_mode():
        uncached = model.network(codes[None], torch.arange(LENGTH)[None])[0, GIVEN - 1 : LENGTH - 1]
    session, logits = model.open_session([task], guided=False), []
    wanted, done = codes[GIVEN:], 0
    for chunk in cycle((1, 1, 1, 7, 1, 1, 60)):
        last = min(done + chunk, len(wanted)) - 1
        wrong = (wanted[done : last + 1] + 1) % CODES  # drafts that are rejected: their slots are written over
        if done:
            session.logits({0: ProbsRequest(torch.cat([wanted[:done], wrong])[:last], done, done - 1)})
        logits.append(session.logits({0: ProbsRequest(wanted[:last], done, max(done - 1, 0))})[0, 0])
        if (done := last + 1) == len(wanted):
            break
    torch.testing.assert_close(torch.cat(logits), uncached, rtol=0, atol=1e-4)


def run(method: str, prompt: str = "clip 3", **settings: object) -> Trace:
    return finish(RunRequest(method, video.ID, prompt, settings=settings).job())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("scd", {"window": 128, "coupling": "gumbel"}),
        pytest.param("gsd", {"window": 64}, marks=pytest.mark.nightly),
        pytest.param("speculative", {"drafter": "lookup"}, marks=pytest.mark.nightly),
    ],
)
def test_methods_continue_a_clip(method: str, settings: dict[str, object]) -> None:
    trace = run(method, top_p=0.8, **settings)
    assert (trace.canvas.kind, trace.canvas.shape) == ("video", (FRAMES - GIVEN_FRAMES, GRID, GRID))
    assert loads(dumps(trace)) == trace
    assert trace.summary.complete
    if method == "scd":
        assert len(trace.steps) < (LENGTH - GIVEN) / 2
    assert len(trace.legend.frames) == min(len(trace.steps), video.MAX_PICTURES)
    assert picture_of(trace.legend.frames[-1].image).size == ((FRAMES - GIVEN_FRAMES) * SIZE, SIZE)
    model = video.load()
    frames = model.continued("clip 3", [int(str(token)) for token in trace.output.tokens])
    assert frames.shape == (FRAMES, SIZE, SIZE, 3)
    assert frames.dtype == torch.uint8
    shown = np.stack([np.asarray(picture_of(frame)) for frame in trace.output.video])
    np.testing.assert_array_equal(shown, frames.numpy())
    np.testing.assert_array_equal(
        shown[:GIVEN_FRAMES], model.decode(model.held_out.codes[2:3])[0, :GIVEN_FRAMES].numpy()
    )


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("clip 0", "there is no clip 0; say clip 1 to clip 48"),
        ("a red boot", "names no clip"),
        ("clip ٣٣٣", "no clip"),
        ("codes AAAA", "not 288 codes below 1024"),
        (pack([CODES] * GIVEN), "not 288 codes below 1024"),
        (pack([1] * (GIVEN + 1)), "not 288 codes below 1024"),
    ],
)
def test_what_names_no_clip_is_refused(name: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        video.load().parse_prompt(name)


def as_gif(frames: np.ndarray) -> bytes:
    return bytes(iio.imwrite("<bytes>", frames, extension=".gif"))


def test_ones_own_clip_becomes_a_prompt_that_says_it_all() -> None:
    model = video.load()
    prompt = model.prompt_for(as_gif(model.decode(model.held_out.codes[:1])[0, :12].numpy()))
    assert len(prompt) < 1000  # what the app takes
    codes = model.parse_prompt(prompt)
    assert pack(codes) == prompt
    assert model.make_task(prompt, PLAIN).prompt_ids == codes


def test_a_path_is_never_a_prompt(tmp_path: Path) -> None:
    path = tmp_path / "mine.gif"
    path.write_bytes(as_gif(np.zeros((9, 20, 20, 3), np.uint8)))
    with pytest.raises(ConfigError, match="names no clip"):
        video.load().make_task(str(path), PLAIN)
