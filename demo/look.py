"""How the page looks at a visitor's: dark or light, and whether it is as narrow as a phone held upright."""

from typing import Final

import gradio as gr

from demo.site import DARK, NARROW

_PHONE: Final = "matchMedia('(max-width: 640px)')"
LOOK: Final = f"""() => [
  document.body.classList.contains('dark') && '{DARK}', {_PHONE}.matches && '{NARROW}',
].filter(Boolean).join(' ')"""
"""Script that says what holds, for `Site.look`."""


_WATCH: Final = f"""
const phone = {_PHONE};
phone.addEventListener('change', () => trigger('turned', {{ narrow: phone.matches }}));
"""


def turning() -> gr.HTML:
    """A component that shows nothing; its event `turned` says whether the page is narrow from now on."""
    return gr.HTML(html_template="<div></div>", js_on_load=_WATCH, apply_default_css=False, elem_id="turning")
