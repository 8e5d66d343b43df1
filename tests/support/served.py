"""Serves the app with the recordings of a folder, in a process of its own: `python -m support.served FOLDER`."""

import sys
from pathlib import Path

from demo.private import private_folder

if __name__ == "__main__":
    private_folder()  # before gradio is imported, as app.py does
    from demo.app import build
    from demo.recordings import left_out, recordings
    from demo.server import serve
    from demo.sessions import Visitors

    folder = Path(sys.argv[1])
    visitors = Visitors()
    found = recordings(folder)
    gone = left_out(found, folder)
    serve(build(visitors, found, gone), visitors, folder, gone)
