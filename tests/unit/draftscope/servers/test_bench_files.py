"""Files of measured servers, opened as traces."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.fake_server import fake_server

import draftscope as ds
from draftscope.servers.bench_files import opened_traces
from draftscope.traces import TraceError, dumps


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("bench") / "bench.json"
    with fake_server() as plain, fake_server(kind="sglang") as drafting:
        ds.bench_server(drafting, ["a", "b"], baseline=plain, warmup=0).write(path)
    return json.loads(Path(path).read_text())


def test_what_the_servers_counted_becomes_traces(document: dict[str, Any]) -> None:
    one, other = opened_traces(json.dumps(document).encode(), "x")
    assert (one.method, one.sums.drafts, other.method, other.sums.drafts) == ("vllm", 18, "sglang", 430)
    assert opened_traces(dumps(one), "x") == (one,)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sums": {}}, "x: sums: are empty, as no server counted drafts; measure a server with drafts"),
        ({"sums": 5, "about": None}, "x: sums: are empty"),
        ({"sums": {"server": {"tokens": -1}}}, "x: sums.server"),
        ({"sums": {"server": {"tokens": 1, "forwards": 1, "drafts": 1, "accepted": 2}}}, "accepted"),
        ({"title": "other"}, "schema: is missing; give a trace that Draftscope wrote"),
    ],
)
def test_what_is_no_measurement_is_one_line(document: dict[str, Any], changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TraceError, match=words) as caught:
        opened_traces(json.dumps(document | changes).encode(), "x")
    assert "\n" not in str(caught.value)
