import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.raster import decoded

from demo.sessions import Visitors, file_name


@pytest.mark.parametrize("session", ["../../etc", "/", "", "a" * 5000, "x\0y", None])
def test_a_session_cannot_choose_its_folder(session: str | None) -> None:
    visitors = Visitors()
    folder = visitors.of(session).folder
    assert folder.parent == visitors.root
    assert folder == visitors.of(session).folder
    assert folder.name.isalnum()


def test_folders_cannot_be_guessed_from_the_session() -> None:
    assert Visitors().of("me").folder.name != Visitors().of("me").folder.name


def test_a_request_to_stop_concerns_one_visitor_and_one_run() -> None:
    visitors = Visitors()
    me, other = visitors.of("me"), visitors.of("other")
    me.start()
    me.stop()
    assert me.stopped()
    assert not other.stopped()
    me.start()
    assert not me.stopped()


def test_kept_traces_can_be_read_again_until_the_visitor_leaves() -> None:
    visitor = Visitors().of("me")
    trace = decoded("scd", window=16)
    shown = visitor.keep([trace], "your last run")
    assert shown.traces() == (trace,)
    visitor.leave()
    assert not shown.paths[0].exists()
    assert visitor.stopped()


@pytest.mark.parametrize("method", ["../../../out", "/out", "a/b", "..", "x\n", "A" * 500, "${1}", "<b>"])
def test_a_trace_cannot_choose_where_it_is_kept(method: str) -> None:
    visitor = Visitors().of("me")
    trace = replace(decoded("ar"), method=method)
    (path,) = visitor.keep([trace], "the file you opened").paths
    assert path.resolve().parent == visitor.folder
    assert path.name.startswith("trace-seed-0-")
    assert file_name(trace) == "trace-seed-0"
    assert file_name(replace(trace, method="ete-style", seed=3)) == "ete-style-seed-3"


def test_old_folders_are_pruned() -> None:
    visitors = Visitors()
    old, new = visitors.of("old"), visitors.of("new")
    for visitor in (old, new):
        visitor.start()
    an_hour_ago = time.time() - 3600
    os.utime(old.folder, (an_hour_ago, an_hour_ago))
    visitors.prune(60)
    assert not old.folder.exists()
    assert new.folder.exists()


def test_the_root_is_removed_with_the_visitors() -> None:
    visitors = Visitors()
    root: Path = visitors.root
    del visitors
    assert not root.exists()
