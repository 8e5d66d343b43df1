"""Engines that are certified: the real server of llama.cpp, generate of transformers, and recorded answers of vLLM."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from support.fake_server import BAD, fake_server

import draftscope as ds
from draftscope.certificates.known_model import PROMPTS, Sampling, write_checkpoints
from draftscope.certificates.named import NAMES, named_source
from draftscope.certificates.sources import OpenAISource, TransformersSource, served
from draftscope.servers.client import ServerClient, ServerError
from draftscope.servers.engines import identify
from draftscope.servers.llama_cpp import Speculation, llama_cpp_server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("xllamacpp", reason="llama.cpp's server is not installed: pip install xllamacpp")
    path = tmp_path_factory.mktemp("known")
    write_checkpoints(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speculation", "tokens", "verdict"),
    [
        ("none", 480, "refused"),
        ("ngram-simple", 2400, "certified"),
        ("ngram-cache", 480, "undecided"),
        ("draft", 480, "undecided"),
        ("draft-probabilistic", 2400, "certified"),
    ],
)
def test_the_real_server_of_llama_cpp_is_certified_with_drafts_only(
    folder: Path, speculation: Speculation, tokens: int, verdict: str
) -> None:
    draft = folder / "draft.gguf" if speculation.startswith("draft") else None
    options = {"top_p": 0.8, "temperature": 1.5} if speculation == "draft-probabilistic" else {}
    with llama_cpp_server(folder / "target.gguf", speculation=speculation, draft=draft) as url:
        found = ds.certify(url, tokens=tokens, drafter="model" if draft else "lookup", **options)
    assert found.verdict == verdict
    assert (found.accepted > 0) == (found.drafted > 0) == (speculation != "none")
    assert found.engine == f"llama.cpp at {url}"
    with pytest.raises(ServerError, match="does not answer; start the server"):  # it has ended
        ds.certify(url, tokens=16)


@pytest.mark.slow
def test_filters_of_llama_cpp_act_before_its_temperature(folder: Path) -> None:
    """A lossless server is biased in the order of transformers."""
    with llama_cpp_server(folder / "target.gguf") as url, ServerClient(url) as client:
        source = served(client, "lookup")
        source.temperature_last = False
        assert ds.certify(source, tokens=800, temperature=1.6, top_p=0.7).verdict == "biased"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["transformers", "transformers-lookup", "transformers-assisted", "llama.cpp-ngram-simple"]
)
def test_engines_by_name(name: str) -> None:
    if name.startswith("llama"):
        pytest.importorskip("xllamacpp", reason="llama.cpp's server is not installed: pip install xllamacpp")
    with named_source(name) as source:
        found = ds.certify(source, tokens=256)
    assert found.verdict == ("refused" if name == "transformers" else "undecided")
    assert (found.drafted or 0) >= (found.accepted or 0) >= 0
    if name != "transformers":
        assert found.accepted > 10
    assert set(NAMES) >= {name}


def test_an_unknown_name_is_one_sentence() -> None:
    words = r"engine: 'vllm' is not known; use an address such as .*transformers-lookup"
    with pytest.raises(ServerError, match=words), named_source("vllm"):
        pass


@pytest.mark.slow
def test_drafts_of_transformers_are_counted_from_its_passes() -> None:
    """Drafts are the tokens that passes are fed beyond one each."""
    source = TransformersSource("lookup")
    drawn = source.draw([PROMPTS[0]], [0], 12, Sampling(temperature=0.2))
    assert len(drawn.texts[0]) == 12
    assert drawn.drafted >= drawn.accepted


COUNTERS = "vllm:spec_decode_num_{} {}\n"


@contextmanager
def vllm(texts: list[str]) -> Iterator[ServerClient]:
    """A client of a server that answers as vLLM does: recorded shapes, with texts of the known model."""
    served_texts = iter(texts)
    state = {"drafts": 0, "draft_tokens": 0, "accepted_tokens": 0}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "/m/target", "owned_by": "vllm"}]})
        if request.url.path == "/metrics":
            return httpx.Response(200, text="".join(COUNTERS.format(f"{k}_total", v) for k, v in state.items() if v))
        body = json.loads(request.content)
        assert (body["temperature"], body["top_k"], body["ignore_eos"]) == (1.0, -1, True)
        state.update(drafts=state["drafts"] + 5, draft_tokens=state["draft_tokens"] + 20)
        state["accepted_tokens"] += 11
        return httpx.Response(200, json={"choices": [{"text": next(served_texts), "finish_reason": "length"}]})

    with ServerClient("http://vllm.example:8000/v1", transport=httpx.MockTransport(answer)) as client:
        yield client


def test_an_openai_style_route_gives_letters_and_counters() -> None:
    with vllm(["abcdefgh" * 2, "hhhhgggg" * 2]) as client:
        assert identify(client) == ("vllm", "/m/target")
        source = served(client, "model")
        assert isinstance(source, OpenAISource) and source.counts
        drawn = source.draw(PROMPTS[:2], [0, 1], 16, Sampling())
    assert drawn.texts == [[*range(8)] * 2, [7, 7, 7, 7, 6, 6, 6, 6] * 2]
    assert (drawn.drafted, drawn.accepted) == (40, 22)
    with vllm(["Hello"]) as client, pytest.raises(ValueError, match="'H' is not a letter of the certificate's model"):
        served(client, "model").draw(PROMPTS[:1], [0], 16, Sampling())


def _texts(count: int) -> list[str]:
    chance = random.Random(0)
    return ["text " + "".join(chance.choices("abcdefgh", k=16)) for _ in range(count)]


@pytest.mark.parametrize("behaviour", [*BAD, "die"])
def test_every_bad_answer_of_a_server_is_one_sentence(behaviour: str) -> None:
    words = BAD[behaviour][2] if behaviour in BAD else "closed the connection in the middle"
    with fake_server(behaviour) as url, pytest.raises(ServerError, match=words) as caught:
        ds.certify(url, tokens=320)
    assert "\n" not in str(caught.value)


def test_a_server_that_ends_in_the_middle_leaves_what_it_gave() -> None:
    with fake_server(*_texts(16), "die") as url:
        found = ds.certify(url, tokens=3200)
    assert found.texts == 16 and "; ended early: http://127.0.0.1" in found.reason
    assert found.reason.endswith("closed the connection in the middle (RemoteProtocolError); look at its log.")


def test_a_server_that_ignores_the_seed_is_one_sentence() -> None:
    with (
        fake_server(*["text abcdefghabcdefgh"] * 16) as url,
        pytest.raises(
            ValueError, match="gives one text for each prompt whatever the seed; let it sample, with the seed"
        ),
    ):
        ds.certify(url, tokens=320)
