"""The page of a certificate: the verdict, what it rests on, and pictures."""

import html

from draftscope.analysis.certificates import Certificate
from draftscope.visualizers.figure_page import page_of
from draftscope.visualizers.figures.certificates import CERTIFICATE_FIGURES


def certificate_page(certificate: Certificate) -> str:
    """Return a self-contained page."""
    created = str(certificate.about.get("created", ""))
    sampling = ", ".join(f"{name} {value:g}" for name, value in certificate.sampling.items())
    rates = (
        f"A lossless engine is called biased with a probability of at most {certificate.false_alarm:g}; what would "
        f"have been found is found with a probability of {1 - certificate.missed:g}. Sampling: {sampling}. {created}"
    )
    head = (
        f"<h1>{html.escape(certificate.verdict.capitalize())}: {html.escape(certificate.reason)}</h1>\n"
        f'<pre style="white-space: pre-wrap">{html.escape(str(certificate))}</pre>\n<p>{html.escape(rates)}</p>'
    )
    return page_of([(figure, figure.draw(certificate)) for figure in CERTIFICATE_FIGURES], before=head)
