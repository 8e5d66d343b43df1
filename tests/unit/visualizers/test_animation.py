"""Moving pictures show what the replay says, last as long as they should, and remove their files when they fail."""

import math
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from imageio_ffmpeg import get_ffmpeg_exe
from PIL import Image, ImageDraw
from support.handmade import ALL
from support.hostile import written
from support.scripts import TEXTS, cut, writing
from support.toy_videos import EACH, film

from benchmarks._toy_runs import jacobi, ordinary
from draftscope.analysis.hardware import predict, read_machine
from draftscope.traces import canvas_states, read
from draftscope.traces.replay import PENDING
from draftscope.traces.schema import Canvas, Output, Trace
from draftscope.visualizers.animation import (
    AnimationOptions,
    Film,
    MovingError,
    fitting,
    moments,
    write_clip,
    write_moving,
)
from draftscope.visualizers.animation.frames import _word, fitted_text, positions_of
from draftscope.visualizers.animation.letters import Place, _runs, draw_text, han_forms, text_width, visual_places
from draftscope.visualizers.palette import DARK, LIGHT, MARKS
from draftscope.visualizers.picture import picture_of

SMALL, RUN = AnimationOptions(width=360), jacobi(4, 4, 6)


def rgb(color: str) -> tuple[int, ...]:
    return tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))


def middles(film_: Film, frame: Image.Image, run: int = 0) -> list[tuple[int, ...]]:
    """The colour in the middle of every position of a run."""
    left, top = film_.corner(run)
    boxes = [film_.canvases[run].boxes[position] for position in range(positions_of(film_._traces[run]))]
    return [frame.getpixel((left + (b[0] + b[2]) // 2, top + (b[1] + b[3]) // 2)) for b in boxes]


def drawn(traces: Sequence[Trace], look: AnimationOptions) -> tuple[Film, list[Image.Image]]:
    film_ = Film(traces, look)
    return film_, list(film_.frames(moments(traces, look)))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("trace", [jacobi(5, 7, 6), film(2, 5)], ids=["picture", "video"])
def test_every_cell_of_every_frame_is_what_the_replay_says(trace: Trace, theme: str) -> None:
    film_, frames = drawn([trace], AnimationOptions(width=480, theme=theme))
    panel = rgb((LIGHT if theme == "light" else DARK).panel)
    tiles = trace.legend.tiles
    assert tiles is not None and len(frames) == len(trace.steps) + 1
    atlas = picture_of(tiles.png)
    for state, frame in zip(canvas_states(trace), frames, strict=True):
        for token, fate, color in zip(state.tokens, state.fates, middles(film_, frame), strict=True):
            if not isinstance(token, int):
                assert color == panel
                continue
            row, column = divmod(token, tiles.columns)
            pixel = atlas.getpixel((column * tiles.size + 1, row * tiles.size + 1))
            assert (color == pixel) is (fate not in PENDING)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_key_and_the_marks_have_the_colours_and_words_of_the_players_key(theme: str) -> None:
    film_, frames = drawn([RUN, ordinary(4, 4)], AnimationOptions(width=720, theme=theme))
    assert [fate.value for fate in film_._key] == ["sampled", "accepted", "resampled"]
    for number, fate in enumerate(film_._key):
        color = rgb(getattr(MARKS[fate], theme))
        shown = {frame.getpixel((x, frame.height - 36)) for frame in frames for x in range(14, 300)}
        assert color in shown, fate
        first = next(k for k, step in enumerate(RUN.steps) if fate in step.fate) if number else 0
        entry = (RUN if number else ordinary(4, 4)).steps[first]
        left, top = film_.corner(0 if number else 1)
        box = film_.canvases[0 if number else 1].boxes[entry.position[entry.fate.index(fate)]]
        assert frames[first + 1].getpixel((left + box[0], top + box[1])) == color


@pytest.mark.slow
def test_runs_of_different_length_wait_for_one_another() -> None:
    slow, fast = ordinary(6, 6), jacobi(6, 6, 12)
    shown = moments([slow, fast], SMALL)
    assert [moment.counts for moment in shown] == [(n, min(n, len(fast.steps))) for n in range(len(slow.steps) + 1)]
    film_, frames = drawn([slow, fast], SMALL)
    left = film_.corner(1)[0]
    halted = [np.asarray(frame)[: -int(40 * 0.5), left:] for frame in frames[len(fast.steps) : -1]]
    assert all(np.array_equal(halted[0], other) for other in halted)


def test_on_the_clock_of_milliseconds_every_pass_ends_when_it_did() -> None:
    traces = [ordinary(3, 4), jacobi(3, 4, 4)]
    look = AnimationOptions(width=360, clock="milliseconds", slowdown=8, fps=25)
    shown = moments(traces, look)
    for number, moment in enumerate(shown[:-1]):
        now = number * 1000 / (look.fps * look.slowdown)
        for trace, count in zip(traces, moment.counts, strict=True):
            ends = [sum(step.call.milliseconds.total for step in trace.steps[:k]) for k in range(len(trace.steps) + 1)]
            assert count == sum(end <= now + 1e-6 for end in ends) - 1
    assert shown[-1].counts == tuple(len(trace.steps) for trace in traces)
    machine = read_machine("H100", "CUDA graphs", "Cosmos 4B")
    shown = moments(traces, replace(look, clock="computed", machine=machine))
    passes = predict(traces[0], machine).passes
    for number, moment in enumerate(shown[:-1]):
        ends = [sum(cost.seconds for cost in passes[:k]) for k in range(len(passes) + 1)]
        assert moment.counts[0] == sum(end <= number / (look.fps * look.slowdown) + 1e-9 for end in ends) - 1
    with pytest.raises(MovingError, match="belong together"):
        replace(look, clock="computed")
    by_fives = moments(traces[:1], replace(SMALL, passes_per_frame=5))
    assert [moment.counts[0] for moment in by_fives] == [0, 5, 10, 12]  # never without the last


def test_a_pass_of_a_drafter_is_less_of_a_frame_than_one_of_the_target() -> None:
    steps = (trace := read(Path("assets/traces/speculative-smollm2.json.gz"))).steps
    spent = {role: [s.call.milliseconds.total for s in steps if s.call.role == role] for role in ("draft", "target")}
    part = sum(spent["draft"]) / len(spent["draft"]) / min(spent["target"])
    ends = np.cumsum([part if step.call.role == "draft" else 1 for step in steps])
    shown = [moment.counts[0] for moment in moments([trace], SMALL)]
    assert 0 < part < 0.2 and shown == [sum(ends <= k) for k in range(int(ends[-1]) + 1)] + [len(steps)]


def decoded(path: Path, size: tuple[int, int]) -> list[Image.Image]:
    """The frames of a file, by Pillow or by ffmpeg."""
    if path.suffix != ".mp4":
        with Image.open(path) as image:
            frames = []
            for number in range(image.n_frames):
                image.seek(number)
                frames.append(image.convert("RGB"))
            return frames
    command = [get_ffmpeg_exe(), "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    data, length = subprocess.run(command, capture_output=True, check=True).stdout, 3 * size[0] * size[1]
    return [Image.frombytes("RGB", size, data[at : at + length]) for at in range(0, len(data), length)]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["gif", "webp", "mp4"])
def test_what_is_read_back_is_what_was_drawn(tmp_path: Path, ending: str) -> None:
    traces = [ordinary(4, 4), jacobi(4, 4, 6)]
    look, target = AnimationOptions(width=480, fps=10, last_frame_seconds=0.5), tmp_path / f"race.{ending}"
    reported: list[tuple[int, int]] = []
    write_moving(traces, target, look, report=lambda *progress: reported.append(progress))
    film_, frames = drawn(traces, look)
    assert reported == [(number, 17) for number in range(1, 18)]
    film_frames = decoded(target, film_.size)
    assert len(film_frames) == len(frames) + (4 if ending == "mp4" else 0)
    for frame, shown in zip(frames, film_frames, strict=False):
        far = np.abs(np.subtract(middles(film_, frame, 1), middles(film_, shown, 1)))
        assert far.mean() < 14 and far.max() < 60
    if ending == "gif":
        with Image.open(target) as image:
            assert (image.info["duration"], image.info["loop"]) == (100, 0)


def test_what_is_out_of_range_or_too_long_says_what_to_do() -> None:
    for name, value in (("fps", math.nan), ("width", 10), ("passes_per_frame", 0), ("slowdown", 0.0)):
        with pytest.raises(MovingError, match=f"^{name.replace('_', ' ')} .*: choose a number from"):
            replace(SMALL, **{name: value})
    trace, look = ordinary(30, 30), AnimationOptions(fps=20)
    with pytest.raises(MovingError, match=r"901 frames are more than 600: set passes per frame to 2"):
        moments([trace], look)
    assert len(moments([trace], fitting([trace], look))) == 451
    slow = AnimationOptions(clock="milliseconds", slowdown=100)
    with pytest.raises(
        MovingError, match=r"frames are more than 600: show it faster, with a slowdown of ([\d.]+)"
    ) as caught:
        moments([trace], slow)
    assert moments([trace], replace(slow, slowdown=float(str(caught.value).split()[-3])))
    assert 500 < len(moments([trace], fitting([trace], slow))) <= 600
    assert fitting([trace], replace(slow, slowdown=0.1)).slowdown == 0.1
    with pytest.raises(MovingError, match="7 traces: give 1 to 6"):
        moments([trace] * 7, look)


def test_what_has_no_room_or_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flat = replace(ALL["scd"](), canvas=Canvas(kind="image", shape=(1, 60_000)))
    text = replace(ALL["ar"](), output=Output(tokens=(5,) * 60_000), canvas=Canvas(kind="text", shape=(60_000,)))
    text = replace(text, summary=replace(text.summary, complete=False))
    for trace, problem in ((flat, "a canvas of 1 x 60000"), (text, "a text of 60000")):
        with pytest.raises(MovingError, match=f"{problem} tokens does not fit"):
            Film([trace], SMALL)
    monkeypatch.setattr("draftscope.visualizers.animation.MAX_PIXELS", 100_000)
    with pytest.raises(MovingError, match="pixels in all: choose a smaller width"):
        write_moving([RUN], tmp_path / "run.gif", SMALL)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    legend = replace(RUN.legend, tiles=replace(RUN.legend.tiles, png="data:image/png;base64,AAAA"))
    with pytest.raises(MovingError, match="a picture in the trace is damaged"):
        write_moving([replace(RUN, legend=legend)], tmp_path / "run.gif", SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["gif", "webp", "mp4"])
def test_an_old_file_stays_when_drawing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    target = tmp_path / f"run.{ending}"
    target.write_bytes(b"before")

    with pytest.raises(ZeroDivisionError):
        write_moving([RUN], target, SMALL, report=lambda done, frames: print(1 / (3 - done)))
    monkeypatch.setattr("draftscope.visualizers.animation.MAX_BYTES", 1000)
    with pytest.raises(MovingError, match="choose a smaller width"):
        write_moving([RUN], target, SMALL)
    assert target.read_bytes() == b"before" and list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("exe", ["/nonexistent/ffmpeg", "/bin/false", "/bin/true"])
def test_a_broken_ffmpeg_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exe: str) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", exe)
    with pytest.raises(MovingError, match=r"ffmpeg.*IMAGEIO_FFMPEG_EXE") as caught:
        write_moving([RUN], tmp_path / "run.mp4", SMALL)
    assert "\n" not in str(caught.value) and list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_words_of_strangers_are_letters_that_fit() -> None:
    assert fitted_text("w" * 400, 12, 100).endswith("...")
    assert [_word(text) for text in ("<|im_end|>", "[MASK]", " a < b\n")] == ["", "", "a < b"]
    odd = replace(written(), prompt="x " * 250_000, method="y" * 400)
    assert drawn([odd], SMALL)[1][-1].width == 360


@pytest.mark.parametrize("ending", ["gif", "mp4"])
def test_the_clip_alone(tmp_path: Path, ending: str) -> None:
    trace, target = film(2, 5), tmp_path / f"clip.{ending}"
    write_clip(trace, target, AnimationOptions(width=240, fps=10))
    frames = decoded(target, (240, 240))
    assert len(frames) == 2 * EACH or ending == "gif"  # a GIF joins equal frames
    wanted = np.asarray(picture_of(trace.output.video[0]).resize((240, 240)), dtype=float)
    assert np.abs(wanted - np.asarray(frames[0])).mean() < 12
    with pytest.raises(MovingError, match="no decoded clip"):
        write_clip(RUN, target)


@pytest.mark.parametrize("script", TEXTS)
def test_a_text_in_any_script_is_drawn_whole_by_the_fonts_of_the_packages(script: str) -> None:
    trace = writing(cut(TEXTS[script], 3))
    film_, frames = drawn([trace], AnimationOptions(width=480))
    boxes, left_to_right = film_.canvases[0].boxes, script not in ("arabic", "syriac", "nko", "hebrew")
    assert all(0 <= left < right <= film_.canvases[0].width for left, _, right, _ in boxes)
    ends = (boxes[0][0], boxes[-1][0]) if boxes[0][1] == boxes[-1][1] else (0, 1)
    assert (ends[0] < ends[1]) is left_to_right
    corner = film_.corner(0)
    last = np.asarray(frames[-1])[corner[1] : corner[1] + film_.canvases[0].height, corner[0] :][:, : boxes[-1][2]]
    assert (last.std(axis=(0, 2)) > 20).mean() > (0.2 if left_to_right else 0)


def test_every_letter_has_a_font_and_signs_stay_with_their_words() -> None:
    runs = {script: list(_runs(text)) for script, text in TEXTS.items()}
    assert {script: {name for _, name in each} for script, each in runs.items()} == {
        "chinese": {"NotoSansCJK"},
        "japanese": {"NotoSansCJK"},
        "arabic": {"NotoSansArabic"},
        "syriac": {"NotoSans", "NotoSansArabic"},  # no package has its letters, nor those of N'Ko
        "nko": {"NotoSans"},
        "hebrew": {"NotoSansHebrew", "NotoSans"},
        "hindi": {"NotoSansDevanagari"},
        "thai": {"NotoSansThai"},
        "emoji": {"NotoEmoji", "NotoSans"},
        "latin": {"NotoSans"},
    }
    assert text_width("مرحبا", 20) < text_width("م ر ح ب ا", 20)  # joined letters


def test_han_characters_have_the_forms_of_the_language_next_to_them() -> None:
    assert [han_forms(text) for text in ("骨 の", "骨 가", "骨", "")] == [0, 1, 2, 2]
    drawn_forms = []
    for forms in range(3):
        image = Image.new("L", (60, 60))
        draw_text(ImageDraw.Draw(image), (5, 50), "骨", 48, "white", forms)
        drawn_forms.append(image.tobytes())
    assert drawn_forms[0] != drawn_forms[2] and text_width("骨", 48) == 48
    trace = replace(writing(cut("骨", 0)), prompt="ほね")
    with_kana, without = (drawn([each], SMALL)[1][-1].tobytes() for each in (trace, replace(trace, prompt="bone")))
    assert with_kana != without


def test_a_line_that_runs_to_the_left_keeps_numbers_and_latin_words_in_order() -> None:
    words: list[Place] = [(0, 10, "left"), (12, 10, "right"), (24, 10, "right"), (36, 10, "left")]
    assert visual_places(words, 100, "left") == [90, 66, 78, 54]
    assert visual_places(words, 100, "right") == [0, 12, 24, 36]
    turned: list[Place] = [(0, 10, "right"), (12, 10, "left"), (24, 4, ""), (30, 10, "left")]
    assert visual_places(turned, 100, "right") == [0, 30, 24, 12]
