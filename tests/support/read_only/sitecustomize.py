"""Makes the checkout read-only to a program: Python runs this at its start where PYTHONPATH names the folder.

Permissions would not do, since tests may run as the superuser.
"""

import errno
import os
import sys

_CHECKOUT = os.path.realpath(f"{__file__}/../../../..")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGING = {"os.mkdir", "os.rename", "os.link", "os.symlink", "os.truncate", "os.chmod"}


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        path, _, flags = arguments
        paths = (path,) if isinstance(flags, int) and flags & _WRITING else ()
    else:
        paths = arguments[:2] if event in _CHANGING else ()
    for path in paths:
        if isinstance(path, str | bytes | os.PathLike):
            place = os.path.realpath(os.fsdecode(path))
            if place.startswith(_CHECKOUT + os.sep) and not place.startswith(sys.prefix + os.sep):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), place)


sys.addaudithook(_refuse)
