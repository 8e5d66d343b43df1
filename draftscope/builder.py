"""Traces of what others decode: steps go in, canvas, output and summary follow from them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from draftscope import traces
from draftscope.trace import Trace, displayable
from draftscope.traces import Fate, Step, limits
from draftscope.traces.count_only import counted, derived_summary, summary_of
from draftscope.traces.io import parts_checked
from draftscope.traces.replay import canvas_size, replay_steps
from draftscope.traces.schema import Call, Canvas, Environment, Legend, Milliseconds, ModelCard, Output

_HEAD: Final = frozenset({"variant", "draft_model", "config", "seed", "created", "environment", "note", "extensions"})


class TraceBuilder:
    """Collects the steps of a run and builds its trace.

    A step lists which tokens got which outcome (`step`), or only their numbers (`count`).
    """

    def __init__(
        self, method: str, model: str | ModelCard, *, prompt: str = "", canvas: Canvas | None = None, **head: Any
    ) -> None:
        """Start a trace.

        Args:
            method: Name of the decoding method, in a word or two.
            model: Id or card of the target.
            prompt: Prompt of the run.
            canvas: Arrangement of positions; by default a text as long as its positions.
            head: Further fields of a trace: draft_model, config, seed, created, environment, note, extensions, variant.

        Raises:
            TypeError: If a trace has no such field.
        """
        if wrong := head.keys() - _HEAD:
            raise TypeError(f"{min(wrong)}: is not a field of a trace's head; use {', '.join(sorted(_HEAD))}")
        self._steps: list[Step] = []
        self._canvas = canvas
        draft = head.get("draft_model")
        self._head: dict[str, Any] = {
            "config": {},
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "environment": Environment(),
            **head,
            "method": method,
            "model": _card(model),
            "draft_model": None if draft is None else _card(draft),
            "prompt": prompt,
        }

    def add(self, step: Step) -> None:
        """Add a step that is a record already."""
        self._steps.append(step)

    def step(
        self,
        position: Sequence[int],
        fate: Sequence[str | Fate],
        token: Sequence[Any] = (),
        *,
        call: Call | Mapping[str, Any] | None = None,
        **columns: Any,
    ) -> None:
        """Add a forward pass.

        Args:
            position: Positions that it changes, from 0 in decoding order.
            fate: Outcome at each position; names as in docs/trace.md.
            token: Token of each position after the pass; empty if ids are unknown.
            call: Model and cost: role, mode, query_tokens, milliseconds; by default a verification by the target.
            columns: Further columns of a step, one value per position: draft, p, q, accept_prob, `coin`, top; and
                numbers,
                signals, mask and others.

        Raises:
            ValueError: If a fate is unknown.
        """
        columns = {name: tuple(column) if isinstance(column, list) else column for name, column in columns.items()}
        columns |= {"position": tuple(position), "fate": tuple(map(Fate, fate)), "token": tuple(token)}
        self.add(Step(call=_call(call, len(position)), **columns))

    def count(
        self,
        accepted: int,
        drafted: int | None = None,
        tokens: int | None = None,
        *,
        call: Call | Mapping[str, Any] | None = None,
    ) -> None:
        """Add a forward pass of which only numbers are known.

        Args:
            accepted: Drafts accepted.
            drafted: Drafts verified.
            tokens: Tokens that became final, the target's own included; by default the accepted ones.
            call: As for `step`.
        """
        signals = {"accepted": accepted, "window": drafted, "committed": tokens}
        known = {name: float(value) for name, value in signals.items() if value is not None}
        self.add(Step(call=_call(call, (drafted or accepted) + 1), signals=known))

    def trace(
        self, tokens: Sequence[Any] = (), *, text: str | None = None, complete: bool | None = None, **fields: Any
    ) -> Trace:
        """The trace so far, checked.

        Args:
            tokens: Ids of the whole output, for steps that did not tell them.
            text: The output as text.
            complete: Whether the run came to its end; by default whether the canvas is full.
            **fields: A `legend`; or `sums` in place of steps, whose ids are not known.

        Raises:
            TraceError: For steps that contradict each other, with what to do.
        """
        # A run that was stopped has at least one position that it did not come to.
        ends = [position + 1 for step in self._steps for position in step.position]
        length = max([1, sum(map(counted, self._steps)), *ends])
        canvas = self._canvas or Canvas(kind="text", shape=(length + (complete is False),))
        size, legend, sums = canvas_size(canvas), fields.get("legend", Legend()), fields.get("sums")
        ids_known = any(step.token for step in self._steps)
        size = size if size <= limits.POSITIONS else 0  # The checks refuse what is larger.
        padded = tuple(tokens) + (None,) * (size - len(tokens)) if tokens or ids_known or sums else ()
        trace = traces.Trace(
            **self._head,
            canvas=canvas,
            legend=legend,
            steps=tuple(self._steps),
            sums=sums,
            output=Output(tokens=padded, text=text),
            summary=summary_of((), canvas, complete=complete or False),
        )
        trace = parts_checked(trace)
        if not tokens and ids_known:
            end = replay_steps(trace.steps, size)
            final_tokens = tuple(token if final else None for token, final in zip(end.tokens, end.final, strict=True))
            trace = replace(trace, output=replace(trace.output, tokens=final_tokens))
        summary = (
            summary_of(trace.steps, canvas, legend.ends, complete=complete) if sums is None else derived_summary(trace)
        )
        trace = replace(trace, summary=summary)
        traces.check(trace)
        return displayable(trace)


def _card(model: str | ModelCard) -> ModelCard:
    return model if isinstance(model, ModelCard) else ModelCard(id=model)


def _call(call: Call | Mapping[str, Any] | None, fed: int) -> Call:
    if isinstance(call, Call):
        return call
    fields: dict[str, Any] = {"role": "target", "mode": "verify", "query_tokens": fed, **(call or {})}
    spent = fields.get("milliseconds")
    if isinstance(spent, int | float):
        fields["milliseconds"] = Milliseconds(forward=float(spent))
    return Call(**fields)
