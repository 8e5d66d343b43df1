"""No control does nothing: using one changes the address, or what is seen beside it."""

import pytest
from playwright.sync_api import Browser
from support.browser import visit

USED = """async ([scope, staged, clock]) => {
  const player = draftscopePlayers.viewer;
  const seen = (node) => node.localName === 'canvas' ? node.toDataURL()
    : [node.className, node.value, node.checked, node.children.length ? '' : node.textContent].join();
  const beside = (own) => [location.hash, player.speed, ...[...document.querySelectorAll('[role=tabpanel] *')]
    .map((node) => node === own || !node.checkVisibility() ? '' : seen(node))].join();
  const soon = async (holds, tries = 40) => {
    while (tries-- && !holds()) await new Promise((done) => setTimeout(done, 50));
    return tries >= 0;
  };
  const name = ({ ariaLabel, labels, textContent }) => (ariaLabel || labels?.[0]?.textContent || textContent).trim();
  for (const [met, idle] = [new Set(['Run', 'Stop']), []];;) {
    player.explore();
    player.useStage(staged);
    player.useClock(clock);
    player.worked.go('rejection');
    let before;
    await soon(() => before === (before = beside()));
    const usable = [...document.querySelectorAll(scope)].filter((one) => one.checkVisibility() && !one.disabled);
    const control = usable.find((one) => !met.has(name(one)));
    if (!control) return [[...met], idle];
    before = beside(control);
    met.add(name(control));
    const { localName, type, value, min, max } = control;
    control.focus();
    if (localName === 'select') control.selectedIndex += control.selectedIndex ? -1 : 1;
    else if (['range', 'number'].includes(type)) control.value = value === max ? min : max;
    else control.click();
    for (const kind of ['input', 'change']) control.dispatchEvent(new Event(kind, { bubbles: true }));
    if (!await soon(() => beside(control) !== before)) idle.push(name(control));
  }
}"""
PLAYER = "#viewer :is(button, select, input, summary)"
FORM = ":is(#ask, .settings) :is(button, [role=combobox])"
CASES = [(PLAYER, True, "passes", "Numbers"), (PLAYER, False, "computed", "Batch"), (FORM, True, "passes", "Method")]


@pytest.mark.parametrize(("scope", "staged", "clock", "one"), CASES)
def test_every_control_does_something(
    browser: Browser, shipped_server: str, scope: str, staged: bool, clock: str, one: str
) -> None:
    with visit(browser, shipped_server) as page:
        page.wait_for_function("globalThis.draftscopeOpened")
        met, idle = page.evaluate(USED, [scope, staged, clock])
        assert idle == [] and one in met
