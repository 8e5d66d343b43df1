"""A visitor's folder: nobody chooses or guesses it, and it goes."""

import os
import time
from dataclasses import replace

from support.raster import decoded

from demo.server.sessions import Visitors, file_name


def test_a_session_can_neither_choose_nor_guess_a_folder() -> None:
    visitors = Visitors()
    for session in ("../../etc", "/", "", "a" * 5000, "x\0y", None):
        folder = visitors.of(session).folder
        assert folder.parent == visitors.root and folder.name.isalnum()
        assert folder == visitors.of(session).folder
    assert visitors.of("me").folder.name != Visitors().of("me").folder.name


def test_kept_traces_can_be_read_until_the_visitor_leaves_and_choose_no_place() -> None:
    visitors, trace = Visitors(), decoded("scd", window=16)
    visitor = visitors.of("me")
    shown = visitor.keep([trace], "your last run")
    assert shown.traces() == (trace,)
    visitor.leave()
    assert not shown.paths[0].exists() and visitor.stopped()
    visitors, trace = Visitors(), decoded("ar")
    visitor = visitors.of("me")
    for method in ("../../../out", "/out", "a/b", "..", "x\n", "A" * 500, "${1}", "<b>"):
        (path,) = visitor.keep([replace(trace, method=method)], "the file you opened").paths
        assert path.resolve().parent == visitor.folder and path.name.startswith("trace-seed-0-")
    assert file_name(replace(trace, method="ete-style", seed=3)) == "ete-style-seed-3"


def test_old_folders_are_pruned_and_the_root_goes_with_the_visitors() -> None:
    visitors = Visitors()
    old, new, root = visitors.of("old"), visitors.of("new"), visitors.root
    for visitor in (old, new):
        visitor.start()
    an_hour_ago = time.time() - 3600
    os.utime(old.folder, (an_hour_ago, an_hour_ago))
    visitors.prune(60)
    assert not old.folder.exists() and new.folder.exists()
    del visitors
    assert not root.exists()
