"""Gradio component of the trace player.

A run reaches the browser as messages: `live` has the URL of the stream of forward passes (numbered, so that repeated
ones do no harm), and `finish` has the files of the complete traces. From then on the browser does not need the server.
`load` shows finished traces at once, `compare` shows up to six of them together, and `offer` lets the user choose among
recorded pairs and plays the first.
"""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import gradio as gr

from draftscope.analysis.run_report import report_messages
from draftscope.demo.jobs.live_run import LiveRuns, RaceStarted
from draftscope.demo.jobs.recordings import Pair, Recording, answers_to
from draftscope.demo.server.event_stream import ADDRESS, EventStream
from draftscope.demo.server.sessions import url
from draftscope.traces.schema import Trace
from draftscope.visualizers import player

Message = dict[str, Any]

_CHIPS: Final = {"continuous": "continuous tokens"}
"""Labels of kinds whose chip is longer than their name."""

_BRIDGE = """
let on = '';  // the hardware that runs which are compared are computed for
const emit = (name, detail) => {
  const tour = { invited: 'begin', explored: 'end' }[name];
  if (tour) document.dispatchEvent(new CustomEvent('draftscope-tour', { detail: tour }));
  const place = name === 'moved' && { ...detail, name: NAME };
  if (place) document.dispatchEvent(new CustomEvent('draftscope-moved', { detail: place }));
  if (name === 'chosen') called(player.called);
  if (name === 'taught') draftscopeAddress.openLesson(detail.lesson);
  if (name === 'chosen' || name === 'supposed') trigger(name, detail);
  if (FIRST || name !== 'settled' || on === detail.on) return;
  on = detail.on;
  draftscopeAddress.write({ position: on && `clock=computed&on=${on}` });
  trigger('clocked', { on });
};
// The player that has played since the page began comes here as it is.
const first = FIRST && globalThis.draftscopeFirst;
const player = first ? first.player
  : Draftscope.mount(element.querySelector('.player'),
      { data: JSON.parse(DATA), hash: FIRST, staged: true, lessons: true, emit });
if (first) {
  const within = player.root.contains(document.activeElement) && document.activeElement;
  element.querySelector('.player').replaceWith(player.root);
  player.emit = emit;
  delete globalThis.draftscopeFirst;
  document.getElementById('first').remove();
  if (within) within.focus({ preventScroll: true });
  setTimeout(() => first.heard.forEach((event) => emit(...event)));
}
globalThis.draftscopePlayers = Object.assign(globalThis.draftscopePlayers ?? {}, { [NAME]: player });
// A loop would be drawn while the first passes of a run arrive. A refused run leaves the picture.
if (FIRST) document.addEventListener('click', ({ target }) => {
  if (!target.closest('#run')) return;
  player.pause();
  player.race.chosenAt = performance.now();
});
// What is shown is named in the address; the player adds the place.
const called = (text, placed) => FIRST && draftscopeAddress.setRun('watch', text, placed);
let race = null;  // which is shown
let live = null;  // the passes of a race as they happen
const leave = () => {
  race = null;
  live?.close();
};
const begin = (name, { heads, answers }) => {
  if (race === name) return;  // told again, as the connection was lost
  race = name;
  Object.assign(player.answers, answers);
  player.clear();
  heads.forEach((head, lane) => player.begin(lane, head));
  trigger('begun', {});
  const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
  const { top } = element.getBoundingClientRect();
  if (top < 0 || top > innerHeight) element.scrollIntoView({ behavior: still ? 'instant' : 'smooth' });
};
const stand = (at) => at && (player.useClock(at.clock, at.on), player.jump(player.readingOf(at.now)));
const act = {
  offer: ({ pairs, invite }) => { leave(); if (!player.race.pairs.length) player.offer(pairs, invite); },
  load: async ({ urls, reports, address, placed, at, pressed }) => {
    if (pressed && pressed < player.race.chosenAt) return;  // a pair was chosen since, or a run was started
    leave();
    called(address ?? '', placed);
    const options = address ? { loop: true, start: true, called: address } : {};
    await player.loadUrl(urls, { reports, afresh: !placed, ...options });
    stand(at);
  },
  compare: async ({ urls, reports, on: wanted }) => {
    leave();
    await player.loadUrl(urls, { reports, afresh: true });
    if (wanted) player.useClock('computed', wanted);
  },
  live: ({ race: name, url }) => {
    if (live?.url.endsWith(url)) return;  // told twice
    live?.close();
    live = new EventSource(url);
    const hear = (event, act) => live.addEventListener(event, ({ data }) => act(JSON.parse(data)));
    hear('opened', (opened) => begin(name, opened));
    hear('passed', ({ lane, first, steps, frame, words }) => {
      Object.assign(steps.at(-1), { frame, words });
      steps.forEach((step, number) => player.push(lane, first + number, step));
    });
    hear('over', () => live.close());
  },
  finish: async ({ race: name, urls, reports, address, at }) => {
    if (race !== name) player.clear();  // another thing is shown, or it was over before its first pass was told
    race = name;
    if (address) called(player.called = address);
    await player.fetched(urls, (traces) => traces.forEach((trace, lane) => player.finish(lane, trace, reports[lane])));
    stand(at);
  },
  counterfactual: (answer) => player.showCounterfactual(answer),
};
act.info = act.error = act.counterfactual;  // where the changed draw waits in the queue, or cannot be decoded
const take = () => {
  const message = props.value;
  if (!message?.kind) return;
  Object.assign(player.answers, message.answers);
  act[message.kind](message);
};
watch('value', take);
take();
"""


def trace_viewer(name: str, value: Message | None = None, *, first: bool = False) -> gr.HTML:
    """Return a component that shows one trace, two side by side, or up to six compared. Its value is the last message.

    Args:
        name: Element id; scripts find the player as `draftscopePlayers[name]`.
        value: The first message.
        first: Whether it is the player of the first screen: it starts with what one screen holds, and its position
            in the trace is part of the page's URL. Other players appear once they have something to play.
    """
    known = {"DATA": json.dumps(json.dumps(player.data())), "FIRST": json.dumps(first), "NAME": json.dumps(name)}
    bridge = re.sub(r"\b(DATA|FIRST|NAME)\b", lambda match: known[match.group()], _BRIDGE)
    # Not a subclass: Gradio would write a stub file next to this module.
    return gr.HTML(
        value,
        html_template='<div class="player"></div>',
        css_template=player.style(),
        js_on_load=bridge,
        apply_default_css=False,
        elem_id=name,
        visible=first,
    )


def race_started_message(live: EventStream) -> Message:
    """Return the message that a race has started, with the URL of its event stream."""
    return {"kind": "live", "race": live.name, "url": ADDRESS.removeprefix("/").format(name=live.name)}


def send(live: EventStream, message: RaceStarted | LiveRuns) -> None:
    """Tell a page of a race: what it is, or what is new."""
    if isinstance(message, RaceStarted):
        answers = answers_to(head.get("prompt") for head in message.heads)
        live.send("opened", {"heads": message.heads, "answers": answers})
        return
    for news in message.news():
        live.send("passed", news._asdict())


def race_finished_message(
    traces: Sequence[Trace],
    paths: Sequence[Path],
    name: str,
    address: str = "",
    at: Mapping[str, Any] | None = None,
) -> Message:
    """Return the message that a race has finished, with its traces, their files, its link and the step to show."""
    message = {"kind": "finish", "race": name, **_runs(traces, paths), "address": address}
    return message | ({"at": dict(at)} if at else {})


def traces_message(traces: Sequence[Trace], paths: Sequence[Path]) -> Message:
    """The message to show finished traces."""
    return {"kind": "load", **_runs(traces, paths)}


def replayed(recording: Recording, placed: bool = False, pressed_at: object = None) -> Message:
    """Return the message to play a recording.

    Args:
        recording: The recording.
        placed: Whether it is shown where the address is placed, not played from its start.
        pressed_at: When its card was pressed, in milliseconds of the page's clock.
    """
    answers = answers_to(trace.prompt for trace in recording.traces)
    runs = _runs(recording.traces, recording.paths)
    message = {"kind": "load", **runs, "address": recording.address, "placed": placed, "answers": answers}
    turn = secrets.token_hex(4)  # gradio does not send a value that equals the last one
    return message | {"pressed": pressed_at, "turn": turn}


def counterfactual_message(coin: float, path: Path) -> Message:
    """Return the answer to a player that changed a uniform draw: the resulting trace. Errors are shown as notices."""
    return {"kind": "counterfactual", "coin": coin, "url": url(path)}


def comparison_message(traces: Sequence[Trace], paths: Sequence[Path], on: str = "") -> Message:
    """Return the message to show up to six finished traces together; without traces the player is emptied.

    Args:
        traces: The runs; all are compared with the first.
        paths: Their files.
        on: Hardware for which times are computed, as written in links.
    """
    return {"kind": "compare", **_runs(traces, paths), "on": on}


def recorded_pairs_message(pairs: Sequence[Pair], invite: str = "") -> Message | None:
    """The message to offer recorded pairs and to play the first one; `invite` are words of a button to the tour."""
    chips = [
        {
            "name": _CHIPS.get(pair.kind, pair.kind),
            **_runs(pair.recording.traces, pair.recording.paths),
            "called": pair.recording.address,
        }
        for pair in pairs
    ]
    answers = answers_to(trace.prompt for pair in pairs for trace in pair.recording.traces)
    return {"kind": "offer", "pairs": chips, "invite": invite, "answers": answers} if chips else None


def _runs(traces: Sequence[Trace], paths: Sequence[Path]) -> Message:
    """Return the URLs of traces and the reports of their runs."""
    return {"urls": [url(path) for path in paths], "reports": report_messages(traces)}
