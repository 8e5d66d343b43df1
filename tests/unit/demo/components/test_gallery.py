"""Cards of the gallery."""

from dataclasses import replace

from support.page_handlers import Parts
from support.toy_videos import film

from draftscope.analysis.run_report import times
from draftscope.demo.components.context import Update
from draftscope.demo.components.gallery import _card, badge
from draftscope.engines.methods import METHODS


def opened(parts: Parts, fragment: str) -> Update:
    return parts.opening.open({parts.opening.fragment: fragment})


def test_gallery_cards_open_by_name_stand_by_method_and_say_what_was_saved(parts: Parts) -> None:
    (entry, *_) = parts.watch.gallery.entries
    assert opened(parts, f"#gallery={entry.name}")[parts.watch.site.shown].paths == entry.paths
    (card, *_) = parts.watch.gallery.cards.value
    assert card["group"] == METHODS[entry.method].title
    assert card["badge"] == f"{times(entry.report.time_ratio or 0)} × as fast, exact"
    stopped = replace(entry.traces[-1], summary=replace(entry.traces[-1].summary, complete=False))
    assert badge(entry._replace(traces=(entry.traces[0], stopped))) == "exact"
    assert badge(entry._replace(traces=(entry.traces[0],) * 2)) == "1.0 × as fast, exact"
    clip = film(2, 5, prefix=4)
    assert _card(entry._replace(traces=(clip,))).image == clip.output.video[12]  # 16 frames after the given ones
