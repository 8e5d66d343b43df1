"""`draftscope diff`: greedy texts of two engines, from servers, checkpoints, traces or files."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from draftscope import traces
from draftscope.analysis.divergence_files import read_texts
from draftscope.analysis.divergences import Divergence, GreedyText, Top, comparable, compare
from draftscope.experiments.prompt_files import PromptEntry, parse_prompts
from draftscope.servers.answers import Answer, Target, send_request
from draftscope.servers.client import ServerClient, ServerError
from draftscope.servers.engines import identify
from draftscope.traces import limits
from draftscope.traces.files import write_atomic
from draftscope.traces.schema import SCHEMA

LENGTH: Final = 64
TOP: Final = 20
"""Likeliest tokens that are requested at each position."""
_ENDINGS: Final = (".json", ".html")


class Diff:
    """Two sets of greedy texts and their comparison."""

    def __init__(self, divergence: Divergence, a: Sequence[GreedyText], b: Sequence[GreedyText]) -> None:
        self.divergence, self.a, self.b = divergence, tuple(a), tuple(b)

    def __str__(self) -> str:
        return str(self.divergence)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the comparison as JSON or, if the name ends in .html, as a page with pictures.

        Raises:
            ValueError: For another ending.
            OSError: If the file cannot be written.
        """
        target = check_path(path)
        if target.suffix == ".html":
            from draftscope.visualizers.divergence_page import divergence_page

            write_atomic(target, divergence_page(self.divergence, self.a, self.b).encode())
        else:
            write_atomic(target, self.divergence.dumps(self.a, self.b))


def check_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a comparison; raises ValueError if its name has another ending."""
    target = Path(path)
    if target.suffix not in _ENDINGS:
        raise ValueError(f"path: {target.name!r} must end in .json or .html.")
    return target


def diff(
    a: Any,
    b: Any,
    prompts: str | os.PathLike[str] | Sequence[PromptEntry] = (),
    *,
    length: int = LENGTH,
    **options: Any,
) -> Diff:
    """Compare greedy texts of two engines.

    Args:
        a: The address of a server; a folder with a checkpoint of transformers, or with traces; a file with a trace, a
            result of `draftscope diff` or `bench --server`, or a list of objects that have `tokens` or `text`; or such
            a list.
        b: The same.
        prompts: For servers and checkpoints: a file as `read_prompts` describes it, or a list of texts, which are used
            as they are, without a chat template.
        length: Tokens of an answer.
        options: `fields_a` and `fields_b`, further fields of requests or arguments of `generate`, among them `dtype`;
            `score_with`, a checkpoint's folder, GGUF file or id of the model that both run, which scores splits where
            an engine gave no log-probabilities.

    Returns:
        Where the texts of every prompt part, by how much the two tokens differ in log-probability, and whether that
        is rounding; printed, a sentence.

    Raises:
        ValueError: For what cannot be read or compared. A server that ends in the middle is not among it, once it has
            answered: the prompts that both answered are compared.
    """
    if unknown := options.keys() - {"fields_a", "fields_b", "score_with"}:
        raise TypeError(f"{min(unknown)}: is not an option of diff; there are fields_a, fields_b, score_with.")
    texts = _prompts(prompts)
    sides = [_side(source, texts, length, options.get(name, {})) for source, name in ((a, "fields_a"), (b, "fields_b"))]
    names = sides[0].name, sides[1].name
    ended = sides[0].ended or sides[1].ended
    texts_a, texts_b = sides[0].texts, sides[1].texts
    if ended:
        number = min(len(texts_a), len(texts_b))
        texts_a, texts_b = texts_a[:number], texts_b[:number]
    found = compare(names, texts_a, texts_b, ended=ended)
    texts_a, texts_b = comparable(texts_a, texts_b)
    unscored = [split for split in found.splits if None in (split.margin_a, split.margin_b)]
    if unscored and (model := options.get("score_with")) is not None:
        from draftscope.reference_scores import score

        reference = score(model, unscored, texts_a, texts_b)
        found = compare(names, texts_a, texts_b, reference, ended)
    return Diff(found, texts_a, texts_b)


@dataclass(frozen=True, slots=True)
class _Side:
    """Texts of one engine."""

    name: str
    texts: Sequence[GreedyText]
    ended: str = ""
    """Why there are fewer texts than prompts."""


def _prompts(prompts: str | os.PathLike[str] | Sequence[PromptEntry]) -> list[str]:
    texts = parse_prompts(prompts) if prompts else []
    for number, text in enumerate(texts, 1):
        if len(text.questions) != 1:
            raise ServerError(f"prompts: prompt {number} is a conversation; give a text.")
    return [text.questions[0] for text in texts]


def _side(source: Any, prompts: list[str], length: int, fields: Mapping[str, Any]) -> _Side:
    if not isinstance(source, str | os.PathLike):
        return _Side("a list of texts", read_texts(list(source)))
    name = os.fspath(source)
    path = Path(name)
    is_server, is_checkpoint = "://" in name, (path / "config.json").is_file()
    if (is_server or is_checkpoint) and not prompts:
        raise ServerError(f"prompts: are needed for {name}; give a file or a list of texts.")
    if fields and not (is_server or is_checkpoint):
        raise ServerError(f"fields: are for servers and checkpoints; leave them out for {name}, which has its texts.")
    about = f"{name} with {json.dumps(dict(fields))}" if fields else name
    if is_server:
        return _Side(about, *_of_server(name, prompts, length, fields))
    if is_checkpoint:
        return _Side(about, _of_checkpoint(path, prompts, length, fields))
    if path.is_dir():
        found = sorted(each for each in path.iterdir() if each.name.endswith((".json", ".json.gz")))
        if not found:
            raise ServerError(f"{name}: has neither a checkpoint nor traces; give a folder with config.json or traces.")
        return _Side(name, [_of_trace(traces.read(each)) for each in found])
    return _Side(name, _of_file(path))


def _of_server(url: str, prompts: list[str], length: int, fields: Mapping[str, Any]) -> tuple[list[GreedyText], str]:
    """The texts of a server, and why there are fewer than prompts."""
    with ServerClient(url) as client:
        kind, model = identify(client)
        extra: dict[str, Any] = {"temperature": 0, "logprobs": TOP, "return_tokens_as_token_ids": True}
        if kind == "llamacpp":
            extra = {"temperature": 0, "top_k": 1, "n_probs": TOP, "return_tokens": True, "repeat_penalty": 1.0}
        route: Any = "native" if kind == "llamacpp" else "completions"
        target = Target(client=client, kind=kind, model=model, route=route, extra={**extra, **fields})
        texts: list[GreedyText] = []
        for prompt in prompts:
            try:
                texts.append(_served_text(prompt, send_request(target, prompt, length)))
            except ServerError as error:
                if not texts:
                    raise
                return texts, str(error).rstrip(".")
        return texts, ""


def _served_text(prompt: str, answer: Answer) -> GreedyText:
    """An answer by tokens or, where the engine does not tell them, by characters: chunks may hold several tokens."""
    found = answer.positions
    words = tuple(one.word for one in found)
    if all(one.token == one.word and one.top is None for one in found):
        return GreedyText(prompt=prompt, tokens=tuple(answer.text), by_character=True)
    return GreedyText(
        prompt=prompt, tokens=tuple(one.token for one in found), words=words, top=tuple(one.top for one in found)
    )


def _of_checkpoint(folder: Path, prompts: list[str], length: int, fields: Mapping[str, Any]) -> list[GreedyText]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options = dict(fields)
    dtype = getattr(torch, str(options.pop("dtype", "float32")), None)
    if not isinstance(dtype, torch.dtype):
        raise ServerError(f"dtype: {fields['dtype']!r} is not a type of torch; use float32, bfloat16 or float16.")
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    network: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)
    texts = []
    for prompt in prompts:
        ids = torch.tensor([tokenizer(prompt).input_ids])
        out = network.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=length,
            return_dict_in_generate=True,
            output_logits=True,
            **options,
        )
        tokens = out.sequences[0, ids.shape[1] :].tolist()
        tops = [_likeliest(row[0].float().log_softmax(-1).topk(min(TOP, row.shape[-1]))) for row in out.logits]
        words = tuple(tokenizer.decode([token]) for token in tokens)
        texts.append(GreedyText(prompt=prompt, tokens=tuple(map(str, tokens)), words=words, top=tuple(tops)))
    return texts


def _likeliest(ranked: Any) -> Top:
    return {str(token): value for value, token in zip(ranked.values.tolist(), ranked.indices.tolist(), strict=True)}


def _of_trace(trace: traces.Trace) -> GreedyText:
    """The output of a trace; its steps may have the likeliest tokens at each position."""
    tokens = [token for token in trace.output.tokens if token is not None]
    if not tokens or not all(isinstance(token, int) for token in tokens):
        raise ServerError(f"trace of {trace.method}: has no ids of the output; give traces of texts.")
    words = trace.legend.vocabulary or {}
    tops: dict[int, Top] = {}
    for step in trace.steps:
        for position, fate, ranked in zip(step.position, step.fate, step.top or (), strict=False):
            if fate.final:
                tops[position] = {str(token): math.log(max(prob, 1e-30)) for token, prob in ranked}
    return GreedyText(
        prompt=trace.rendered or trace.prompt,
        tokens=tuple(map(str, tokens)),
        words=tuple(words.get(token, str(token)) for token in tokens if isinstance(token, int)),
        top=tuple(tops.get(position) for position in range(len(tokens))),
    )


def _of_file(path: Path) -> list[GreedyText]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ServerError(f"{path}: cannot be read ({error.strerror}); give a file, a folder or an address.") from None
    if len(data) > limits.FILE_BYTES:
        raise ServerError(f"{path}: has more than {limits.FILE_BYTES // 2**20} MB; give fewer texts.")
    try:
        document = json.loads(data) if not path.name.endswith(".gz") else None
    except (ValueError, RecursionError):
        raise ServerError(f"{path}: is not JSON; give texts, a trace, or a result of draftscope.") from None
    if document is None or (isinstance(document, dict) and document.get("schema") == SCHEMA):
        return [_of_trace(traces.loads(data, name=path.name))]
    return read_texts(document)
