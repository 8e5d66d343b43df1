"""Strange HTTP requests to the running app: a short round of those that `python -m benchmarks.fuzz` sends."""

from pathlib import Path

import pytest

from benchmarks._answered import SECRET, App, answered, known


@pytest.mark.slow
def test_a_short_round_of_strange_requests_holds(server: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json.gz"
    secret.write_text(SECRET)
    tried = list(answered(App(server, known(server, secret)), 3, range(40)))
    assert [one for one in tried if one.verdict not in ("accepted", "refused")] == []
    assert {one.said.partition(":")[0] for one in tried} >= {"read", "file", "call", "event", "upload", "malformed"}
    assert 0 < sum(one.verdict == "accepted" for one in tried) < 30
