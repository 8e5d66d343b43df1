"""`draftscope bench --server`: a running server on your prompts, next to another one, or to itself without drafts.

Every prompt is sent to both in turn, phase by phase: all prompts to one server, then all to the other, so that each has
the machine to itself and counters before and after a phase belong to it. The order changes with every repetition. Later
questions of a conversation follow the answers of the first phase.
"""

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Final

from tqdm import tqdm

from draftscope.engines.settings import check_count
from draftscope.experiments.prompt_files import BenchPrompt, PromptEntry, parse_prompts
from draftscope.servers.answers import Answer, Route, Target, send_request
from draftscope.servers.client import ServerClient, ServerError
from draftscope.servers.engines import METRICS, identify
from draftscope.servers.served_result import ORDINARY, SERVER, Measured, ServedResult
from draftscope.serving_formats import draft_counters, parsed
from draftscope.traces.stats import add_sums
from draftscope.traces.version import __version__

LENGTH: Final = 128
MAX_FAILURES: Final = 3
"""Requests in a row that may fail before the rest of a phase is left out."""


def bench_server(
    server: str,
    prompts: str | os.PathLike[str] | Sequence[PromptEntry],
    *,
    baseline: str | None = None,
    length: int = LENGTH,
    concurrency: int = 1,
    **options: Any,
) -> ServedResult:
    """Measure a running server on your prompts, next to a baseline if there is one.

    Args:
        server: Its address.
        prompts: A file as `read_prompts` describes it, or a list of its entries.
        baseline: Address of a server without drafts; the same address with `baseline_fields` where the engine turns
            drafts off by request.
        length: Tokens of an answer.
        concurrency: Requests at a time.
        options: `route`, "chat" (the default), "completions" or, for llama.cpp, "native"; `fields` and
            `baseline_fields`, further JSON fields of every request, such as temperature (0 by default); `warmup`,
            requests that are not counted (1); `repeats`; `progress=True`.

    Returns:
        Times in seconds and counts of every request, of both servers; `.table()` has a line for each server.

    Raises:
        ValueError: For prompts that cannot be read, or a server that answers none of them; the message names what to
            do.
    """
    known = {"route": "chat", "fields": {}, "baseline_fields": {}, "warmup": 1, "repeats": 1, "progress": False}
    if unknown := options.keys() - known:
        raise TypeError(f"{min(unknown)}: is not an option of bench_server; there are {', '.join(known)}.")
    settings: dict[str, Any] = known | options
    check_count("length", length)
    check_count("concurrency", concurrency)
    check_count("repeats", settings["repeats"])
    check_count("warmup", settings["warmup"], minimum=0)
    texts = parse_prompts(prompts)
    with ExitStack() as stack:
        targets: dict[str, Target] = {}
        if baseline is not None:
            targets[ORDINARY] = _target(stack, baseline, settings, settings["baseline_fields"])
        targets[SERVER] = _target(stack, server, settings, {})
        measuring = _Measuring(targets, texts, length, concurrency, settings)
        return measuring.run()


def _target(stack: ExitStack, url: str, settings: Mapping[str, Any], fields: Mapping[str, Any]) -> Target:
    client = stack.enter_context(ServerClient(url))
    kind, model = identify(client)
    route: Route = settings["route"]
    if route == "native" and kind != "llamacpp":
        raise ServerError(f"route: {kind or 'this server'} has no native route that is known; use chat or completions.")
    extra = {"temperature": 0, **settings["fields"], **fields}
    return Target(client=client, kind=kind, model=model, route=route, extra=extra)


class _Measuring:
    """Sends the prompts, phase by phase."""

    def __init__(
        self,
        targets: dict[str, Target],
        texts: Sequence[BenchPrompt],
        length: int,
        concurrency: int,
        settings: Mapping[str, Any],
    ) -> None:
        self._targets, self._texts, self._length, self._concurrency = targets, texts, length, concurrency
        self._settings = settings
        self._history: dict[tuple[int, int], str] = {}
        """Answers of the first phase, by prompt and question."""
        about: dict[str, Any] = {"created": datetime.now(UTC).isoformat(timespec="seconds"), "version": __version__}
        about |= {"length": length, "concurrency": concurrency, "repeats": settings["repeats"]}
        servers = {
            label: {
                "url": one.client.url,
                "kind": one.kind,
                "model": one.model,
                "route": one.route,
                "fields": dict(one.extra),
            }
            for label, one in targets.items()
        }
        self._result = ServedResult(about | {"servers": servers})

    def run(self) -> ServedResult:
        """Measure all phases; Ctrl-C ends them and keeps what came."""
        labels, result = list(self._targets), self._result
        questions = sum(len(text.questions) or 1 for text in self._texts)
        total = questions * len(labels) * self._settings["repeats"]
        with tqdm(total=total, disable=not self._settings["progress"], unit="request", desc="bench") as bar:
            try:
                for label in labels:
                    self._warm_up(label)
                for repetition in range(self._settings["repeats"]):
                    for label in labels if repetition % 2 == 0 else labels[::-1]:
                        self._phase(label, repetition, bar.update)
            except KeyboardInterrupt:
                result.interrupted = True
        if not result.measured:
            if result.interrupted:
                raise KeyboardInterrupt
            raise ServerError(result.failed[0])
        return result

    def _warm_up(self, label: str) -> None:
        for text in self._texts[: self._settings["warmup"]]:
            send_request(self._targets[label], self._prompt(text, 0, 0), self._length)

    def _prompt(self, text: BenchPrompt, number: int, question: int) -> Any:
        """A question after those before it and the answers of the first phase."""
        if text.messages:
            return text.messages
        if not question:
            return text.questions[0]
        turns: list[dict[str, str]] = []
        for at in range(question):
            turns.append({"role": "user", "content": text.questions[at]})
            turns.append({"role": "assistant", "content": self._history.get((number, at), "")})
        return [*turns, {"role": "user", "content": text.questions[question]}]

    def _phase(self, label: str, repetition: int, report: Any) -> None:
        """Send all prompts to one server."""
        target, result = self._targets[label], self._result
        before = _metrics(target)
        began = time.perf_counter()
        pool = ThreadPoolExecutor(self._concurrency)
        waiting = iter(enumerate(self._texts))
        running: dict[Future[list[tuple[int, Answer | ServerError]]], int] = {}
        failures = 0
        try:
            while True:
                while len(running) < self._concurrency and failures < MAX_FAILURES and (one := next(waiting, None)):
                    running[pool.submit(self._converse, label, *one)] = one[0]
                if not running:
                    break
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    number = running.pop(future)
                    for question, answer in future.result():
                        report()
                        if isinstance(answer, ServerError):
                            failures += 1
                            result.failed.append(str(answer))
                            continue
                        failures = 0
                        problem = self._problem(number, question)
                        category = self._texts[number].category
                        result.measured.append(
                            Measured(
                                server=label, problem=problem, repetition=repetition, category=category, answer=answer
                            )
                        )
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if failures >= MAX_FAILURES and (left := sum(1 for _ in waiting)):
                result.failed.append(f"{label}: {left} prompts were left out after {failures} failures in a row.")
            spent = time.perf_counter() - began
            result.phase_seconds[label] = result.phase_seconds.get(label, 0.0) + spent
        self._count(label, before)

    def _problem(self, number: int, question: int) -> int:
        return sum(len(text.questions) or 1 for text in self._texts[:number]) + question

    def _converse(self, label: str, number: int, text: BenchPrompt) -> list[tuple[int, Answer | ServerError]]:
        """Ask all questions of a prompt, up to the first that fails."""
        answers: list[tuple[int, Answer | ServerError]] = []
        for question in range(len(text.questions) or 1):
            try:
                answer = send_request(self._targets[label], self._prompt(text, number, question), self._length)
            except ServerError as error:
                return [*answers, (question, error)]
            self._history.setdefault((number, question), answer.text)
            answers.append((question, answer))
        return answers

    def _count(self, label: str, before: str) -> None:
        """Add what the counters of a server gained."""
        target = self._targets[label]
        try:
            after = _metrics(target)
            counters = draft_counters(parsed(after), before, METRICS[target.kind]) if after else None
        except ValueError:  # the server has ended, or counted no drafts
            return
        if counters is None:
            return
        earlier = self._result.sums.get(label)
        self._result.sums[label] = add_sums([*([earlier] if earlier else []), counters.sums()])


def _metrics(target: Target) -> str:
    """The text of `/metrics`; empty where an engine has none that counts drafts."""
    if target.kind not in METRICS:
        return ""
    try:
        return target.client.get_text("/metrics")
    except ServerError:  # not every server is started with them
        return ""
