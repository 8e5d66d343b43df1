"""A drafter that reads its target's hidden states: exact, as trained, from cut caches; and what is refused."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import product
from math import prod
from typing import Any

import pytest
import torch
from support.passes import passes
from support.tiny_llama import Letters, llama
from torch import Tensor
from transformers import AutoModelForCausalLM

from benchmarks import _timing
from draftscope.engines.methods import METHODS
from draftscope.engines.methods.speculative import EAGLE_DRAFTERS, Config
from draftscope.engines.models import catalog, eagle
from draftscope.engines.models import fast_decoder as lean_module
from draftscope.engines.models.bundled import image
from draftscope.engines.models.catalog import is_available, load_model
from draftscope.engines.models.checkpoints.causal_lm import CausalCheckpoint
from draftscope.engines.models.download import download_dir
from draftscope.engines.models.eagle import Eagle, EagleDrafter, EagleHead, EagleSize
from draftscope.engines.models.errors import ModelError
from draftscope.engines.runtime.driver import Job, Run, open_session
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import settings
from draftscope.engines.testing.case import ConformanceCase, decoded
from draftscope.engines.testing.conformance import CHECKS, finish
from draftscope.engines.testing.enumeration import exact_distribution, largest_error
from draftscope.traces import check
from training.smollm2_eagle import STEPS, drafts, inherit

EXACT, CLOSE, WRONG = 1e-12, 1e-5, 1e-3
PROMPT = "0101101"
TAPS = (0, 1)


class Alphabet(Letters):
    """Letters whose ids are known by name, as a tokenizer's are."""

    def __init__(self, count: int) -> None:
        self.count = count

    def get_vocab(self) -> dict[str, int]:
        return dict(zip(self.alphabet, range(self.count), strict=False))


def plain(vocabulary: int, seed: int = 0) -> Any:
    return llama(seed, vocabulary=vocabulary, layers=3, tied=True)


def network(vocabulary: int, rows: int, seed: int = 0) -> Eagle:
    target = plain(vocabulary, seed)
    torch.manual_seed(seed + 1)
    eagle = Eagle(target.config, EagleSize(TAPS, 24, rows))
    inherit(eagle, target)
    with torch.no_grad():
        for weight in eagle.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return eagle.eval().requires_grad_(False)


def pair(vocabulary: int, rows: int, seed: int = 0) -> tuple[CausalCheckpoint, EagleDrafter]:
    """A target, and its drafter, which knows the first `rows` tokens."""
    card = {"card": eagle.ModelCard(id="tiny"), "device": torch.device("cpu")}
    target = CausalCheckpoint(deepcopy(plain(vocabulary, seed)), Alphabet(vocabulary), **card)
    head = EagleHead(network(vocabulary, rows, seed), target.network)
    return target, EagleDrafter(head, target, eagle.ModelCard(id="tiny-eagle"), 1)


def job(models: tuple[CausalCheckpoint, EagleDrafter], prompt: str = PROMPT, seed: int = 0, **values: Any) -> Job:
    config = Config(**{"drafter": "eagle", **values})
    return Job(METHODS["speculative"], models[0], prompt, config, seed, drafter=models[1])


def branches(one: Job) -> tuple[Callable[[Any], Any], Callable[[Any], Tensor]]:
    """A decoder for each branch, and its session's answers; those to requests that another branch made are known."""
    known: dict[tuple[str, ...], Tensor] = {}
    session, prompts, waiting = [open_session([one])], list[str](), list[Any]()

    def make(rng: Any) -> Any:
        session[0], prompts[:], waiting[:] = open_session([one]), [], []
        return one.method.decode(one.task, one.config, rng)

    def answer(request: Any) -> Tensor:
        prompts.append(repr(request))
        waiting.append(request)
        key = tuple(prompts)
        if key not in known:
            for each in waiting:
                known[key] = session[0].forward({0: each}, one.config, lambda *_: None)[0].value
            waiting.clear()
        return known[key]

    return make, answer


@pytest.mark.parametrize("drafter", EAGLE_DRAFTERS)
@pytest.mark.parametrize(
    "values",
    [
        {"gamma": 1},
        {"gamma": 3},
        {"gamma": 2, "adaptive": True, "lookup_gamma": 1},
        {"gamma": 2, "temperature": 0.5},
        {"gamma": 2, "temperature": 2.0},
    ],
    ids=str,
)
def test_it_is_lossless_at_every_temperature(drafter: str, values: dict[str, Any]) -> None:
    """All branches of a run of networks; p is that of ordinary decoding, bit by bit, once it is seen to be that."""
    for vocabulary, rows, length in ((2, 2, 4), (3, 2, 3)):
        fitting = values | {"gamma": min(values["gamma"], length - 1)}
        one = job(pair(vocabulary, rows), drafter=drafter, length=length, **fitting)
        law = laws(one, vocabulary)
        make, waits = branches(one)

        def answer(request: Any, waits: Any = waits, law: Any = law) -> Tensor:
            probs: Tensor = waits(request)
            if request.role == "draft":
                return probs
            tokens = tuple(request.tokens.tolist())
            exact = torch.stack([law(tokens[:i]) for i in range(request.num_final, len(tokens) + 1)])
            torch.testing.assert_close(probs, exact, rtol=0, atol=CLOSE)
            return exact

        wanted = {
            tokens: prod(float(law(tokens[:i])[token]) for i, token in enumerate(tokens))
            for tokens in product(range(vocabulary), repeat=length)
        }
        assert largest_error(exact_distribution(make, answer), wanted) < EXACT


def laws(one: Job, vocabulary: int) -> Callable[[tuple[int, ...]], Tensor]:
    """Return the distribution after a text, from one pass over all of it."""

    @cache
    def law(tokens: tuple[int, ...]) -> Tensor:
        with torch.inference_mode():
            logits = plain(vocabulary)(torch.tensor([[*one.task.prompt_ids, *tokens]])).logits[0, -1].double()
        return (logits / one.config.temperature).softmax(-1)

    return law


@pytest.mark.slow
@pytest.mark.skipif(not is_available("smollm2"), reason="draftscope model download smollm2 fetches it")
@pytest.mark.nightly
def test_texts_of_smollm2_follow_its_distribution_with_the_drafter_that_ships() -> None:
    """The first two tokens of all branches, with two choices each; p is the plain network's, up to rounding."""
    values = {"drafter": "eagle", "gamma": 2, "top_k": 2, "temperature": 2.0}
    first = RunRequest("speculative", "smollm2", "My favourite colour is", settings=values, chat=False).job()
    one = replace(first, config=replace(first.config, length=3))  # the last is never drafted
    network = AutoModelForCausalLM.from_pretrained(download_dir("smollm2"), dtype=torch.float32).eval()

    def law(tokens: tuple[int, ...]) -> dict[int, float]:
        with torch.inference_mode():
            best = network(torch.tensor([[*one.task.prompt_ids, *tokens]])).logits[0, -1].double().topk(2)
        return dict(zip(best.indices.tolist(), (best.values / 2).softmax(-1).tolist(), strict=True))

    texts: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(2):
        texts = {(*text, token): p * q for text, p in texts.items() for token, q in law(text).items()}
    probs = exact_distribution(*branches(one))
    found = {text: sum(p for text_found, p in probs.items() if text_found[:2] == text) for text in texts}
    assert largest_error(found, texts) < 10 * CLOSE


def test_a_wrong_residual_would_be_seen() -> None:
    """The tiny pair differs enough, and agrees enough, for a mistake to show."""
    traces = [finish(job(pair(3, 2), seed=seed, length=64, gamma=3)) for seed in range(2)]
    assert all(0.2 < trace.summary.acceptance < 0.95 for trace in traces)


@pytest.mark.parametrize("drafter", EAGLE_DRAFTERS)
@pytest.mark.parametrize("vocabulary", [4, pytest.param(24, marks=pytest.mark.nightly)])
def test_greedy_texts_are_those_of_ordinary_decoding(drafter: str, vocabulary: int) -> None:
    judged = 0
    for seed in range(3):
        models = pair(vocabulary, vocabulary // 2, seed)
        one = job(models, seed=seed, drafter=drafter, gamma=4, top_k=1, length=32)
        baseline = RunRequest("ar", models[0], PROMPT, settings={"top_k": 1, "length": 32}).job()
        assert torch.equal(*(decoded([each])[0] for each in (one, baseline)))
        judged += finish(one).summary.judged
    assert judged > 20


@pytest.mark.parametrize(("adaptive", "lengths", "longest"), [(False, {2}, 5), (True, {1, 2}, 11)])
def test_lookups_have_a_draft_length_of_their_own(adaptive: bool, lengths: set[int], longest: int) -> None:
    values = {"drafter": "lookup-eagle", "gamma": 2, "lookup_gamma": 5, "length": 64, "adaptive": adaptive}
    steps = finish(job(pair(3, 2), **values)).steps
    drafted = {i: step.signals["window"] for i, step in enumerate(steps) if step.call.role == "target"}
    by_eagle = {i: count for i, count in drafted.items() if i and steps[i - 1].call.role == "draft"}
    assert set(by_eagle.values()) == lengths and len(by_eagle) < len(drafted) - 2
    assert max(drafted.values()) == longest


@pytest.mark.parametrize("drafter", EAGLE_DRAFTERS)
@pytest.mark.parametrize("packed", [False, True])
def test_drafts_are_those_that_training_unrolls(drafter: str, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After rejections and looked-up tokens: equal to the plain network on whole texts."""
    if packed:
        monkeypatch.setattr(lean_module, "LARGE", 0)
    target, eagle = plain(8), network(8, 6)
    one = job(pair(8, 6), seed=3, drafter=drafter, gamma=STEPS, length=48)
    compared, verified = set[int](), 0
    for request, probs, _ in passes(one):
        text = torch.tensor([*one.task.prompt_ids, *request.tokens.tolist()])
        if request.role == "target":
            verified = 0
            continue
        verified = verified or len(text) - 1  # places whose hidden states the target has computed
        depth = len(text) - 1 - verified
        with torch.inference_mode():
            hidden = target.model(text[None], output_hidden_states=True)
            states = torch.cat([hidden.hidden_states[tap + 1] for tap in TAPS] + [hidden.last_hidden_state], -1)
            ids = torch.cat([text, text[:1]])[None]  # one more position, to be verified
            wanted = torch.ones_like(ids, dtype=torch.bool)
            padded = torch.nn.functional.pad(states, (0, 0, 0, 1))
            logits = list(drafts(eagle, target.model.embed_tokens.weight, (ids, padded, wanted)))[depth][0]
        expected = torch.zeros(8, dtype=torch.float64)
        expected[eagle.ids.long()] = logits[verified - 1].double().softmax(-1)
        torch.testing.assert_close(probs[0], expected, rtol=0, atol=1e-4)
        compared.add(depth)
    assert compared == set(range(STEPS))


class Texts(ConformanceCase):
    """Runs that differ in their prompts."""

    def job(self, seed: int = 0) -> Job:
        return replace(super().job(seed), prompt=PROMPT[seed:] * (seed + 1))


@pytest.mark.parametrize("name", [name for name in CHECKS if name != "cached equals uncached"])
@pytest.mark.parametrize("drafter", ["eagle", pytest.param("lookup-eagle", marks=pytest.mark.nightly)])
def test_it_keeps_the_promises_of_a_method(drafter: str, name: str) -> None:
    CHECKS[name](Texts(METHODS["speculative"], Config(drafter=drafter, gamma=3, length=16), *pair(4, 3)))


def test_a_timed_run_decodes_the_same_tokens() -> None:
    models = pair(8, 6)
    run = Run(job(models, gamma=2))
    run.finish()
    assert list(_timing.decode([job(models, gamma=2)]).tokens[0]) == list(run.trace().output.tokens)


def test_the_trace_names_the_drafter_and_counts_what_it_is_fed() -> None:
    trace = finish(job(pair(4, 3), gamma=3, length=16))
    check(trace)
    assert trace.draft_model is not None and trace.draft_model.id == "tiny-eagle"
    roles = [step.call.role for step in trace.steps]
    assert roles[:5] == ["target", *["draft"] * 3, "target"], "the target reads the prompt first"
    fed = [step.call.query_tokens for step in trace.steps if step.call.role == "draft"]
    assert fed[:3] == [len(PROMPT), 1, 1] and max(fed[3:]) <= 4


def test_missing_drafters_and_missing_or_wrong_weights_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in EAGLE_DRAFTERS:
        with pytest.raises(ModelError, match=r"drafter: 'eagle' is there for smollm2, .*; set drafter=lookup\.$"):
            Run(RunRequest("speculative", "toy-raster", settings={"drafter": name}).job())
    drafters = next(setting for setting in settings(Config) if setting.name == "drafter")
    monkeypatch.setattr(catalog, "ASSETS", tmp_path)
    assert not {*EAGLE_DRAFTERS} & {*catalog.available_choices(drafters)} and {*EAGLE_DRAFTERS} < {*drafters.choices}
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "smollm2-eagle.safetensors").touch()
    assert catalog.available_choices(drafters) == drafters.choices and catalog.has_eagle("smollm2")
    target, _ = pair(4, 3)

    def refused(problem: str, model: Any = target) -> None:
        with pytest.raises(ModelError, match=problem):
            eagle.load("smollm2-eagle", model)

    refused(r"'eagle' reads the hidden states of toy-raster in float32; set ", load_model("toy-raster"))
    monkeypatch.setattr(image, "FOLDER", tmp_path / "installed by pip")
    refused(r"^drafter: 'eagle' of tiny: MANIFEST.json is missing.*DRAFTSCOPE_ASSETS")
    monkeypatch.setattr(image, "FOLDER", tmp_path)
    (tmp_path / "MANIFEST.json").write_text("{}")
    refused(r"^drafter: 'eagle' of tiny: .*\.safetensors is missing\. .*_eagle$")
    (tmp_path / "smollm2-eagle.safetensors").write_bytes(b"")
    refused(r"^drafter: 'eagle' of tiny: .*\.safetensors is not the file listed")
    monkeypatch.setattr(eagle, "load_weights", lambda *_: {})
    refused(r"^drafter: 'eagle' of tiny: .* does not fit this .*drafter=lookup")
