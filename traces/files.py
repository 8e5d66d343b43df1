"""Files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Another file to write to, of the same ending, that takes the place of `path` once all is well.

    Raises:
        OSError: The file cannot be written.
    """
    with NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=f".part{path.suffix}", delete=False) as part:
        temporary = Path(part.name)
    try:
        yield temporary
        temporary.chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
