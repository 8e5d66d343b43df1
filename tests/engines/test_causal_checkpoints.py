"""Published causal language models by folder: every distribution and whole texts against an independent forward."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from support import checkpoints
from support.broken import Change, configured, removed
from support.checkpoints import CAUSAL, LETTERS, MERGES, PADDED, SPECIAL, settings_of, tensors_of, write, write_json
from tokenizers import Tokenizer
from torch import Tensor

from engines.__main__ import main
from engines.config import make_config
from engines.methods import METHODS
from engines.models.errors import ModelError
from engines.models.hub import published
from engines.models.language_model import DiffusionLM
from engines.runtime.driver import Job, Run, open_session, run_batch
from traces import read

KNOWN = {family: len(LETTERS) + len(MERGES) + len(SPECIAL[family]) for family in CAUSAL}
CHATS = {
    "qwen2": "<|im_start|>user\na hero<|im_end|>\n<|im_start|>assistant\n",
    "qwen3": "<|im_start|>user\na hero<|im_end|>\n<|im_start|>assistant\n",
    "llama": "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\na hero<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "mistral": "<s>[INST] a hero[/INST]",
}


def job(
    model: Any, method: str = "ar", prompt: str = "a hero", small: Any = None, seed: int = 0, **values: object
) -> Job:
    config = make_config(METHODS[method].config, {"length": 16, **values})
    return Job(METHODS[method], model, prompt, config, seed, small=small)


def likely(family: str, tensors: dict[str, Tensor], ids: list[int]) -> Tensor:
    """Distributions [n, V] behind every token of a text, without a cache."""
    count = len(ids)
    seen = torch.ones(count, count).tril().bool()
    logits = checkpoints.forward(family, tensors, torch.tensor(ids), torch.arange(count), seen)
    return logits[:, : KNOWN[family]].softmax(-1)


@pytest.mark.parametrize("family", CAUSAL)
def test_every_distribution_of_a_run_is_that_of_an_independent_forward_over_the_whole_text(
    tmp_path: Path, family: str
) -> None:
    tied, shards = family == "qwen2", 3 if family == "qwen3" else 1
    model = published.load_folder(write(tmp_path / "it", family, tied=tied, shards=shards))
    tensors, compared, worst = tensors_of(family, tied), 0, 0.0
    for seed in range(4):
        asked = job(model, "speculative", small=model, seed=seed, gamma=3)
        session, decoder, answer = open_session([asked]), asked.decoder(), cast(Any, None)
        while True:
            try:
                request: Any = decoder.send(answer)
            except StopIteration:
                break
            probs = session.answer({0: request}, asked.config, lambda *_: None)[0]
            expected = likely(family, tensors, [*asked.task.prompt, *request.tokens.tolist()])[-len(probs) :]
            worst, compared = max(worst, float((probs - expected).abs().max())), compared + len(probs)
            # A drafter of its own mind: half of what it is told is turned round, so that drafts are rejected.
            decision: Any = decoder.send(probs.flip(-1) if request.role == "draft" and compared % 2 else probs)
            answer = tuple(int(value) for value in decision.readback)
    assert compared > 16
    assert worst < 1e-5
    assert float(expected.max()) > 2 / KNOWN[family], "too flat to tell"


@pytest.mark.parametrize("family", CAUSAL)
def test_whole_texts_are_the_likeliest_ones_with_a_drafter_and_without(tmp_path: Path, family: str) -> None:
    model = published.load_folder(write(tmp_path / "it", family))
    folder = write(tmp_path / "small", family)
    mixed = {name: 0.9 * tensor for name, tensor in tensors_of(family).items()}
    checkpoints.write_weights(folder, {name: t + 0.1 * tensors_of(family, seed=4)[name] for name, t in mixed.items()})
    small = published.load_folder(folder)
    jobs = [job(model, prompt=prompt, top_k=1) for prompt in ("a hero", "here here")]
    for asked, trace in zip(jobs, run_batch(jobs), strict=True):
        ids, wanted = list(asked.task.prompt), []
        while len(wanted) < 16 and not (wanted and wanted[-1] in asked.task.ends):
            wanted.append(int(likely(family, tensors_of(family), [*ids, *wanted])[-1].argmax()))
        assert [token for token in trace.output.tokens if token is not None] == wanted
        drafted = Run(job(model, "speculative", asked.prompt, small, top_k=1, gamma=3))
        assert len(list(drafted)) and drafted.trace().output.tokens == trace.output.tokens
        assert drafted.trace().summary.acceptance is not None
    assert [t.model.id for t in run_batch(jobs)] == ["it", "it"]


@pytest.mark.parametrize("family", CAUSAL)
def test_a_question_is_put_and_a_text_ends_as_its_own_files_say(tmp_path: Path, family: str) -> None:
    folder = write(tmp_path / "it", family)
    model: Any = published.load_folder(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert model.families == ("discrete-ar",)
    assert tokenizer.decode(job(model).task.prompt, skip_special_tokens=False) == CHATS[family]
    assert model.kind.longest == (80 if family == "mistral" else 96), "no text feels a sliding window"
    ends = settings_of(family)["eos_token_id"]
    assert model.kind.ends == tuple(ends if isinstance(ends, list) else [ends])
    write_json(folder / "generation_config.json", {"eos_token_id": [0, ends] if family == "qwen2" else 0})
    (folder / "tokenizer_config.json").unlink()
    published._load.cache_clear()
    again: Any = published.load_folder(folder)
    begins = CHATS[family].split(">")[0] + ">" if family in ("llama", "mistral") else ""
    assert tokenizer.decode(job(again).task.prompt, skip_special_tokens=False) == f"{begins}a hero"
    assert again.kind.ends[0] == 0 and set(again.kind.ends) >= set(model.kind.ends)
    assert "generation_config.json" in again.card.files


def test_older_files_leave_out_what_newer_ones_say(tmp_path: Path) -> None:
    folder = write(tmp_path / "old", "llama")
    old = {"rope_theta", "rope_scaling", "attention_bias", "mlp_bias", "tie_word_embeddings", "head_dim"}
    write_json(folder / "config.json", {k: v for k, v in settings_of("llama").items() if k not in old})
    checkpoints.write_weights(
        folder, tensors_of("llama") | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    )
    model: Any = published.load_folder(folder)
    assert model._network.config.rope_parameters == {"rope_theta": 10000.0, "rope_type": "default"}
    newest = {"rope_parameters": {"rope_theta": 7.0, "rope_type": "linear", "factor": 2.0}, "rope_scaling": None}
    write_json(folder / "config.json", settings_of("llama") | newest)
    published._load.cache_clear()
    again: Any = published.load_folder(folder)
    assert again._network.config.rope_parameters == newest["rope_parameters"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (configured(rope_scaling={"type": "yarn"}), "for 'rope_scaling'; it may be null or one of llama3, linear"),
        (configured(rope_scaling={"type": "linear", "factor": "2"}), "config.json has '2' for 'factor'"),
        (configured(mlp_bias=1), "config.json has 1 for 'mlp_bias', which is not allowed"),
        (configured(mlp_bias=True), "mlp.down_proj.bias' and 5 more are missing in its weights"),
        (configured(hidden_act="gelu"), "'gelu' for 'hidden_act'; Llama is built for 'silu'"),
        (configured(eos_token_id=10**6), "'eos_token_id' is 1000000, and its tokenizer has the ids 0 to"),
        (configured(eos_token_id=[True]), r"'eos_token_id' is \[True\]"),
        (configured(model_type="qwen3", rope_scaling=None), "norm.weight' and 3 more are missing in its weights"),
        (configured(vocab_size=20), "config.json has 20 for 'vocab_size', its tokenizer"),
        (removed("tokenizer.json"), "tokenizer.json is missing, and so is vocab.json"),
    ],
)
def test_what_was_not_built_is_refused_by_name(tmp_path: Path, change: Change, said: str) -> None:
    folder = write(tmp_path / "it", "llama")
    change(folder)
    with pytest.raises(ModelError, match=said):
        published.load_folder(folder)


def test_the_command_line_takes_any_pair_of_one_tokenizer_and_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = {name: write(tmp_path / name, name) for name in ("qwen3", "qwen2", "llama", "llada")}
    target = tmp_path / "t.json"
    command = ["run", "speculative", "--model", str(folders["qwen3"]), "--prompt", "a hero", "--set", "length=8"]
    command += ["-o", str(target), "--draft-model"]
    assert main([*command, str(folders["qwen2"])]) == 0, "another family of the same tokenizer drafts"
    trace = read(target)
    assert (trace.model.title, trace.draft_model and trace.draft_model.id) == ("Qwen3: qwen3", "qwen2")
    assert main([*command, str(folders["llama"])]) == 2
    said = capsys.readouterr().err
    assert "drafter: llama and qwen3 have different vocabularies: token " in said
    assert "one cannot verify the other's drafts; give a drafter of the same tokenizer, or set drafter=itself." in said
    assert main([*command, str(folders["llada"])]) == 2
    said = capsys.readouterr().err
    assert "drafter: speculative drafts with models of the family discrete-ar, and llada is of diffusion-lm" in said
    assert main(["run", "blockwise", "--model", str(folders["qwen3"]), "-o", str(target)]) == 2
    assert "runs on models of the family diffusion-lm, and qwen3 is of discrete-ar" in capsys.readouterr().err


def test_rows_of_the_head_beyond_the_tokenizer_are_no_tokens(tmp_path: Path) -> None:
    model: Any = published.load_folder(write(tmp_path / "it", "qwen3"))
    assert isinstance(model, DiffusionLM)
    assert job(model).task.vocabulary == KNOWN["qwen3"] < PADDED
