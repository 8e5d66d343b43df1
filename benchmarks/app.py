"""The app as a visitor meets it: how soon it answers, what it holds in memory, whether the player keeps up.

Starts app.py in a process of its own, decodes through its API, then opens it in Chromium, where a made-up run of 600
passes over 2,400 tokens has to be scrubbed without stutter. Without Chromium the page is left out. With `--busy N` it
measures only what a visitor waits for, while N other processes compute all the time.
"""

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from gradio_client import Client

from benchmarks._app_process import served
from benchmarks._browser import chromium, find_chromium
from benchmarks._report_format import Claim, Options, Row, finish, lower_limit, spread, upper_limit
from benchmarks._toy_runs import jacobi
from draftscope.cli.main import main as command_line
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.demo.jobs.recordings import pairs, recordings
from draftscope.visualizers.export_zip.words import command

MODEL: Final = "studio-image"
MIN_FRAMES_A_SECOND: Final = 50.0
READY_SECONDS: Final = 5.0
FIRST_STEP_MILLISECONDS: Final = 200.0
"""A fifth of a second: what follows sooner seems to follow at once."""
CLICKS: Final = 20
BUSY_FIRST_STEP_MILLISECONDS: Final = 1000.0
"""A second: a visitor's thoughts are not interrupted."""
MOVING_SECONDS: Final = 2.0
MEMORY_MB: Final = 1500.0
TIMES_LONGER: Final = 5
MAX_GROWTH: Final = 1.1
LONG_RUN: Final[dict[str, Any]] = {"rows": 50, "columns": 48, "window": 64, "seed": 1}
"""A run of a little over 700 forward passes and 2,400 tokens, 64 of them drafted."""
SWEEPS: Final = 5
TIMES_THE_COMMAND_LINE: Final = 1.3

# Three passes on with every frame, as when the slider is dragged; the milliseconds between frames.
_SWEEP: Final = """() => new Promise(done => {
  const frames = [];
  let last = 0, count = 0;
  const next = time => {
    if (last) frames.push(time - last);
    last = time;
    if (count >= 200) return done(frames);
    player.set(3 * count++);
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
})"""
LISTEN: Final = """() => {
  const player = draftscopePlayers.viewer;
  const push = player.push.bind(player);
  globalThis.delivered = [];
  player.push = (lane, sequence, step) => {
    delivered.push([lane, sequence]);
    push(lane, sequence, step);
  };
}"""
# Sets `moved` to the milliseconds until the first recorded race, which the page brings along, has moved.
_WATCH: Final = """{
  let begun;
  const look = (time) => {
    const player = globalThis.draftscopeFirst?.player ?? globalThis.draftscopePlayers?.viewer;
    if (player?.playing && player.now > 0) {
      begun ??= player.now;
      if (player.now !== begun) return void (globalThis.moved = time);
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""
# Milliseconds from a click on Run until the player is given a forward pass and the browser has drawn it.
_CLICK: Final = """() => new Promise(done => {
  const begun = performance.now();
  document.querySelector("#run").click();
  const drawn = () => done(performance.now() - begun);
  const look = () => delivered.length ? requestAnimationFrame(drawn) : setTimeout(look, 2);
  look();
})"""
_LENGTHS: Final = "draftscopePlayers.viewer.snapshot().lanes.map(lane => lane.steps)"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    chosen = Options("app", __doc__, runs=10, busy=int).read(arguments)
    if chosen.busy:
        with served() as (address, _, _), others_computing(chosen.busy), chromium(find_chromium() or "") as browser:
            finish(chosen, "The app on a busy machine", waiting(browser, address, BUSY_FIRST_STEP_MILLISECONDS), [])
        return
    with served() as (address, seconds, process):
        idle = resident_megabytes(process)
        rows = [decoded(address, chosen.runs)]
        resident = resident_megabytes(process)
        decoded(address, (TIMES_LONGER - 1) * chosen.runs)
        claims = [
            upper_limit(
                "Seconds from starting the app until /healthz answers",
                seconds,
                READY_SECONDS,
                "s",
                "most of it imports torch, transformers, diffusers and gradio",
            ),
            *memory(chosen.runs, idle, resident, resident_megabytes(process)),
        ]
        if path := find_chromium():
            with chromium(path) as browser:
                claims += waiting(browser, address, FIRST_STEP_MILLISECONDS)
                claims += [racing(browser.new_page(), address, kind) for kind in ("picture", "video")]
                claims.append(scrubbing(browser.new_page()))
    finish(chosen, "The app", claims, rows)


@contextmanager
def others_computing(count: int) -> Iterator[None]:
    """Keep processors busy with that many other processes."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def waiting(browser: Any, address: str, first_step_milliseconds: float) -> list[Claim]:
    """Measure the waits of a visitor: until the page moves, until the app has started in it, after a click on Run."""
    return [*opening(browser, address), clicking(browser.new_page(), address, first_step_milliseconds)]


def decoded(address: str, runs: int) -> Row:
    """Decode through the API, one run after another."""
    client = Client(address, verbose=False)
    seconds, forwards = [], []
    for seed in range(runs):
        start = time.monotonic()
        trace: dict[str, Any] = client.predict(method="scd", seed=seed, model=MODEL, api_name="/run")
        seconds.append(time.monotonic() - start)
        forwards.append(len(trace["steps"]))
    return {
        "method": "scd",
        "through": "/run",
        "model": MODEL,
        "runs": runs,
        "nfe": sum(forwards) / runs,
        **spread(seconds).row("seconds"),
    }


def resident_megabytes(process: subprocess.Popen[bytes]) -> float | None:
    """Return the resident memory of a process, from /proc; None without it."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    except OSError:
        return None
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(kilobytes) * 1024 / 1e6


def memory(runs: int, idle: float | None, resident: float | None, later: float | None) -> list[Claim]:
    """Return claims on the app's memory after some runs, and its growth with more runs.

    Without /proc they are empty.
    """
    if idle is None or resident is None or later is None:
        return []
    return [
        upper_limit(
            f"Memory the app holds after {runs} runs",
            resident,
            MEMORY_MB,
            "MB",
            f"{idle:.0f} MB when it first answered",
        ),
        upper_limit(
            f"Memory after {TIMES_LONGER * runs} runs, over that after {runs}",
            later / resident,
            MAX_GROWTH,
            reason=f"{later:.0f} and {resident:.0f} MB",
        ),
    ]


def opening(browser: Any, address: str) -> list[Claim]:
    """Open the page several times, each with an empty cache."""
    moved, seconds = [], []
    for _ in range(SWEEPS):
        context = browser.new_context()
        page, start = context.new_page(), time.monotonic()
        page.add_init_script(_WATCH)
        page.goto(address, wait_until="commit")
        page.wait_for_function(f"globalThis.draftscopePlayers?.viewer && {_LENGTHS}.length === 2")
        seconds.append(time.monotonic() - start)
        page.wait_for_function("globalThis.moved")
        moved.append(page.evaluate("moved") / 1000)
        context.close()
    page = "in a browser that has not seen it"
    moving, took = spread(moved), spread(seconds)
    return [
        upper_limit(
            f"Seconds from opening the page until its first race moves, {page}",
            moving.median,
            MOVING_SECONDS,
            "s",
            f"the page brings it along; {moving}",
        ),
        upper_limit(
            f"Seconds from opening the page until the app has started in it, {page}",
            took.median,
            READY_SECONDS,
            "s",
            str(took),
        ),
    ]


def clicking(page: Any, address: str, first_step_milliseconds: float) -> Claim:
    """Run once, then again and again, and stop at once."""
    page.goto(address)
    page.wait_for_function("globalThis.draftscopePlayers?.viewer")
    page.evaluate(LISTEN)
    run_once(page)
    if problem := page.locator("#problem").inner_text().strip():
        raise RuntimeError(f"the run did not succeed: {problem}")
    milliseconds = []
    for _ in range(CLICKS):
        page.evaluate("() => { delivered.length = 0; }")
        page.wait_for_function("!document.querySelector('#run').disabled")
        milliseconds.append(page.evaluate(_CLICK))
        page.evaluate("() => document.querySelector('#stop')?.click()")  # which may have ended by itself
        page.locator("#stop").wait_for(state="hidden", timeout=300_000)
    took = spread(milliseconds)
    return upper_limit(
        "Milliseconds from the click on Run until the first forward pass is on the page, once warm",
        took.median,
        first_step_milliseconds,
        "ms",
        f"one request, and the model's first pass; {took}",
    )


def racing(page: Any, address: str, kind: str) -> Claim:
    """Decode a recorded pair, alternately on the page and by its command lines, after a warm-up run."""
    (traces,) = (pair.recording.traces for pair in pairs(recordings()) if pair.kind == kind)
    page.goto(address)
    page.get_by_role("button", name=kind, exact=True).click()
    page.wait_for_function("text => document.querySelector('#prompt textarea').value === text", arg=traces[-1].prompt)
    live, alone = [], []
    with TemporaryDirectory() as folder:
        commands = [shlex.split(command(trace, f"{folder}/{trace.method}.json.gz")) for trace in traces]
        for _ in range(1 + SWEEPS):
            live.append(run_once(page))
            start = time.monotonic()
            assert not any(command_line(words[1:]) for words in commands)
            alone.append(time.monotonic() - start)
    took, alone_spread = spread(live[1:]), spread(alone[1:])
    return upper_limit(
        f"Seconds of a race on the page until it is finished and stored, over those of the same command lines: {kind}",
        took.median / alone_spread.median,
        TIMES_THE_COMMAND_LINE,
        reason=f"{took.median:.2f} s, {took}; {alone_spread.median:.2f} s, {alone_spread}",
    )


def run_once(page: Any) -> float:
    """Press Run, wait until the run has finished, and return the seconds."""
    page.wait_for_function("!document.querySelector('#run').disabled")
    start = time.monotonic()
    page.evaluate("document.querySelector('#run').click()")
    page.locator("#stop").wait_for(state="visible")
    page.locator("#stop").wait_for(state="hidden", timeout=300_000)
    return time.monotonic() - start


def scrubbing(page: Any) -> Claim:
    """Drag through a long run; frames that stay empty for other reasons count against it, too."""
    from draftscope.visualizers.player_page import standalone

    trace = jacobi(**LONG_RUN)
    page.set_content(standalone([trace], "A long run"))
    page.wait_for_function("globalThis.player")
    page.evaluate("player.useStage(false)")  # every view draws more than the stage
    page.locator(".ds-picture canvas").hover()
    sweeps = [spread(page.evaluate(_SWEEP)) for _ in range(SWEEPS)]
    rate = spread([1000 / sweep.median for sweep in sweeps])
    return lower_limit(
        "Frames a second while scrubbing 600 passes over 2,400 tokens",
        rate.median,
        MIN_FRAMES_A_SECOND,
        "frames/s",
        f"median of {SWEEPS} sweeps over {len(trace.steps)} passes, 60 at most; best {rate.high:.0f}, worst "
        f"{rate.low:.0f} (quartiles)",
    )


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
