"""Serves the app with the recordings of a folder, in a process of its own: `python -m support.served FOLDER`."""

import sys
from pathlib import Path

from demo.app import build
from demo.recordings import recordings
from demo.server import serve
from demo.sessions import Visitors

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    visitors = Visitors()
    serve(build(visitors, recordings(folder)), visitors, folder)
