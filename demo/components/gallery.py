"""Gallery: a strip of recorded runs, to be played on the stage, no model needed."""

from collections.abc import Sequence

import gradio as gr

from draftscope.analysis.run_report import times
from draftscope.demo.components.widgets import Card, card_grid, chosen_index, notice, notice_box
from draftscope.demo.jobs.recordings import Recording
from draftscope.engines.methods import METHODS
from draftscope.engines.settings import ConfigError

_LEAD = "**Recorded runs.** Choose one to play it above; nothing is computed."
_EMPTY = "There is no recorded run in assets/traces. `make traces` records what gallery.json lists."


class GalleryPanel:
    """Cards, one a recording."""

    def __init__(self, entries: Sequence[Recording], unreadable: Sequence[str] = ()) -> None:
        """Lay it out; `gone` are recordings that should be there."""
        self.entries = entries
        gr.Markdown(_LEAD if self.entries else _EMPTY, elem_classes="lead")
        if unreadable:
            count = f"{len(unreadable)} recording{'s' * (len(unreadable) > 1)}"
            missing = notice("warning", f"{', '.join(unreadable)}: missing or damaged.", f"Without {count}.")
            notice_box(missing, elem_id="gallery-gone")
        self.cards = card_grid([_card(entry) for entry in self.entries], elem_id="gallery", visible=bool(self.entries))

    def chosen(self, index: object) -> Recording:
        """The recording of the card that was pressed, or a gr.Error for a card that there is not."""
        return self.entries[chosen_index(index, len(self.entries), "recording")]

    def named(self, name: str) -> Recording:
        """The recording that an address names. Raises ConfigError when there is none of that name."""
        for entry in self.entries:
            if name == entry.name:
                return entry
        raise ConfigError(f"gallery: {name[:60]!r} is not available; choose one of the recorded runs.")


def _card(entry: Recording) -> Card:
    output = entry.traces[-1].output
    prefix = output.given or 0  # of a clip a frame is shown, from the middle of what was decoded
    still = output.video[(prefix + len(output.video)) // 2] if len(output.video) > prefix else ""
    return Card(
        entry.title,
        entry.note,
        entry.about,
        output.image or still,
        output.text or "",
        METHODS[entry.method].title if entry.method in METHODS else entry.method,
        badge(entry),
    )


def badge(entry: Recording) -> str:
    """Return the badge of a recording: how fast it was, and whether it is exact."""
    report = entry.report
    ratio = report.time_ratio
    return f"{times(ratio)} × as fast, {report.fidelity}" if ratio else report.fidelity
