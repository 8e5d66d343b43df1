"""Accuracy and speed: the results of many runs on problems with known answers, as figure, table and file."""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import gradio as gr

from draftscope.analysis.groups import SPEEDS, Group, gathered, records, varied
from draftscope.analysis.results import Results
from draftscope.analysis.shipped_results import FOLDER
from draftscope.demo.components.context import LATEST, QUIET, Site, Update, serialized, unread
from draftscope.demo.components.figure import Panel
from draftscope.demo.components.widgets import data_table, notice, notice_box, table, upload_file
from draftscope.visualizers import SWEEP_FIGURES, SweepError, SweepView, read_results
from draftscope.visualizers.tables import as_csv

_LEAD: Final = (
    "Many runs on problems with known answers: the share of correct answers against decoding speed. Each point is a "
    "method with its settings. The shipped results were measured with the models of this app; open a file of your own "
    "to compare it with them."
)
_EMPTY: Final = (
    "No results ship with this app yet. `draftscope experiment run benchmarks/grids/text.json -o results.jsonl.gz` "
    "makes some, on all cores or on a cluster; open the file here."
)
_LOADING: Final = "The results are loading."
_NONE: Final = "none"
_TIGHT: Final = "\N{NO-BREAK SPACE}"
TITLES: Final = {
    "tally": "Tally: many right wordings",
    "text": "S2D2 and ordinary decoding",
    "psd": "PSD and its baselines",
    "text-pair": "SimSD",
    "ablations": "S2D2: routers, estimators, tempering",
}
"""Titles of the shipped results, the most informative first."""
_ONE_LINE: Final = 48
"""Characters of a setting's name that are kept on one line."""
_RIGHT: Final = "accuracy"
_HEADS: Final = {
    "label": "Setting",
    "method": "Method",
    "model": "Model",
    "problems": "Problems",
    _RIGHT: "Right",
    "tokens-per-forward": "Tokens per pass",
    "query-tokens-per-token": "Query tokens per token",
    "milliseconds-per-token": "Milliseconds per token",
    "speed-up-forwards": "Speed-up in passes",
    "speed-up-time": "Speed-up in time",
}
"""Columns of the table; its files have all there is."""


class ResultsPanel:
    """A choice of results and of a figure, its table and files."""

    def __init__(self, site: Site) -> None:
        self.site = site
        files = {path.name.partition(".")[0]: path for path in sorted(FOLDER.glob("*.jsonl*"))}
        self.shipped = {name: files[name] for name in dict.fromkeys([*TITLES, *files]) if name in files}
        self.path = gr.State(next(iter(self.shipped.values()), None))
        gr.Markdown(_LEAD if self.shipped else _EMPTY, elem_classes="lead")
        with gr.Row():
            with gr.Column(scale=1, min_width=240):
                self._build_choices()
            with gr.Column(scale=4, min_width=320):
                self.problem = notice_box(elem_id="results-problem")
                self.panel = Panel(self.site, "results")
                self.panel.words.value = _LOADING if self.shipped else ""
                self.notice = notice_box()
        self.table = data_table("Accuracy and speed of every setting", elem_id="results-table")
        self._connect()

    def _build_choices(self) -> None:
        shipped = [(TITLES.get(name, name), name) for name in self.shipped]
        self.which = gr.Dropdown(shipped, label="Shipped results", visible=len(shipped) > 1, elem_id="results-which")
        figures = [(figure.title, name) for name, figure in SWEEP_FIGURES.items()]
        self.figure = gr.Radio(figures, value="frontier", label="Figure", elem_classes="vertical")
        speeds = [(speed.axis, name) for name, speed in SPEEDS.items()]
        self.speed = gr.Dropdown(speeds, value="tokens-per-forward", label="Speed")
        self.baseline = gr.Dropdown(
            [_NONE], value=None, label="Baseline", info="How many times as fast: compared with this."
        )
        self.setting = gr.Dropdown([], label="Along the axis", visible=False)
        self.methods = gr.CheckboxGroup([], label="Methods", visible=False)
        self.upload = upload_file("results-upload", "Open results (.jsonl, .json, .gz)", ".jsonl", ".json", ".gz")

    def _connect(self) -> None:
        chosen: list[Any] = [self.figure, self.speed, self.baseline, self.setting, self.methods]
        drawn = [*self.panel.parts, self.notice, self.table]
        self.inputs: set[Any] = {*chosen, self.path, self.site.look}
        self.parts: list[Any] = [*chosen, *drawn]
        drawing = LATEST | serialized("results")
        gr.on([control.input for control in chosen], self.draw, self.inputs, self.parts, **drawing)
        opened = [self.path, self.which, self.upload, self.problem]
        self.which.input(self.choose, {self.which}, opened, **LATEST)
        self.upload.upload(self.open, {self.upload}, opened, **QUIET)
        self.path.change(self.renew, self.inputs, self.parts, **drawing)  # not after a file that was refused

    def choose(self, values: Update) -> Update:
        """Use shipped results."""
        return {self.path: self.shipped[values[self.which]]}

    def open(self, values: Update, request: gr.Request) -> Update:
        """Take a visitor's file; what is shown stays when the file is not sound."""
        data = values[self.upload] or b""
        try:
            gathered(read_results(data).rows)
        except SweepError as error:
            return {self.problem: notice("error", str(error), "Invalid results file"), self.upload: None}
        path = self.site.visitor(request).file("results")
        path.write_bytes(data)
        return {self.path: path, self.which: None, self.upload: None, self.problem: {}}

    def renew(self, values: Update, request: gr.Request) -> Update:
        """Draw other results, with all of their methods selected."""
        return self._draw({**values, self.methods: None}, request)

    def draw(self, values: Update, request: gr.Request) -> Update:
        """Draw the current results as the form requests, and offer the choices that they allow."""
        return unread(values, self._draw(values, request))

    def _draw(self, values: Update, request: gr.Request) -> Update:
        path: Path | None = values[self.path]
        if path is None:
            return {self.notice: {}}
        if not path.exists():
            return {self.panel.problem: notice("error", "The file is no longer here; open it again.")}
        results = _read(path)
        offered, view, methods = self._offer(results, values)
        rows = [row for row in results.rows if row.method in methods or row.label == view.baseline]
        figure = SWEEP_FIGURES[values[self.figure]]
        update: Update = offered | {
            self.notice: notice("info", results.location, "Measured on") if results.location else {}
        }
        try:
            update |= self.panel.show(figure, figure.draw(rows, view), values[self.site.look], request)
        except SweepError as error:
            update |= self.panel.hide("") | {self.panel.problem: notice("error", str(error), "This cannot be drawn.")}
        return update | {self.table: _table(gathered(rows), view.baseline, results.location)}

    def _offer(self, results: Results, values: Update) -> tuple[Update, SweepView, list[str]]:
        """The choices that the results allow, with what was chosen where that is among them."""
        groups = gathered(results.rows)
        names = list(dict.fromkeys(group.method for group in groups))
        methods = [name for name in values[self.methods] or () if name in names] or names
        labels = [group.label for group in groups]
        bases = [_NONE, *(label for label in labels if labels.count(label) == 1 and label != _NONE)]
        single = (group.label for group in groups if str(group.config.get("block")) == "1")  # ordinary decoding
        baseline = next((label for label in single if label in bases), _NONE)
        base = values[self.baseline] if values[self.baseline] in bases else baseline
        settings = list(varied([row for row in results.rows if row.method in methods]))
        setting = values[self.setting] if values[self.setting] in settings else next(iter(settings), None)
        along = values[self.figure] == "setting"
        offered = {
            self.baseline: gr.update(choices=bases, value=base),
            self.setting: gr.update(choices=settings, value=setting, visible=along),
            self.methods: gr.update(choices=names, value=methods, visible=len(names) > 1),
        }
        view = SweepView(speed=values[self.speed], baseline=None if base == _NONE else base, setting=setting)
        return offered, view, methods


@lru_cache(maxsize=2)
def _read(path: Path) -> Results:
    """Results, kept for the next drawing; paths of visitors are never used twice."""
    return read_results(path.read_bytes())


def _table(groups: Sequence[Group], baseline: str | None, environment: str) -> dict[str, Any]:
    """One line a setting, without columns that say the same everywhere, and all numbers as files."""
    try:
        rows = records(groups, baseline)
    except SweepError:  # a baseline without a cost, which the figure has complained about where it matters
        rows = records(groups)
    several = len({row["model"] for row in rows}) > 1
    columns = [name for name in _HEADS if name != "model" or several]
    columns = [name for name in columns if name == _RIGHT or any(row[name] is not None for row in rows)]
    lines = [[_percent(row) if name == _RIGHT else row[name] for name in columns] for row in rows]
    for line in lines:  # short texts stay on one line: the table scrolls
        line[:] = [v.replace(" ", _TIGHT) if isinstance(v, str) and len(v) <= _ONE_LINE else v for v in line]
    files = {
        "accuracy-and-speed.csv": as_csv(list(rows[0]), [list(row.values()) for row in rows]),
        "accuracy-and-speed.json": json.dumps({"measured_on": environment, "groups": rows}, indent=1),
    }
    return table([_HEADS[name] for name in columns], lines) | {"files": files}


def _percent(row: dict[str, Any]) -> str:
    error = row["accuracy_standard_error"]
    spread = f" ± {100 * error:.1f}" if error is not None else ""
    return f"{100 * row['accuracy']:.1f}{spread} %"
