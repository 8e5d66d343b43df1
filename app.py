"""Draftscope: serve the app on GRADIO_SERVER_NAME and GRADIO_SERVER_PORT (by default 127.0.0.1:7860)."""

import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # gradio reads it when it is imported

from demo.app import build
from demo.recordings import recordings
from demo.server import serve
from demo.sessions import Visitors

visitors = Visitors()
demo = build(visitors, recordings())

if __name__ == "__main__":
    serve(demo, visitors)
