"""The port to serve on, looked at before gradio is imported: gradio reads it then, and takes it for a number."""

import os
import socket
from typing import Final

VARIABLE: Final = "GRADIO_SERVER_PORT"
USUAL: Final = 7860
_LAST: Final = 65535


class ServerError(RuntimeError):
    """The app cannot be served where it was asked to; the message names what is wrong and the remedy."""


def read_port() -> int:
    """The port to serve on.

    Raises:
        ServerError: for what is no port.
    """
    text = os.environ.get(VARIABLE) or str(USUAL)
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:6]) <= _LAST):
        raise ServerError(f"{VARIABLE}: {text[:40]!r} is no port; use a whole number from 1 to {_LAST}.")
    return int(text)


def free_port() -> int:
    """The port to serve on, which nobody else does. Gradio would take the next one, where nobody looks for it.

    Raises:
        ServerError: for what is no port, or taken.
    """
    port = read_port()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ServerError(f"{VARIABLE}: {port} cannot be served on ({error.strerror}); choose another.") from None
    return port
