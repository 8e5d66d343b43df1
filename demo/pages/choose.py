"""Choose: all methods and models in one plot, the user's requirements, and one sentence as the answer."""

from collections.abc import Sequence
from typing import Any, Final

import gradio as gr

from draftscope.analysis.tradeoffs import Tradeoff, best, frontier, predicted
from draftscope.demo.components.calculator import CalculatorPanel
from draftscope.demo.components.context import AT_ONCE, LATEST, QUIET, Site, Update, scroll_to, serialized, unread
from draftscope.demo.components.figure import Panel
from draftscope.demo.components.results import ResultsPanel
from draftscope.demo.components.widgets import component, notice, notice_box, upload_file
from draftscope.demo.jobs.links import WATCH
from draftscope.demo.jobs.recordings import Recording
from draftscope.demo.pages.watch import WatchPage
from draftscope.recommendations import (
    KINDS,
    answer,
    measured_tradeoffs,
    opened_tradeoffs,
    quality_in_words,
    reported_tradeoffs,
    speed_in_words,
)
from draftscope.visualizers import SweepError
from draftscope.visualizers.figures.tradeoffs import TradeoffView, tradeoffs_figure

_LEAD: Final = (
    "Enter what you need below: the answer comes from the measurements in the figure. Press a point of it to see its "
    "recording."
)
_EMPTY: Final = (
    "No results ship with this app yet: `make measured` and `draftscope experiment run` measure and write them."
)
_ALL: Final = "all"
_MAX_LOST: Final = 10
_LIST_JS: Final = """
const row = ({ index, title, note, recorded }) => {
  const button = build('button', { type: 'button', 'data-index': index }, recorded ? 'See it happen' : 'No recording');
  button.disabled = !recorded;
  button.setAttribute('aria-label', `${button.textContent}: ${title}`);
  return build('li', {}, build('span', { class: 'title' }, title), build('span', { class: 'note' }, note), button);
};
const show = () => place.replaceChildren(...(props.value?.length ? [
  build('h2', {}, 'The best of them, fastest first'), build('ul', {}, ...props.value.map(row))] : []));
chooses();
const listen = () => {  // plotly tells of a point through its own node, which is a new one whenever gradio draws again
  const drawn = document.querySelector('#choose-plot .js-plotly-plot');
  if (!drawn?.on || drawn.heard) return;
  drawn.heard = true;
  drawn.on('plotly_click', ({ points: [{ customdata }] }) => {
    if (Number.isInteger(customdata)) trigger('choose', { index: customdata });
  });
};
new MutationObserver(listen).observe(document.getElementById('choose-plot') ?? document.body,
  { childList: true, subtree: true });
"""
_LIST_CSS: Final = """
h2 { margin: 8px 0; font-size: 15px; font-weight: 650; color: var(--body-text-color); }
ul { display: grid; gap: 8px; margin: 0; padding: 0; list-style: none; }
li { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 3fr) auto; align-items: center; gap: 2px 16px;
  margin: 0; padding: 8px 12px; border: 1px solid var(--border-color-primary); border-radius: 8px; font-size: 15px;
  color: var(--body-text-color); }
.title { font-weight: 600; }
.note { color: var(--body-text-color-subdued); font-variant-numeric: tabular-nums; }
button { padding: 4px 12px; border-radius: 99px; font-size: 13px; }
button:disabled { color: var(--body-text-color-subdued); border-style: dashed; }
@media (max-width: 640px) { li { grid-template-columns: 1fr auto; } .note { grid-row: 2; grid-column: 1 / 3; } }
"""


class ChoosePage:
    """The page and its handlers."""

    def __init__(self, site: Site, recordings: Sequence[Recording] = ()) -> None:
        self.site = site
        self.recordings = tuple(recordings)
        self._build()
        controls: list[Any] = [
            self.kind,
            self.batch,
            self.hardware,
            self.lost,
            self.exact,
            self.supposed,
            self.cost,
            self.reported,
        ]
        self.inputs: set[Any] = {*controls, self.uploaded, site.look}
        self.parts: list[Any] = [self.answer, self.points, self.kind, self.hardware, self.batch, self.cost]
        self.parts += self.panel.parts
        turn = serialized("choose")  # or what was drawn as the tab opened could come after an upload
        gr.on([control.input for control in controls], self.draw, self.inputs, self.parts, **(LATEST | turn))
        opened = [*self.parts, self.uploaded, self.problem]
        gr.on([self.upload.upload, self.upload.clear], self.open, self.inputs | {self.upload}, opened, **turn)

    def _build(self) -> None:
        self.calculator = CalculatorPanel(self.site, self.recordings)
        gr.Markdown(f"## Measured here\n\n{_LEAD}", elem_classes="lead")
        self.answer = gr.Markdown(elem_id="choose-answer")
        with gr.Row():
            with gr.Column(scale=1, min_width=250):
                self.kind = gr.Radio([("Everything", _ALL)], value=_ALL, label="What is decoded", elem_id="choose-kind")
                self.lost = gr.Slider(
                    0,
                    _MAX_LOST,
                    0,
                    step=0.5,
                    label="Largest loss of quality",
                    info="In percentage points. A loss below its standard error could be chance and counts as none.",
                    elem_id="choose-lost",
                )
                self.batch = gr.Radio([1], value=1, label="Batch", info="How many sequences are decoded together.")
                self.hardware = gr.Dropdown([], label="Hardware", info="Machine of the measurements.")
                self.exact = gr.Checkbox(False, label="Only what keeps the model's own distribution")
                self.supposed = gr.Checkbox(
                    False,
                    label="Assume another cost of drafts",
                    elem_id="choose-supposed",
                    info="Speeds are then computed, not measured.",
                )
                self.cost = gr.Slider(
                    0,
                    1,
                    0.1,
                    step=0.05,
                    label="Cost of a drafter's pass, in target passes",
                    info="Cost and number of verifying passes stay as measured.",
                    visible=False,
                )
                self.reported = gr.Checkbox(True, label="Show what papers report, apart")
                self.uploaded = gr.State(())
                kinds = (".json", ".jsonl", ".gz")
                self.upload = upload_file("choose-upload", "Open results of draftscope bench", *kinds)
            with gr.Column(scale=4, min_width=320):
                self.problem = notice_box(elem_id="choose-problem")
                self.panel = Panel(self.site, "choose")
        self.points = component([], _LIST_JS, _LIST_CSS, elem_id="choose-points")
        with gr.Accordion("Accuracy and speed of many runs", open=False, elem_id="results") as accordion:
            results = ResultsPanel(self.site)
        accordion.expand(results.draw, results.inputs, results.parts, **serialized("results"))

    def connect(self, tabs: gr.Tabs, watch: WatchPage) -> None:
        """Play the recording of a point under Watch."""

        def choose(values: Update, event: gr.EventData) -> Update:
            """Show the recording of a point, or say that there is none."""
            shown = self.fitting(values)
            index = event.index
            if not isinstance(index, int) or not 0 <= index < len(shown):
                return {self.problem: notice("error", "This point is no longer drawn; choose another one.")}
            entry = recording_of(shown[index], self.recordings)
            if entry is None:
                return {self.problem: notice("info", f"{shown[index].called} was not recorded.", "No recording.")}
            return {self.problem: {}, tabs: gr.Tabs(selected=WATCH), **watch.replay(entry)}

        opened = self.points.choose(choose, self.inputs, [self.problem, tabs, *watch.replays], **AT_ONCE)
        opened.then(None, js=scroll_to("viewer"), **QUIET)

    def open(self, values: Update, request: gr.Request) -> Update:
        """Show a visitor's results in place of those that ship, or these again where the file was taken away."""
        data = values[self.upload]
        try:
            uploaded = opened_tradeoffs(data) if data else ()
        except SweepError as error:
            return {self.problem: notice("error", str(error), "Invalid results file")}
        return {
            self.uploaded: uploaded,
            self.problem: {},
            **self._draw({**values, self.uploaded: uploaded, self.kind: _ALL}, request),
        }

    def measured(self, values: Update) -> Sequence[Tradeoff]:
        """Return the results that the user opened, or the shipped ones."""
        uploaded: Sequence[Tradeoff] = values[self.uploaded]
        return uploaded or measured_tradeoffs()

    def fitting(self, values: Update) -> Sequence[Tradeoff]:
        """Return the results measured under the conditions of the form."""
        fits = [
            one
            for one in self.measured(values)
            if values[self.kind] in (_ALL, one.kind)
            and one.batch == values[self.batch]
            and values[self.hardware] in (None, one.hardware)
            and (one.exact or not values[self.exact])
        ]
        return [predicted(one, values[self.cost]) for one in fits] if values[self.supposed] else fits

    def draw(self, values: Update, request: gr.Request) -> Update:
        """Answer, draw, and list the best."""
        return unread(values, self._draw(values, request))

    def _draw(self, values: Update, request: gr.Request) -> Update:
        measured = self.measured(values)
        if not measured:
            return self.panel.hide(_EMPTY)
        kinds = [kind for kind in KINDS if any(one.kind == kind for one in measured)]
        wanted = kinds if values[self.kind] == _ALL else [values[self.kind]]
        batches = sorted({one.batch or 1 for one in measured if one.kind in wanted}) or [1]
        hardware_names = sorted({one.hardware for one in measured})
        values = {
            **values,
            self.batch: values[self.batch] if values[self.batch] in batches else batches[0],
            self.hardware: values[self.hardware] if values[self.hardware] in hardware_names else hardware_names[0],
        }
        shown, lost = self.fitting(values), float(values[self.lost])
        reported = [one for one in reported_tradeoffs() if one.kind in wanted] if values[self.reported] else []
        single = best(shown, lost) if len(wanted) == 1 else None
        figure = tradeoffs_figure.draw(TradeoffView(measured=shown, reported=reported, max_loss=lost, best=single))
        return {
            self.answer: "\n\n".join(answer(shown, kind, lost, values[self.batch]) for kind in wanted),
            self.points: self._listed(shown, wanted),
            self.kind: gr.update(
                choices=[("Everything", _ALL), *((KINDS[kind].capitalize(), kind) for kind in kinds)],
                value=values[self.kind],
            ),
            self.batch: gr.update(choices=batches, value=values[self.batch]),
            self.hardware: gr.update(choices=hardware_names, value=values[self.hardware]),
            self.cost: gr.update(visible=bool(values[self.supposed])),
            **self.panel.show(tradeoffs_figure, figure, values[self.site.look], request),
        }

    def _listed(self, shown: Sequence[Tradeoff], kinds: Sequence[str]) -> list[dict[str, Any]]:
        """The frontier of every kind, fastest first."""
        candidates = [
            one for kind in kinds for one in reversed(frontier([each for each in shown if each.kind == kind]))
        ]
        numbers = {id(one): number for number, one in enumerate(shown)}
        return [
            {
                "index": numbers[id(one)],
                "title": one.called,
                "note": f"{KINDS[one.kind]}: {speed_in_words(one)}, {quality_in_words(one)}",
                "recorded": recording_of(one, self.recordings) is not None,
            }
            for one in candidates
        ]


def recording_of(one: Tradeoff, among: Sequence[Recording]) -> Recording | None:
    """The recording of a method on a model whose settings are nearest; None where the method was not recorded."""
    fits = [entry for entry in among if (entry.method, entry.traces[-1].model.id) == (one.method, one.model)]

    def alike(entry: Recording) -> int:
        return sum(str(entry.traces[-1].config.get(name)) == str(value) for name, value in one.settings)

    return max(fits, key=alike, default=None)
