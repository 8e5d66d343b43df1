"""The player as a widget of notebooks: what is shown can be set from Python, and Python hears what a reader chooses.

A trace at the end of a cell shows the player without this module. Here `step` and `position` go both ways. What a trace
says is data: the player shows it as text, and nothing of it is executed.
"""

import json
from typing import Any, Final

try:
    import anywidget
    import traitlets
except ModuleNotFoundError as error:
    raise ImportError("draftscope.notebook needs anywidget: pip install 'draftscope[notebook]'") from error

from draftscope.analysis.run_report import report_messages
from draftscope.traces import Trace
from draftscope.traces.io import dumps
from draftscope.traces.replay import canvas_size
from draftscope.visualizers import player

_RENDER: Final = """
function render({ model, el }) {
  const root = el.appendChild(document.createElement("div"));
  const shown = () => view.present().at(-1)?.replay.stepsAt(view.clock, view.now) ?? 0;
  const data = JSON.parse(model.get("_data"));
  const view = Draftscope.mount(root, { data, hash: false, emit(name, { counts, position }) {
    if (name !== "moved" || settling) return;
    const step = counts.at(-1) ?? 0;
    if (step === model.get("step") && position === model.get("position")) return;
    model.set("step", step);
    model.set("position", position);
    model.save_changes();
  } });
  let settling = true; // until what Python asked for is shown
  view.load(JSON.parse(model.get("_traces")), { reports: JSON.parse(model.get("_reports")) });
  const follow = () => {
    if (model.get("step") !== shown()) view.set(view.readingOf(model.get("step")));
    const position = model.get("position");
    if (position !== view.position) Object.assign(view, { position, pinned: position !== null });
    settling = false;
    view.schedule();
  };
  model.on("change:step", follow);
  model.on("change:position", follow);
  follow();
  return () => {
    model.off("change:step", follow);
    model.off("change:position", follow);
    view.destroy();
  };
}
export default { render };
"""


class Player(anywidget.AnyWidget):
    """The player of one or more traces, for a cell of Jupyter, JupyterLab, VS Code, Colab or marimo.

    `step` and `position` follow what is shown, and setting them changes it:

        player = Player(ordinary, trace)
        player.observe(lambda change: print(trace.output.tokens[change.new]), "position")

    Args:
        traces: At least one, with steps; several are shown side by side.

    Raises:
        ValueError: When there are no traces, or one has sums in place of steps.
        traitlets.TraitError: When `step` or `position` is set to what the last trace does not have.
    """

    step = traitlets.Int(0, min=0).tag(sync=True)
    """Forward passes of the last trace that are shown; at first all of them."""
    position = traitlets.Int(None, allow_none=True, min=0).tag(sync=True)
    """Position in the output that the reader points at or chose; None for none."""
    _traces = traitlets.Unicode().tag(sync=True)
    _reports = traitlets.Unicode().tag(sync=True)
    _data = traitlets.Unicode().tag(sync=True)
    _esm = f"{player.script()}{_RENDER}"
    _css = player.style()

    def __init__(self, *traces: Trace, **traits: Any) -> None:
        if not traces or any(trace.sums for trace in traces):
            raise ValueError("traces: the player needs at least one trace with its steps; ds.view shows sums as text")
        self._maximum = {"step": len(traces[-1].steps), "position": canvas_size(traces[-1].canvas) - 1}
        super().__init__(
            _traces="[" + ",".join(dumps(trace).decode() for trace in traces) + "]",
            _reports=json.dumps(report_messages(traces)),
            _data=json.dumps(player.data()),
            **{"step": self._maximum["step"], **traits},
        )

    @traitlets.validate("step", "position")
    def _check(self, proposal: Any) -> int | None:
        name, value = proposal.trait.name, proposal.value
        if value is not None and value > self._maximum[name]:
            raise traitlets.TraitError(f"{name}: {value} is not allowed; use 0 to {self._maximum[name]}.")
        return value  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        """The player in one line."""
        return f"<Player at step {self.step}, position {self.position}>"
