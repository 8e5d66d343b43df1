"""Moving pictures show what the replay says, last as long as they should, and fail without a trace of themselves."""

import base64
import io
import math
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from imageio_ffmpeg import get_ffmpeg_exe
from PIL import Image
from support.film import EACH, film, plain_film
from support.handmade import ALL
from support.synthetic import TILE, Size, jacobi, ordinary, written

from traces import read, states
from traces.check import check
from traces.replay import PENDING, State
from traces.schema import Canvas, Output, Trace
from visualizers.moving import (
    CodecMissing,
    Look,
    MovingError,
    Stage,
    fitting,
    moments,
    write_clip,
    write_moving,
)
from visualizers.moving.clip import playable
from visualizers.moving.command import in_flags
from visualizers.moving.lane import TITLE
from visualizers.moving.lettering import Letters
from visualizers.moving.lettering import written as in_letters
from visualizers.moving.text import TextCanvas, told
from visualizers.palette import DARK, GREEN, LIGHT

RECORDED = Path(__file__).parents[2] / "assets" / "traces"
SMALL = Look(width=360)


@cache
def recorded(name: str) -> Trace:
    return read(RECORDED / f"{name}.json.gz")


def rgb(color: str) -> tuple[int, ...]:
    return tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))


def patches(stage: Stage, lane: int, image: Image.Image) -> list[Image.Image]:
    """The part of a frame in which each position is drawn."""
    left, top = stage.corners()[lane]
    top += round(TITLE * stage.size[0] / 720)
    canvas = stage.lanes[lane].canvas
    count = told(stage.lanes[lane].trace)
    boxes = [canvas.box(position) for position in range(count)]
    return [image.crop((box[0] + left, box[1] + top, box[2] + left, box[3] + top)) for box in boxes]


def middle(patch: Image.Image) -> tuple[int, ...]:
    color = patch.getpixel((patch.width // 2, patch.height // 2))
    assert isinstance(color, tuple)
    return color


def tile_color(trace: Trace, token: int) -> tuple[int, ...]:
    tiles = trace.legend.tiles
    assert tiles is not None
    atlas = Image.open(io.BytesIO(base64.b64decode(tiles.png.split(",")[1]))).convert("RGB")
    row, column = divmod(token, tiles.columns)
    color = atlas.getpixel((column * tiles.size + tiles.size // 2, row * tiles.size + tiles.size // 2))
    assert isinstance(color, tuple)
    return color


def drawn(traces: Sequence[Trace], look: Look) -> tuple[Stage, list[Image.Image]]:
    stage = Stage(traces, look)
    return stage, list(stage.frames(moments(traces, look)))


def check_cells(trace: Trace, state: State, cells: Sequence[Image.Image], panel: tuple[int, ...]) -> None:
    """Final tokens are their tiles, open positions bare, and drafts are neither."""
    for position, patch in enumerate(cells):
        token = state.tokens[position]
        if token is None:
            assert middle(patch) == panel
        elif state.fates[position] in PENDING:
            colors = patch.getcolors()
            assert colors is not None and len(colors) >= 2  # The veiled tile and the lines over it.
            assert tile_color(trace, token) not in {color for _, color in colors}  # type: ignore[arg-type]
        else:
            assert middle(patch) == tile_color(trace, token)  # type: ignore[arg-type]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("trace", [jacobi(Size(5, 7, 6)), film(2, 5)], ids=["picture", "video"])
def test_every_cell_of_every_frame_is_what_the_replay_says(trace: Trace, theme: str) -> None:
    trace = replace(trace, output=replace(trace.output, image=None))
    look = Look(width=480, theme=theme)  # type: ignore[arg-type]
    stage, frames = drawn([trace], look)
    panel = rgb((LIGHT if theme == "light" else DARK).panel)
    assert len(frames) >= len(trace.steps) + 1
    for state, frame in zip(states(trace), frames, strict=False):
        check_cells(trace, state, patches(stage, 0, frame), panel)


def test_a_recorded_picture_lies_under_what_is_open_and_what_is_drafted() -> None:
    trace = recorded("scd-boot")
    look = Look(width=720)
    stage, frames = drawn([trace], look)
    for step in (0, 7, 20):
        state = list(states(trace))[step]
        pictures = {frame.step: frame.image for frame in trace.legend.frames}
        for position, patch in enumerate(patches(stage, 0, frames[step])):
            if state.tokens[position] is None:
                assert middle(patch) == rgb(LIGHT.panel)
            elif state.final[position]:
                picture = Image.open(io.BytesIO(base64.b64decode(pictures[step].split(",")[1]))).convert("RGB")
                row, column = divmod(position, 12)
                side = picture.width // 12
                assert middle(patch) == picture.getpixel((side * column + side // 2, side * row + side // 2))
    last = Image.open(io.BytesIO(base64.b64decode(str(trace.output.image).split(",")[1]))).convert("RGB")
    shown = [middle(patch) for patch in patches(stage, 0, frames[-1])]
    side = last.width // 12
    assert shown == [last.getpixel((side * (p % 12) + side // 2, side * (p // 12) + side // 2)) for p in range(144)]


def test_latent_frames_of_a_recorded_video_lie_where_their_positions_are() -> None:
    sheet = Image.new("RGB", (8, 4), "#112233")
    sheet.paste("#445566", (4, 0, 8, 4))
    data = io.BytesIO()
    sheet.save(data, "PNG")
    image = "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()
    trace = ALL["video"]()
    trace = replace(
        trace, legend=replace(trace.legend, frames=tuple(replace(f, image=image) for f in trace.legend.frames))
    )
    stage, frames = drawn([trace], SMALL)
    left = {p for p in range(8) if middle(patches(stage, 0, frames[2])[p]) == rgb("#112233")}
    assert left == {p for p in range(8) if trace.canvas.order is not None and trace.canvas.order[p] < 4}
    assert {middle(patches(stage, 0, frames[1])[p]) for p in range(4, 8)} == {rgb(LIGHT.panel)}


def test_words_stand_where_they_will_stand_at_the_end() -> None:
    trace = recorded("text-s2d2")
    stage, frames = drawn([trace], Look(width=720))
    for state, frame in zip(states(trace), frames, strict=True):
        for position, patch in enumerate(patches(stage, 0, frame)):
            inside = patch.crop((2, 2, patch.width - 2, patch.height - 2))
            bare = inside.getcolors() == [(inside.width * inside.height, rgb(LIGHT.panel))]
            assert bare == (state.tokens[position] is None), (state.step, position)


def test_a_rejected_draft_and_a_dropped_one_leave_an_open_place() -> None:
    trace = written(("The", " draft", " holds"))
    canvas = Stage([trace], SMALL).lanes[0].canvas
    assert isinstance(canvas, TextCanvas)
    end = list(states(trace))[-1]
    assert end.tokens[2] is None
    before = canvas.paint(list(states(trace))[1]).crop(canvas.box(2))
    after = canvas.paint(end).crop(canvas.box(2))
    assert np.any(np.asarray(before) != np.asarray(after))


def test_lanes_of_different_length_wait_for_one_another() -> None:
    slow, fast = ordinary(Size(6, 6)), jacobi(Size(6, 6, 12))
    assert len(fast.steps) < len(slow.steps)
    shown = moments([slow, fast], SMALL)
    assert [moment.counts for moment in shown] == [(n, min(n, len(fast.steps))) for n in range(len(slow.steps) + 1)]
    stage, frames = drawn([slow, fast], SMALL)
    for count, frame in enumerate(frames):
        for lane, trace in enumerate((slow, fast)):
            left, top = stage.corners()[lane]
            part = frame.crop((left, top, left + stage.lanes[lane].canvas.width, top + stage.lanes[lane].height))
            below = part.crop((0, part.height - 60, part.width, part.height))
            green = any(color == rgb(GREEN) for _, color in below.getcolors(2**20) or ())
            assert green == (count >= len(trace.steps)), (count, lane)
    box = (stage.corners()[1][0], stage.corners()[1][1], frames[0].width, stage.corners()[1][1] + stage.lanes[1].height)
    halted = [np.asarray(frame.crop(box)) for frame in frames[len(fast.steps) :]]
    assert all(np.array_equal(one, other) for one, other in pairwise(halted))


def test_on_the_clock_of_milliseconds_every_pass_ends_when_it_did() -> None:
    traces = [ordinary(Size(3, 4)), jacobi(Size(3, 4, 4))]
    look = Look(width=360, clock="milliseconds", slow=8, fps=25)
    shown = moments(traces, look)
    for number, moment in enumerate(shown[:-1]):
        now = number * 1000 / (look.fps * look.slow)
        for trace, count in zip(traces, moment.counts, strict=True):
            ends = [sum(step.call.milliseconds.total for step in trace.steps[:k]) for k in range(len(trace.steps) + 1)]
            assert count == sum(end <= now + 1e-6 for end in ends) - 1
    longest = max(sum(step.call.milliseconds.total for step in trace.steps) for trace in traces)
    assert len(shown) == 1 + math.ceil(longest * look.fps * look.slow / 1000 - 1e-6)
    assert shown[-1].counts == tuple(len(trace.steps) for trace in traces)


@pytest.mark.parametrize("every", [2, 5])
def test_passes_may_be_left_out_but_never_the_last(every: int) -> None:
    trace = ordinary(Size(3, 4))
    shown = moments([trace], replace(SMALL, every=every))
    assert [moment.counts[0] for moment in shown] == [*range(0, 12, every), 12]


@pytest.mark.parametrize("ending", ["gif", "webp"])
def test_a_file_has_every_frame_for_its_time(tmp_path: Path, ending: str) -> None:
    trace = jacobi(Size(4, 4, 6))
    target = tmp_path / f"run.{ending}"
    told_of: list[tuple[int, int]] = []
    look = Look(width=300, fps=12, hold=1.5)
    write_moving([trace], target, look, report=lambda *progress: told_of.append(progress))
    count = len(trace.steps) + 1
    assert told_of == [(number, count) for number in range(1, count + 1)]
    with Image.open(target) as image:
        assert image.n_frames == count
        assert image.info["loop"] == 0
        times = []
        for number in range(count):
            image.seek(number)
            image.load()
            times.append(image.info["duration"])
    assert set(times[:-1]) <= {80, 90}
    assert sum(times[:-1]) == pytest.approx((count - 1) * 1000 / 12, abs=10)
    assert times[-1] == pytest.approx(1500, abs=10)


def decoded(path: Path, size: tuple[int, int]) -> list[Image.Image]:
    """The frames of a file, by Pillow or by the ffmpeg that imageio calls."""
    if path.suffix != ".mp4":
        return [Image.fromarray(frame[..., :3]) for frame in imageio.imiter(path, plugin="pillow")]
    command = [get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    said = done.stderr.decode()
    assert "h264" in said
    assert f"{size[0]}x{size[1]}" in said
    assert " 10 fps" in said
    length = 3 * size[0] * size[1]
    return [Image.frombytes("RGB", size, done.stdout[at : at + length]) for at in range(0, len(done.stdout), length)]


@pytest.mark.parametrize("ending", ["gif", "webp", "mp4"])
def test_what_is_read_back_is_what_was_drawn(tmp_path: Path, ending: str) -> None:
    traces = [ordinary(Size(4, 4)), jacobi(Size(4, 4, 6))]
    look = Look(width=480, fps=10, hold=0.5)
    target = tmp_path / f"race.{ending}"
    write_moving(traces, target, look)
    stage, frames = drawn(traces, look)
    found = list(decoded(target, stage.size))
    assert len(found) == len(frames) + (4 if ending == "mp4" else 0)
    for frame, shown in zip(frames, found, strict=False):
        assert shown.size == stage.size
        for lane in (0, 1):
            wanted = [middle(patch) for patch in patches(stage, lane, frame)]
            there = [middle(patch) for patch in patches(stage, lane, shown)]
            far = [np.abs(np.subtract(one, other)).max() for one, other in zip(wanted, there, strict=True)]
            assert np.mean(far) < 14
            assert max(far) < 60


@pytest.mark.slow
def test_every_shipped_kind_is_drawn() -> None:
    """One recording of every method on every kind of canvas."""
    drawn = set()
    for path in sorted(RECORDED.glob("*.json.gz")):
        trace = read(path)
        if (trace.method, trace.canvas.kind) in drawn:
            continue
        drawn.add((trace.method, trace.canvas.kind))
        stage = Stage([trace], Look(width=400, clock="milliseconds", slow=1))
        shown = moments([trace], replace(SMALL, every=max(1, len(trace.steps) // 4)))
        frames = [np.asarray(frame) for frame in stage.frames(shown)]
        assert all(np.any(one != other) for one, other in pairwise(frames)), path.name
    assert {kind for _, kind in drawn} == {"image", "video", "text"}


def test_six_lanes_stand_in_two_rows_and_seven_are_too_many() -> None:
    traces = [jacobi(Size(4, 4, 6, seed=seed)) for seed in range(7)]
    corners = Stage(traces[:6], SMALL).corners()
    assert len({top for _, top in corners}) == 2
    assert len({left for left, _ in corners}) == 3
    with pytest.raises(MovingError, match="7 traces: give 1 to 6"):
        moments(traces, SMALL)
    with pytest.raises(MovingError, match="0 traces"):
        moments([], SMALL)


@pytest.mark.parametrize(
    ("look", "said"),
    [
        ({"fps": 90}, "fps 90: choose a number from 1 to 50"),
        ({"width": 10}, "width 10: choose"),
        ({"width": 10**9}, "width 1e\\+09: choose"),
        ({"every": 0}, "every 0: choose"),
        ({"slow": 0.0}, "slow 0: choose"),
        ({"hold": -1}, "hold -1: choose"),
        ({"fps": math.nan}, "fps nan"),
    ],
)
def test_a_look_out_of_range_is_named(look: dict[str, float], said: str) -> None:
    with pytest.raises(MovingError, match=said):
        Look(**look)  # type: ignore[arg-type]


def test_what_is_too_long_says_how_to_make_it_shorter() -> None:
    trace = ordinary(Size(30, 30))
    with pytest.raises(MovingError, match=r"901 frames are more than 600: leave passes out with every 2"):
        moments([trace], Look(fps=20))
    assert len(moments([trace], Look(every=2, fps=20))) == 451
    with pytest.raises(MovingError, match=r"\d+ seconds are more than 120: leave passes out with every 3"):
        moments([trace], Look(every=2, fps=3))
    slow = Look(clock="milliseconds", slow=100)
    with pytest.raises(MovingError, match="frames are more than 600: show it faster with slow") as caught:
        moments([trace], slow)
    assert moments([trace], replace(slow, slow=float(str(caught.value).split()[-1])))
    timeless = replace(
        trace,
        steps=tuple(replace(s, call=replace(s.call, milliseconds=type(s.call.milliseconds)())) for s in trace.steps),
    )
    with pytest.raises(MovingError, match="no pass of these runs was timed: choose clock passes"):
        moments([timeless], slow)
    fits = fitting([trace], Look(fps=20))
    assert fits.every == 2
    assert moments([trace], fits)


def test_a_canvas_that_has_no_room_is_refused() -> None:
    flat = replace(ALL["scd"](), canvas=Canvas(kind="image", shape=(1, 60_000)))
    with pytest.raises(
        MovingError, match=r"a canvas of 1 x 60000 tokens does not fit: choose a larger width$"
    ) as caught:
        Stage([flat], SMALL)
    assert in_flags(caught.value).endswith("does not fit: choose a larger --size")
    many = Output(tokens=(5,) * 60_000)
    ordinary_text = ALL["ar"]()
    endless = replace(ordinary_text, output=many, canvas=Canvas(kind="text", shape=(60_000,)))
    endless = replace(endless, summary=replace(endless.summary, complete=False))
    started = time.monotonic()
    with pytest.raises(MovingError, match=r"a text of 60000 tokens does not fit: choose a smaller width$"):
        Stage([endless], SMALL)
    assert time.monotonic() - started < 5


def test_too_many_positions_in_all_frames_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = jacobi(Size(4, 4, 6))
    monkeypatch.setattr("visualizers.moving.MOST_CELLS", 100)
    with pytest.raises(MovingError, match="positions in all frames are more than 100: leave passes out with every"):
        write_moving([trace], tmp_path / "run.gif", SMALL)
    write_moving([trace], tmp_path / "run.gif", fitting([trace], SMALL))


def test_too_many_pixels_are_refused_before_anything_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visualizers.moving.MOST_PIXELS", 100_000)
    with pytest.raises(MovingError, match="pixels in all: choose a smaller width"):
        write_moving([jacobi(Size(4, 4, 6))], tmp_path / "run.gif", SMALL)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_got_too_large_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visualizers.moving.files.MOST_BYTES", 1000)
    target = tmp_path / "run.gif"
    target.write_bytes(b"before")
    with pytest.raises(MovingError, match="choose a smaller width"):
        write_moving([jacobi(Size(4, 4, 6))], target, SMALL)
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("ending", ["gif", "webp", "mp4"])
def test_a_file_that_is_there_stays_when_drawing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    target = tmp_path / f"run.{ending}"
    target.write_bytes(b"before")

    def stop(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_moving([jacobi(Size(4, 4, 6))], target, SMALL, report=stop)
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]
    write_moving([jacobi(Size(4, 4, 6))], target, SMALL)
    assert target.stat().st_size > 1000
    assert target.stat().st_mode & 0o777 == 0o644


def test_a_path_that_does_not_exist_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_moving([jacobi(Size(4, 4, 6))], tmp_path / "no" / "run.gif", SMALL)
    with pytest.raises(MovingError, match=r"run\.avi: choose a file that ends in \.gif, \.mp4, \.webp"):
        write_moving([jacobi(Size(4, 4, 6))], tmp_path / "run.avi", SMALL)


@pytest.mark.parametrize("exe", ["/nonexistent/ffmpeg", "/bin/false", "/bin/true"])
def test_a_missing_or_broken_ffmpeg_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exe: str
) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", exe)
    with pytest.raises(CodecMissing, match="ffmpeg") as caught:
        write_moving([jacobi(Size(4, 4, 6))], tmp_path / "run.mp4", SMALL)
    assert "\n" not in str(caught.value)
    assert "IMAGEIO_FFMPEG_EXE" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    trace = recorded("scd-boot")
    broken = str(trace.output.image)[:200]
    bad = replace(trace, output=replace(trace.output, image=broken + "=" * (-(len(broken.split(",")[1])) % 4)))
    with pytest.raises(MovingError, match="a picture in the trace is damaged"):
        write_moving([bad], tmp_path / "run.gif", Look(width=360, every=10))
    assert list(tmp_path.iterdir()) == []


def test_a_stranger_s_text_is_only_letters() -> None:
    assert in_letters("naïve × 3 → 中") == "naive x 3 -> ?"
    assert in_letters("a\n\x00b") == "a??b"
    letters = Letters(12, "#000000")
    assert letters.shortened("w" * 400, 100).endswith("...")
    assert letters.width(letters.shortened("w" * 400, 100)) <= 100
    lines = letters.wrapped("many words " * 50, 200, 3)
    assert len(lines) == 3
    assert all(letters.width(line) <= 200 for line in lines)
    assert letters.shortened("i" * 40, letters.width("i" * 40)) == "i" * 40
    for prompt in ("x" * 500_000, "x " * 250_000):
        named = replace(jacobi(Size(4, 4, 6)), prompt=prompt, method="y" * 400)
        started = time.monotonic()
        Stage([named], SMALL)
        assert time.monotonic() - started < 5
    assert next(Stage([named], SMALL).frames(moments([named], SMALL))).width == 360


def test_the_film_that_tests_use_is_a_sound_trace() -> None:
    check(film(2, 5))
    check(plain_film(2, 5))


@pytest.mark.parametrize("given", [0, 9])
def test_the_clip_plays_as_far_as_it_is_decided(given: int) -> None:
    trace = film(3, 5, given=given)
    check(trace)
    for state in states(trace):
        full = [all(state.final[25 * k : 25 * (k + 1)]) for k in range(3)]
        assert playable(trace, state) == given + EACH * (full.index(False) if False in full else 3)
    odd = replace(trace, output=replace(trace.output, video=trace.output.video[:-1]))
    *_, before, end = states(odd)
    assert (playable(odd, before), playable(odd, end)) == (given, given + 3 * EACH - 1)


def test_a_video_plays_on_while_its_last_state_is_held() -> None:
    trace = film(2, 5)
    look = Look(width=360, hold=2)
    shown = moments([trace], look)
    assert len(shown) == len(trace.steps) + 1 + 20
    assert sum(moment.seconds for moment in shown) == pytest.approx((len(shown)) / 10)
    frames = [np.asarray(frame) for frame in Stage([trace], look).frames(shown)]
    assert np.any(frames[-1] != frames[-2])


@pytest.mark.parametrize("ending", ["gif", "mp4"])
def test_the_clip_alone(tmp_path: Path, ending: str) -> None:
    trace = film(2, 5)
    target = tmp_path / f"clip.{ending}"
    write_clip(trace, target, Look(width=240, fps=10))
    found = decoded(target, (240, 240))
    if ending == "mp4":
        assert len(found) == 2 * EACH
    first = Image.open(io.BytesIO(base64.b64decode(trace.output.video[0].split(",")[1]))).convert("RGB")
    assert first.width == 5 * TILE
    wanted = np.asarray(first.resize((240, 240), Image.Resampling.BICUBIC), dtype=float)
    assert np.abs(wanted - np.asarray(found[0])).mean() < 12


def test_a_trace_without_a_clip_says_so(tmp_path: Path) -> None:
    with pytest.raises(MovingError, match="no video but a picture"):
        write_clip(jacobi(Size(4, 4, 6)), tmp_path / "clip.gif")
    with pytest.raises(MovingError, match="no decoded frames"):
        silent = film(2, 5)
        write_clip(replace(silent, output=replace(silent.output, video=())), tmp_path / "clip.gif")
    assert list(tmp_path.iterdir()) == []
