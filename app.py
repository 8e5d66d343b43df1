"""Draftscope: serve the app on GRADIO_SERVER_NAME and GRADIO_SERVER_PORT (by default 127.0.0.1:7860)."""

import os
import sys

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # gradio reads it when it is imported

from demo.app import build
from demo.recordings import recordings
from demo.server import serve
from demo.sessions import Visitors
from engines.config import ConfigError
from engines.models.errors import ModelError

visitors = Visitors()
try:
    demo = build(visitors, recordings())
except (ConfigError, ModelError) as error:  # such as a device that is not there
    sys.stderr.write(f"{error}\n")
    sys.exit(2)

if __name__ == "__main__":
    serve(demo, visitors)
