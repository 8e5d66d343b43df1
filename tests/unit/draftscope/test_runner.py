"""`ds.run` on bundled models, model objects and custom methods, and its trace in notebooks."""

import html
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Route, expect
from support import handmade
from support.browser import visit
from support.hostile import HOSTILE, written
from support.tiny_llama import PROMPT, VOCABULARY, Letters, greedy, llama, noisy
from support.tiny_text_checkpoints import network_of
from transformers import BartConfig, BartForConditionalGeneration, LlamaModel, MambaConfig, MambaForCausalLM

import draftscope as ds
from draftscope import traces
from draftscope.engines.methods import METHODS
from draftscope.engines.methods.ar import Config as Ordinary
from draftscope.engines.methods.ar import decode as ordinary
from draftscope.engines.models.catalog import load_model
from draftscope.trace import displayable
from draftscope.traces import check
from draftscope.visualizers import FigureError
from draftscope.visualizers.player_page import POLICY

LENGTH = 32
GREEDY = {"top_k": 1, "length": LENGTH}


def test_two_models_that_are_handed_over() -> None:
    target = llama()
    trace = ds.run("speculative", target=target, draft=noisy(target, 0.05), ids=PROMPT, gamma=3, **GREEDY)
    check(trace)
    assert list(trace.output.tokens) == greedy(target, PROMPT, LENGTH)
    assert trace.draft_model is not None
    assert 0 < trace.summary.accepted < trace.summary.judged
    assert {step.call.role for step in trace.steps} == {"draft", "target"}
    assert not target._forward_hooks and not target.training


@pytest.mark.one_quick
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("ar", {}),
        ("scd", {"window": 6}),
        ("speculative", {"drafter": "lookup"}),
        ("speculative", {"drafter": "itself"}),
    ],
)
def test_other_methods_decode_what_generate_does(method: str, settings: dict[str, Any]) -> None:
    target = llama(3)
    trace = ds.run(method, target=target, ids=torch.tensor([PROMPT]), **GREEDY, **settings)
    assert list(trace.output.tokens) == greedy(target, PROMPT, LENGTH)
    check(trace)
    if method == "ar":  # A pass feeds only what the cache lacks.
        assert [step.call.query_tokens for step in trace.steps] == [len(PROMPT)] + [1] * (LENGTH - 1)


@pytest.mark.one_quick
@pytest.mark.parametrize("kind", ["gpt2", "mistral", "mamba"])
def test_other_networks_than_llama(kind: str) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "initializer_range": 0.4, "vocab_size": VOCABULARY}
    mamba = MambaForCausalLM(MambaConfig(**sizes, bos_token_id=1, eos_token_id=None, pad_token_id=None)).eval()
    network = mamba if kind == "mamba" else network_of(kind)  # the text outgrows the window of Mistral
    trace = ds.run("speculative", target=network, drafter="lookup", ids=PROMPT, **GREEDY)
    assert list(trace.output.tokens) == greedy(network, PROMPT, LENGTH)
    plain = ds.run("scd", target=network, ids=PROMPT, window=4, **GREEDY)
    assert plain.output.tokens == trace.output.tokens


def test_an_end_token_ends_the_text() -> None:
    target = noisy(llama(), 0.0)
    stop = greedy(target, PROMPT, LENGTH)[5]
    target.generation_config.eos_token_id = stop
    trace = ds.run("ar", target=target, ids=PROMPT, **GREEDY)
    assert trace.output.tokens[trace.summary.tokens - 1] == stop
    assert trace.summary.complete
    assert trace.summary.tokens <= 6


def test_with_a_tokenizer_there_are_words() -> None:
    trace = ds.run("ar", target=llama(), tokenizer=Letters(), prompt="59B5", **GREEDY)
    assert trace.prompt == "59B5"
    assert trace.output.text == Letters().decode([int(token) for token in trace.output.tokens])
    by_ids = ds.run("ar", target=llama(), tokenizer=Letters(), ids=Letters()("59B5"), **GREEDY)
    assert (by_ids.prompt, by_ids.output) == ("59B5", trace.output)


def refuse(field: str, problem: str, remedy: str, **options: Any) -> None:
    with pytest.raises(ValueError) as caught:
        ds.run(options.pop("method", "speculative"), **options)
    words = str(caught.value)
    assert words.startswith(f"{field}: ") and problem in words and remedy in words and "\n" not in words, words


def test_what_cannot_be_is_said_in_a_sentence() -> None:
    target = llama()
    torch.manual_seed(0)
    bart = BartForConditionalGeneration(
        BartConfig(
            vocab_size=VOCABULARY, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=64,
        )
    ).eval()  # fmt: skip
    ids: dict[str, Any] = {"ids": PROMPT}
    refuse("target", "is an encoder-decoder", "AutoModelForCausalLM", target=bart, **ids)
    refuse("target", "has no head", "AutoModelForCausalLM", target=LlamaModel(target.config).eval(), **ids)
    refuse("target", "a dict is not a model of transformers", "AutoModelForCausalLM", target={}, **ids)
    refuse("target", "is in training mode", "target.eval()", target=noisy(target, 0.0).train(), **ids)
    refuse("drafter", "32 and 64 tokens", "of the same tokenizer", target=target, draft=llama(0, vocabulary=32), **ids)
    refuse("draft", "is missing", "drafter='lookup'", target=target, **ids)
    refuse("draft", "has no other model draft", "leave it out", method="scd", target=target, draft=target, **ids)
    refuse("ids", "are missing", "tokenizer=", method="ar", target=target)
    refuse("ids", "hold 2 texts", "ids[:1]", method="ar", target=target, ids=[PROMPT, PROMPT])
    refuse("ids", "64 is outside the vocabulary of 64", "the tokenizer", method="ar", target=target, ids=[1, 64])
    refuse("ids", "must be a list of at least one", "what the tokenizer returns", method="ar", target=target, ids=[])
    refuse("ids", "must be a list of at least one", "what the tokenizer returns", method="ar", target=target, ids=[0.5])
    refuse("ids", "has 250 tokens", "lower length", method="ar", target=target, ids=[1] * 250, length=64)
    refuse("ids", "belongs to a model of transformers", "leave it out", method="ar", ids=[1])
    refuse(
        "device", "cannot be set for a model object", "leave it out", method="ar", target=target, device="cpu", **ids
    )
    refuse("target", "target and model are aliases", "give only one", method="ar", target=target, model="toy-raster")
    refuse("guidance", "cannot run without its prompt", "use 1", method="ar", target=target, guidance=2.0, **ids)
    refuse("method", "there is no 'speculativ'", "did you mean 'speculative'?", method="speculativ")
    refuse("model", "runs on models of the family", "use ", method="cspd", target=target, **ids)
    elsewhere = torch.tensor([PROMPT], device="meta")
    refuse("ids", "are on meta and the model on cpu", "ids.to('cpu')", method="ar", target=llama(), ids=elsewhere)
    draft = noisy(llama(), 0.0).to("meta")
    refuse("draft", "is on meta and the target on cpu", "draft.to('cpu')", target=llama(), draft=draft, ids=PROMPT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mine(Ordinary):
    """Settings of a custom method."""


@pytest.mark.slow
def test_a_decoder_of_ones_own() -> None:
    def my_decode(task: Any, config: Mine, chance: Any) -> Any:  # its arguments are given by position
        return ordinary(task, config, chance)

    trace = ds.run(my_decode, Mine(top_k=1), "toy-raster", seed=2)
    assert (trace.method, trace.model.id) == ("my_decode", "toy-raster")
    assert trace.output.tokens == ds.run("ar", model="toy-raster", top_k=1, seed=2).output.tokens
    assert "not verified as lossless" in trace.note
    assert ds.run(my_decode, model="toy-raster", top_k=1, seed=2).output == trace.output
    mine = replace(METHODS["ar"], name="mine", title="Mine")
    assert ds.run(mine, model="toy-raster").method == "mine"


def test_what_there_is() -> None:
    assert set(ds.methods()) == set(METHODS)
    assert "toy-raster" in ds.models()
    assert ds.settings("scd")["window"].startswith("a whole number from 1 to 256, 32 by default.")


def test_every_step_is_told_as_it_is_done_and_a_bar_counts_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    steps: list[Any] = []
    trace = ds.run("scd", model="toy-raster", seed=3, window=8, on_step=steps.append, progress=True)
    assert tuple(steps) == trace.steps
    assert "256/256" in capsys.readouterr().err
    with pytest.raises(KeyError, match="enough"):
        ds.run("ar", model="toy-raster", on_step=lambda step: {}["enough"])
    assert ds.run("scd", model=load_model("toy-raster"), seed=3, window=8).output == trace.output
    assert capsys.readouterr().err == ""
    assert (trace.method, trace.model.id, trace.seed, trace.config["window"]) == ("scd", "toy-raster", 3, 8)


def test_a_trace_to_show_equals_the_trace_and_says_itself_in_one_line() -> None:
    same = displayable(handmade.scd())
    assert same == handmade.scd() == same != handmade.ar() and same != "trace"
    assert isinstance(replace(same, note="x"), ds.Trace)
    assert traces.dumps(same) == traces.dumps(handmade.scd())
    trace = replace(handmade.scd(), method="scd\n<b>", seed=None)
    assert repr(trace) == "<Trace scd <b> on hand/made: 6 tokens in 3 forward passes>"
    assert repr(displayable(handmade.simsd())) == (
        "<Trace simsd on hand/made, seed 7: 1 tokens in 3 forward passes, incomplete>"
    )


def test_the_player_is_framed_with_the_pages_policy() -> None:
    frame = displayable(replace(handmade.scd(), prompt=HOSTILE))._repr_html_()
    assert re.fullmatch(r"<iframe [^<>]*></iframe>", frame, re.DOTALL)
    assert 'sandbox="allow-scripts"' in frame
    (inner,) = re.findall(r'srcdoc="([^"]*)"', frame)
    assert html.escape(POLICY) in html.unescape(inner)


def test_the_player_runs_in_the_frame(browser: Browser) -> None:
    requests: list[str] = []
    frame = displayable(replace(written(), prompt=HOSTILE))._repr_html_()

    def answer(route: Route) -> None:
        requests.append(route.request.url)
        route.fulfill(body=f"<html>{frame}</html>", content_type="text/html")

    with visit(browser) as page:
        page.route("**/*", answer)
        page.goto("http://notebook.test/")
        inside = page.frame_locator("iframe")
        expect(inside.get_by_role("img", name="The text so far: The")).to_be_visible()
        inside.locator("body").press("End")
        inside.locator("body").press("Home")
        assert requests == ["http://notebook.test/"]
        assert page.evaluate("globalThis.pwned") is None


def test_a_table_has_a_row_for_every_entry() -> None:
    trace = displayable(handmade.scd())
    table = trace.to_columns()
    assert {len(column) for column in table.values()} == {10}
    assert table["step"] == [0] * 4 + [1] * 4 + [2] * 2
    assert table["fate"][:2] == ["accepted", "resampled"]
    assert table["coin"][4] is None
    assert table["tv"][:4] == [0.5, 0.875, 0.75, 0.5]
    spent = trace.steps[0].call.milliseconds.total
    assert table["milliseconds"][:4] == [spent] * 4 and spent > 0
    assert displayable(handmade.ar()).to_columns()["text"] == ["The", "boot", "<end>"]
    pandas = pytest.importorskip("pandas")
    for make in handmade.ALL.values():
        frame = displayable(make()).to_pandas()
        assert isinstance(frame, pandas.DataFrame)
        assert list(frame["position"]) == [at for step in make().steps for at in step.position]


def test_figures_by_name() -> None:
    trace = handmade.scd()
    assert ds.figure("churn", trace).data
    dark, light = (ds.figure("race", trace, theme=theme) for theme in ("dark", "light"))
    assert dark.layout.template != light.layout.template
    assert set(ds.figures(trace)) < set(ds.figures())
    with pytest.raises(FigureError, match="figure: there is no 'chrun'; choose one of canvas, "):
        ds.figure("chrun", trace)
    with pytest.raises(FigureError, match="step 9: choose a step from 0 to 3"):
        ds.figure("canvas", trace, step=9)


@pytest.mark.slow
def test_a_page_of_one_or_several(tmp_path: Path) -> None:
    page = ds.view(handmade.scd(), tmp_path / "one.html", figures=False)
    assert "<title>Draftscope</title>" in page.read_text()
    both = ds.view([handmade.scd(), handmade.jacobi()], tmp_path / "two.html", title="Two")
    assert 'id="figure-race"' in both.read_text()
    with pytest.raises(ValueError, match=r"path: 'run.pdf' must end in \.html"):
        ds.view(handmade.scd(), tmp_path / "run.pdf")
