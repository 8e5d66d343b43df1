"""What is said of where a run happens."""

import os
import subprocess
from pathlib import Path

import pytest

from engines.runtime import environment


def test_asking_for_the_commit_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git would refresh its index, and leave a lock behind where the disk is full."""

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a", *arguments], cwd=tmp_path, check=True)

    (tmp_path / "a.txt").write_text("a")
    git("init", "-q")
    git("add", "a.txt")
    git("commit", "-qm", "a")
    os.utime(tmp_path / "a.txt", (1, 1))
    index = (tmp_path / ".git" / "index").read_bytes()
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "engines" / "runtime" / "environment.py"))
    environment.commit.cache_clear()
    try:
        assert len(environment.commit()) == 40
        (tmp_path / "a.txt").write_text("b")
        environment.commit.cache_clear()
        assert environment.commit().endswith("+dirty")
    finally:
        environment.commit.cache_clear()
    assert (tmp_path / ".git" / "index").read_bytes() == index
