"""Draftscope: serve the app on GRADIO_SERVER_NAME and GRADIO_SERVER_PORT (by default 127.0.0.1:7860)."""

import gc
import os
import sys

# gradio reads these when it is imported.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1000000000")  # by default each event sums up all before it

from draftscope.demo.server.startup import ServerError, private_folder, read_port

try:
    read_port()
    private_folder()  # before gradio is imported, too
    if __name__ == "__main__":
        gc.disable()  # what imports and the page make stays: to search it again and again takes a second
except ServerError as error:
    sys.stderr.write(f"{error}\n")
    sys.exit(2)

from draftscope.cli.main import main as run_command
from draftscope.demo.app import build
from draftscope.demo.jobs.recordings import invalid_recordings, recordings
from draftscope.demo.serve import serve
from draftscope.demo.server.limits import ON_SPACE
from draftscope.demo.server.sessions import Visitors
from draftscope.engines.models.errors import ModelError
from draftscope.engines.settings import ConfigError

try:
    visitors = Visitors()
    recorded = recordings()
    invalid = invalid_recordings(recorded)
    demo = build(visitors, recorded, invalid)
    if __name__ == "__main__":
        if os.environ.get(ON_SPACE):  # where no make did; the app works without it
            run_command(["model", "download", "smollm2"])
        serve(demo, visitors, missing=invalid)
except (ConfigError, ModelError, ServerError) as error:  # such as a device that is not there, or a port that is taken
    sys.stderr.write(f"{error}\n")
    sys.exit(2)
