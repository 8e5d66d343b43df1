"""Debian packages with data to train on: unpacked into the cache folder, never committed."""

import subprocess
from pathlib import Path

from engines.assets import cache_dir


def fetch(*packages: str) -> Path:
    """Unpack packages, which apt-get downloads, into the cache and return the root of their files."""
    root = cache_dir() / "debs"
    for package in packages:
        stamp = root / f".{package}"
        if stamp.exists():
            continue
        root.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-q", package], cwd=root, check=True)
        (deb,) = root.glob(f"{package}_*.deb")
        subprocess.run(["dpkg-deb", "-x", str(deb), str(root)], check=True)
        deb.unlink()
        stamp.touch()
    return root
