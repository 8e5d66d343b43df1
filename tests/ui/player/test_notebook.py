"""The widget of notebooks in Chromium, with a model as anywidget gives it one."""

import json
import re

from playwright.sync_api import Page, expect
from support import handmade

from draftscope.notebook import Player

HOST = """async ([code, state]) => {
  const heard = {};
  globalThis.saved = [];
  globalThis.model = {
    get: (name) => state[name],
    set: (name, value) => { state[name] = value; },
    save_changes: () => saved.push([state.step, state.position]),
    on: (name, listener) => { heard[name] = listener; },
    off: (name) => { delete heard[name]; },
    fromPython(name, value) { state[name] = value; heard[`change:${name}`](); },
    heard,
  };
  const module = await import(URL.createObjectURL(new Blob([code], { type: 'text/javascript' })));
  globalThis.remove = module.default.render({ model, el: document.body });
}"""


def test_python_and_reader_move_the_same_player(page: Page) -> None:
    run = handmade.scd()
    widget = Player(handmade.ar(), run, step=1)
    page.set_content("<!doctype html><title>t</title><body></body>")
    page.add_style_tag(content=widget._css)
    state = {name: getattr(widget, name) for name in ("step", "position", "_traces", "_reports", "_data")}
    page.evaluate(HOST, [widget._esm, state])
    expect(page.locator(".ds-token").first).to_be_attached()
    clock = page.get_by_label("Position on the clock")
    expect(clock).to_have_attribute("aria-valuetext", re.compile("^Forward passes 1 of 3"))
    page.evaluate("model.fromPython('step', 2)")
    expect(clock).to_have_attribute("aria-valuetext", re.compile("^Forward passes 2 of 3"))
    page.evaluate("model.fromPython('position', 1)")
    expect(page.locator(".ds-token.is-cursor")).to_have_attribute("data-position", "1")
    assert page.evaluate("saved") == []
    clock.press("End")
    page.wait_for_function(f"saved.at(-1)?.[0] === {len(run.steps)}")
    page.locator(".ds-token[data-position='0']").click()
    page.wait_for_function("saved.at(-1)[1] === 0")
    page.evaluate("remove()")
    assert page.evaluate("[Object.keys(model.heard).length, document.querySelectorAll('.ds-token').length]") == [0, 0]
    assert json.loads(widget._traces)[1]["method"] == run.method
