"""Serves the app with the recordings of a folder, in a process of its own: `python -m support.serve_folder FOLDER`."""

import gc
import sys
from pathlib import Path

from draftscope.demo.server.startup import private_folder

if __name__ == "__main__":
    private_folder()  # before gradio is imported, as app.py does
    gc.disable()
    from draftscope.demo import serve
    from draftscope.demo.app import build
    from draftscope.demo.jobs.recordings import invalid_recordings, recordings
    from draftscope.demo.server.sessions import Visitors

    serve._WARMED_UP = ()  # models are loaded by the tests that run one
    folder = Path(sys.argv[1])
    visitors = Visitors()
    found = recordings(folder)
    invalid = invalid_recordings(found, folder)
    serve.serve(build(visitors, found, invalid), visitors, folder, invalid)
