"""The four tabs: each has an address that Back and reload keep to, the form is near the keyboard, no panel is blank."""

from playwright.sync_api import Page, expect


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def shows(page: Page, name: str, begins: str, run: str = "") -> None:
    """The tab, and a link that starts with `begins` and names a run; the position follows."""
    expect(page.get_by_role("tab", name=name, exact=True)).to_have_attribute("aria-selected", "true")
    page.wait_for_function(
        """([begins, run]) => location.hash.startsWith(begins) && location.hash.includes(run)
        && (begins || !location.hash.includes('tab='))""",
        arg=[begins, run],
    )


def test_back_and_reload_and_a_shared_link_open_the_same_tab(page: Page, server: str) -> None:
    open_tab(page, "Choose")
    shows(page, "Choose", "#tab=choose")
    open_tab(page, "Learn")
    shows(page, "Learn", "#tab=learn")
    page.go_back()
    shows(page, "Choose", "#tab=choose")
    page.go_back()
    shows(page, "Watch", "")
    page.go_forward()
    shows(page, "Choose", "#tab=choose")
    page.reload(wait_until="load")
    shows(page, "Choose", "#tab=choose")
    expect(page.locator("#choose-answer p").first).to_be_visible()

    page.goto("about:blank")
    page.goto(f"{server}#tab=learn&gallery=scd")
    shows(page, "Learn", "#tab=learn&gallery=scd")
    open_tab(page, "Watch")
    shows(page, "Watch", "#gallery=scd")
    page.wait_for_function("draftscopePlayers.viewer.called === 'gallery=scd'")
    page.goto("about:blank")
    page.goto(f"{server}#plan.device=H200&plan.drafts=6")
    shows(page, "Choose", "#tab=choose", "plan.device=H200")
    expect(page.locator("#calculator-plot .gtitle-subtitle")).to_contain_text(
        "H200, CUDA graphs, acceptance 80% (70% to 90%), γ 6"
    )
    page.goto("about:blank")
    page.goto(f"{server}#tab=nowhere")
    expect(page.locator("#problem [role=alert]")).to_contain_text("tab: 'nowhere' is not here; choose one of watch")


def test_the_first_stop_leads_to_the_form_and_terms_are_one(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the run form")).to_be_focused()
    open_tab(page, "Choose")  # from another tab, too
    page.get_by_role("link", name="Skip to the run form").press("Enter")
    expect(page.locator("#run")).to_be_focused()  # the model takes no prompt
    page.get_by_role("link", name="Skip to the run form").focus()
    stop = "document.activeElement.matches('.ds-term') ? 'term' : document.activeElement.id"
    stops = [""]
    while not {"run", "term"} <= set(stops) and len(stops) < 90:
        page.keyboard.press("Tab")
        stops.append(page.evaluate(stop))
    assert {"run", "term"} <= set(stops), stops
    for _ in range(8):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(stop))
    assert stops.count("term") == 1, stops
    terms = page.locator(".ds-term:visible")
    terms.first.focus()
    page.keyboard.press("ArrowRight")
    expect(terms.nth(1)).to_be_focused()
    expect(page.get_by_role("tooltip")).to_be_visible()


def test_results_that_are_late_leave_no_panel_blank(page: Page) -> None:
    """The initial state of Compare and Learn is tested in test_run_page.py."""
    open_tab(page, "Choose")
    page.route("**/queue/join*", lambda route: None)  # no answer comes
    page.locator("#results > button").click()
    expect(page.locator("#results")).to_contain_text("The results are loading.")
