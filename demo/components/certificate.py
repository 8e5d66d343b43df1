"""A certificate of an engine that a visitor opens: the verdict, what it rests on, and its figures."""

from typing import Any, Final

import gradio as gr

from draftscope.analysis.certificates import Certificate, read_certificate
from draftscope.demo.components.context import LATEST, QUIET, Site, Update, serialized
from draftscope.demo.components.figure import Panel
from draftscope.demo.components.widgets import notice, notice_box, upload_file
from draftscope.visualizers import SweepError
from draftscope.visualizers.figures.certificates import CERTIFICATE_FIGURES

_LEAD: Final = (
    "`draftscope certify ENGINE -o certificate.json` compares an engine with drafts, such as a server, with the exact "
    "distribution of its model. Open the file to see what was found."
)
_FIGURES: Final = {figure.name: figure for figure in CERTIFICATE_FIGURES}


class CertificateView:
    """An upload, the verdict as text, and a choice of figures."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.certificate: Any = gr.State(None)
        gr.Markdown(_LEAD, elem_classes="lead")
        with gr.Row():
            with gr.Column(scale=1, min_width=240):
                choices = [(figure.title, name) for name, figure in _FIGURES.items()]
                self.figure = gr.Radio(
                    choices, value=next(iter(_FIGURES)), label="Figure", visible=False, elem_classes="vertical"
                )
                self.upload = upload_file("certificate-upload", "Open a certificate (.json)", ".json")
            with gr.Column(scale=4, min_width=320):
                self.verdict = notice_box(elem_id="certificate-verdict")
                self.panel = Panel(site, "certificate")
                self.text = gr.Textbox(label="Certificate", lines=4, max_lines=20, visible=False, interactive=False)
        drawing = LATEST | serialized("certificate")
        parts: list[Any] = [self.certificate, self.upload, self.figure, self.verdict, self.text, *self.panel.parts]
        self.upload.upload(self.open, {self.upload, self.figure, site.look}, parts, **QUIET)
        self.figure.input(self.draw, {self.certificate, self.figure, site.look}, self.panel.parts, **drawing)

    def open(self, values: Update, request: gr.Request) -> Update:
        """Show a visitor's file, or what is wrong with it."""
        try:
            found = read_certificate(values[self.upload] or b"")
        except SweepError as error:
            return {self.verdict: notice("error", str(error), "Invalid certificate"), self.upload: None}
        return {
            self.certificate: found,
            self.upload: None,
            self.figure: gr.update(visible=True),
            self.verdict: notice(
                "error" if found.verdict == "biased" else "info", found.reason, found.verdict.capitalize()
            ),
            self.text: gr.update(value=str(found), visible=True),
            **self.draw({**values, self.certificate: found}, request),
        }

    def draw(self, values: Update, request: gr.Request) -> Update:
        """Draw the chosen figure."""
        found: Certificate | None = values[self.certificate]
        if found is None:
            return self.panel.hide("")
        figure = _FIGURES[values[self.figure]]
        return self.panel.show(figure, figure.draw(found), values[self.site.look], request)
