"""User clips, read within bounds or rejected, and the studio video model, which continues them."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest
import torch
from PIL import Image

from engines.ar.probs_request import ProbsRequest
from engines.models import video_files as video_clips
from engines.models.bundled import video
from engines.models.bundled.image_networks import CODES, GRID, SIZE
from engines.models.bundled.video import FRAMES, GIVEN, GIVEN_FRAMES, LENGTH
from engines.models.checkpoints.images.video_model import pack
from engines.runtime.run_request import RunRequest
from engines.sampling.distributions import Sampling
from engines.settings import ConfigError
from engines.testing.conformance import finish
from traces import dumps, loads
from traces.schema import Trace
from visualizers.picture import picture_of

Film = Callable[..., bytes]


def read_clip(data: bytes) -> torch.Tensor:
    """Return the input of the studio video model for a file."""
    return video_clips.read_clip(data, frames=9, height=48, width=48)


def moving(frames: int, height: int = 40, width: int = 60) -> np.ndarray[Any, Any]:
    """Frames [F, H, W, 3] on which a white bar moves to the right over blue, 4 pixels a frame."""
    clip = np.zeros((frames, height, width, 3), np.uint8)
    clip[..., 2] = 200
    for k in range(frames):
        clip[k, :, 4 * k % width : 4 * k % width + 6] = 255
    return clip


@cache
def gif(frames: int, **size: int) -> bytes:
    return bytes(iio.imwrite("<bytes>", moving(frames, **size), extension=".gif", duration=80, loop=0))


@cache
def mp4(frames: int, fps: int = 12, **size: int) -> bytes:
    how = {"extension": ".mp4", "plugin": "FFMPEG", "fps": fps, "macro_block_size": 1}
    return bytes(iio.imwrite("<bytes>", moving(frames, **size), **how))


@pytest.mark.parametrize(
    ("frames", "height", "width", "box"),
    [(k, 48, 48, (10, 0, 50, 40)) for k in (12, 9)] + [(9, 32, 80, (0, 8, 60, 32)), (9, 48, 24, (20, 0, 40, 40))],
)
@pytest.mark.parametrize("film", [gif, mp4])
def test_the_first_nine_frames_are_read_and_the_middle_of_each(
    film: Film, frames: int, height: int, width: int, box: tuple[int, int, int, int]
) -> None:
    clip = video_clips.read_clip(film(frames), frames=9, height=height, width=width).numpy()
    assert clip.shape == (9, height, width, 3)
    for k, frame in enumerate(moving(9)):
        cut = Image.fromarray(frame).crop(box).resize((width, height), Image.Resampling.BILINEAR)
        assert np.abs(clip[k] - np.asarray(cut, np.float32)).mean() < 12, k


def enormous() -> bytes:
    """A GIF that claims to be 60,000 pixels wide and high."""
    data = bytearray(gif(9))
    data[6:10] = (60_000).to_bytes(2, "little") * 2
    return bytes(data)


BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "neither a GIF nor an MP4"),
    "a playlist": (lambda: b"#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n", "neither a GIF nor an MP4"),
    "a GIF that is cut off": (lambda: gif(12)[:400], "broken|frames; give one"),
    "a GIF of junk": (lambda: b"GIF89a" + bytes(range(256)) * 8, "broken|pixels"),
    "an MP4 of junk": (lambda: b"\0\0\0\x18ftypisom" + bytes(range(256)) * 20, "broken"),
    "a codec that is not known": (lambda: mp4(12).replace(b"avc1", b"zzz9"), "codec"),
    "a short GIF": (lambda: gif(8), "has 8 frames; give one with at least 9"),
    "a picture": (lambda: gif(1), "has 1 frames"),
    "a long MP4": (lambda: mp4(70, fps=1), "lasts 70 s; cut it"),
    "enormous": (enormous, "60000 x 60000 pixels; shrink"),
    "tiny": (lambda: gif(9, height=8, width=8), "8 x 8 pixels; give at least 16"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_no_clip_is_refused_in_one_sentence(kind: str) -> None:
    make, said = BROKEN[kind]
    with pytest.raises(ConfigError, match=said) as caught:
        read_clip(make())
    text = str(caught.value)
    assert text.startswith("clip: ") and text.endswith(".") and "\n" not in text


def test_size_is_checked_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video_clips, "_gif", None)
    with pytest.raises(ConfigError, match=r"20,000,001 bytes; cut it"):
        read_clip(b"GIF89a" + bytes(video_clips.MAX_BYTES - 5))


@pytest.mark.parametrize("make", [lambda: mp4(9), BROKEN["an MP4 of junk"][0], BROKEN["a long MP4"][0]])
def test_nothing_stays_on_disk(make: Callable[[], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with suppress(ConfigError):
        read_clip(data)
    assert list(tmp_path.iterdir()) == []


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
@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_cached_equals_uncached_at_every_position_and_after_rollbacks(chunk: int) -> None:
    model = video.load()
    codes = model.held_out.codes[2]
    task = model.make_task("clip 3", PLAIN)
    with torch.inference_mode():
        whole = model._network(codes[None], torch.arange(LENGTH)[None])[0, GIVEN - 1 : LENGTH - 1]
    session, logits = model.open_session([task], guided=False), []
    wanted = codes[GIVEN:]
    for done in range(0, len(wanted), chunk):
        last = min(done + chunk, len(wanted)) - 1
        wrong = (wanted[done : last + 1] + 1) % CODES  # drafts that are rejected: their slots are written over
        if done:
            session.logits({0: ProbsRequest(torch.cat([wanted[:done], wrong])[:last], done, done - 1)})
        logits.append(session.logits({0: ProbsRequest(wanted[:last], done, max(done - 1, 0))})[0, 0])
    torch.testing.assert_close(torch.cat(logits), whole, rtol=0, atol=1e-4)


def run(method: str, prompt: str = "clip 3", **settings: object) -> Trace:
    return finish(RunRequest(method, video.ID, prompt, settings=settings).job())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"),
    [("scd", {"window": 128, "coupling": "gumbel"}), ("gsd", {"window": 64}), ("speculative", {"drafter": "lookup"})],
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
    whole = model.continued("clip 3", [int(str(token)) for token in trace.output.tokens])
    assert whole.shape == (FRAMES, SIZE, SIZE, 3)
    assert whole.dtype == torch.uint8
    shown = np.stack([np.asarray(picture_of(frame)) for frame in trace.output.video])
    np.testing.assert_array_equal(shown, whole.numpy())
    np.testing.assert_array_equal(
        shown[:GIVEN_FRAMES], model.decode(model.held_out.codes[2:3])[0, :GIVEN_FRAMES].numpy()
    )


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("clip 0", "there is no clip 0; say clip 1 to clip 48"),
        ("a red boot", "names no clip"),
        ("clip ٣٣٣", "no clip"),
        ("codes AAAA", "not 288 codes below 1024"),
        (pack([CODES] * GIVEN), "not 288 codes below 1024"),
        (pack([1] * (GIVEN + 1)), "not 288 codes below 1024"),
    ],
)
def test_what_names_no_clip_is_refused(said: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        video.load().parse_prompt(said)


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
