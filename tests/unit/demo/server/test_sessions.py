"""Folders of users, and their removal while the app still works for them."""

import time
from itertools import count
from threading import Event, Thread

import pytest

from draftscope.demo.server.sessions import Visitors


def test_no_folder_is_left_when_the_app_is_stopped_under_its_users() -> None:
    """Removing file by file alone left the root in CI: a page that was closed made its folder again meanwhile."""
    for _ in range(5):
        visitors, stopped, busy = Visitors(), Event(), Event()
        threads = [Thread(target=_use, args=(visitors, name, stopped, busy)) for name in "ab"]
        for thread in threads:
            thread.start()
        try:
            assert busy.wait(60)
            visitors.close()
            assert not visitors.root.exists()
        finally:
            stopped.set()
            for thread in threads:
                thread.join()
        assert not [*visitors.root.parent.glob(f"{visitors.root.name}*")]


def _use(visitors: Visitors, name: str, stopped: Event, busy: Event) -> None:
    """Do what pages and runs do, until the app has stopped."""
    for number in count():
        if stopped.is_set():
            return
        try:
            visitor = visitors.of(f"{name}{number}")
            visitor.file("animation.gif").write_bytes(b"GIF")
            visitor.delete_files()
        except (FileNotFoundError, FileExistsError):  # mkdir may find a folder, and then no folder
            assert visitors._closed
        if number == 10:
            busy.set()


def test_a_root_that_the_system_removed_is_made_again_while_the_app_runs() -> None:
    visitors = Visitors()
    visitors.root.rmdir()
    visitors.prune()
    assert visitors.of("a").folder.is_dir()
    visitors.close()
    with pytest.raises(FileNotFoundError):
        visitors.of("a")


def test_folders_that_two_requests_remove_at_once_are_no_error() -> None:
    visitors = Visitors()
    for number in range(200):
        visitors.of(str(number)).stop()
    failed = list[Exception]()

    def prune() -> None:
        try:
            visitors.prune(-time.time())
        except Exception as error:
            failed.append(error)

    threads = [Thread(target=prune) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    visitors.prune(-time.time())
    assert not [*visitors.root.iterdir()]
    visitors.close()
