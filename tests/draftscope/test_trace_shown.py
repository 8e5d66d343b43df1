"""A trace as notebooks have it: one line, the player, a table."""

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect
from support import handmade
from support.browser import visit
from support.hostile import HOSTILE, written

import draftscope as ds
import traces
from draftscope.trace import displayable
from visualizers import FigureError
from visualizers.page import POLICY


def test_a_trace_to_show_equals_the_trace_and_says_itself_in_one_line() -> None:
    same = displayable(handmade.scd())
    assert same == handmade.scd() == same != handmade.ar() and same != "trace"
    assert isinstance(replace(same, note="x"), ds.Trace)
    assert traces.dumps(same) == traces.dumps(handmade.scd())
    trace = replace(handmade.scd(), method="scd\n<b>", seed=None)
    assert repr(trace) == "<Trace scd <b> on hand/made: 6 tokens in 3 forward passes>"
    assert repr(displayable(handmade.simsd())) == (
        "<Trace simsd on hand/made, seed 7: 1 tokens in 3 forward passes, incomplete>"
    )


def test_the_player_is_framed_with_the_pages_policy() -> None:
    frame = displayable(replace(handmade.scd(), prompt=HOSTILE))._repr_html_()
    assert re.fullmatch(r"<iframe [^<>]*></iframe>", frame, re.DOTALL)
    assert 'sandbox="allow-scripts"' in frame
    (inner,) = re.findall(r'srcdoc="([^"]*)"', frame)
    assert html.escape(POLICY) in html.unescape(inner)


def test_the_player_runs_in_the_frame(browser: Browser) -> None:
    asked: list[str] = []
    frame = displayable(replace(written(), prompt=HOSTILE))._repr_html_()

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(body=f"<html>{frame}</html>", content_type="text/html")

    with visit(browser) as page:
        page.route("**/*", answer)
        page.goto("http://notebook.test/")
        inside = page.frame_locator("iframe")
        expect(inside.get_by_role("img", name="The text so far: The")).to_be_visible()
        inside.locator("body").press("End")
        inside.locator("body").press("Home")
        assert asked == ["http://notebook.test/"]
        assert page.evaluate("globalThis.pwned") is None


def test_a_table_has_a_row_for_every_entry() -> None:
    trace = displayable(handmade.scd())
    table = trace.columns()
    assert {len(column) for column in table.values()} == {10}
    assert table["step"] == [0] * 4 + [1] * 4 + [2] * 2
    assert table["fate"][:2] == ["accepted", "resampled"]
    assert table["coin"][4] is None
    assert table["tv"][:4] == [0.5, 0.875, 0.75, 0.5]
    spent = trace.steps[0].call.milliseconds.total
    assert table["milliseconds"][:4] == [spent] * 4 and spent > 0
    assert displayable(handmade.ar()).columns()["text"] == ["The", "boot", "<end>"]
    pandas = pytest.importorskip("pandas")
    for make in handmade.ALL.values():
        frame = displayable(make()).to_pandas()
        assert isinstance(frame, pandas.DataFrame)
        assert list(frame["position"]) == [at for step in make().steps for at in step.position]


def test_figures_by_name() -> None:
    trace = handmade.scd()
    assert ds.figure("churn", trace).data
    dark, light = (ds.figure("race", trace, theme=theme) for theme in ("dark", "light"))
    assert dark.layout.template != light.layout.template
    assert set(ds.figures(trace)) < set(ds.figures())
    with pytest.raises(FigureError, match="figure: there is no 'chrun'; choose one of canvas, "):
        ds.figure("chrun", trace)
    with pytest.raises(FigureError, match="step 9: choose a step from 0 to 3"):
        ds.figure("canvas", trace, step=9)


@pytest.mark.slow
def test_a_page_of_one_or_several(tmp_path: Path) -> None:
    page = ds.view(handmade.scd(), tmp_path / "one.html", figures=False)
    assert "<title>Draftscope</title>" in page.read_text()
    both = ds.view([handmade.scd(), handmade.jacobi()], tmp_path / "two.html", title="Two")
    assert 'id="figure-race"' in both.read_text()
    with pytest.raises(ValueError, match=r"path: 'run.pdf' must end in \.html"):
        ds.view(handmade.scd(), tmp_path / "run.pdf")
