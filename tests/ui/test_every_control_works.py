"""Every control has an effect: it changes the link or something visible."""

import pytest
from playwright.sync_api import Browser
from support.browser import visit

USED = """async ([scope, staged, clock]) => {
  const player = draftscopePlayers.viewer;
  const seen = (node) => [node.className, node.style?.cssText, node.value, node.checked,
    node.localName === 'canvas' ? node.toDataURL() : node.children.length ? '' : node.textContent];
  const beside = (own) => [location.hash, player.speed, ...[...document.querySelectorAll('[role=tabpanel] *')]
    .map((node) => node === own || !node.checkVisibility() ? '' : seen(node))].join();
  const moment = () => new Promise((done) => setTimeout(done, 50));
  const soon = async (holds, tries = 600) => holds() || (tries > 0 && (await moment(), soon(holds, tries - 1)));
  for (const [used, idle] = [new Set(), []];;) {
    document.activeElement.blur();
    player.explore();
    player.useStage(staged);
    player.useClock(clock);
    player.worked.go('rejection');
    clearTimeout(player.settling);  // the address changes for the control alone
    let before;
    await soon(() => before === (before = beside()));
    const usable = (one) => one.checkVisibility() && !one.disabled && !used.has(one);
    const control = [...document.querySelectorAll(scope)].find(usable);
    if (!control) return [used.size, idle];
    before = beside(used.add(control) && control);
    const { localName, type, value, min, max } = control;
    if (localName === 'select') control.selectedIndex += control.selectedIndex ? -1 : 1;
    else if (['range', 'number'].includes(type)) control.value = value === max ? min : max;
    else control.focus() || control.click();
    for (const kind of ['input', 'change']) control.dispatchEvent(new Event(kind, { bubbles: true }));
    if (!await soon(() => beside(control) !== before)) idle.push(control.outerHTML.slice(0, 200));
  }
}"""
STAGE = "#viewer :is(.ds-stage, .ds-controls) :is(button, input)"
VIEWS = "#viewer :is(button, select, input, summary)"
FORM = ":is(.ds-choose, #ask, .settings) :is(button, [role=combobox]):not(#run, #stop, [aria-label^=Reset])"


@pytest.mark.parametrize("case", [(STAGE, True, "passes"), (VIEWS, False, "computed"), (FORM, True, "passes")])
def test_every_control_does_something(browser: Browser, shipped_server: str, case: tuple[str, bool, str]) -> None:
    with visit(browser, shipped_server) as page:
        page.wait_for_function("globalThis.draftscopeOpened")
        used, idle = page.evaluate(USED, [*case])
        assert idle == [] and used > 8
