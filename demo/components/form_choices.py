"""Choices that the server answers by filling a form, one after the other, around what a visitor has changed since."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import gradio as gr

from draftscope.demo.components.context import AT_ONCE_EACH, Update

Handler = Callable[[Update], Update]

WAITING: Final = "(globalThis.draftscopeChoices ??= [])"
"""Script of the choices that were not answered yet, the first of them at the server."""
_KNOWN: Final = "(globalThis.draftscopeKnown ??= [])"
"""Script of the values that fields had when they were last chosen from or filled, by their numbers."""
_ASK: Final = f"""(source, ...form) => {{{{
  const [waiting, unchanged] = [{WAITING}, {{{{ __type__: 'update' }}}}];
  const index = ({{index}})(source);
  if (index === undefined) return unchanged;
  waiting.push({{{{ choice: {{{{ name: '{{name}}', index, time: performance.now() }}}}, form }}}});
  return waiting.length > 1 ? unchanged : {{{{ ...waiting[0].choice, form }}}};
}}}}"""
"""Lets a choice wait for those before it, with the form as it was; the first one goes to the server."""
_FILL: Final = f"""(answer, ...form) => {{
  const [waiting, unchanged] = [{WAITING}, {{ __type__: 'update' }}];
  const asked = waiting.shift();
  const filled = form.map((now, field) => {{
    const {{ value, closed }} = answer?.values[field] ?? {{}};
    if (value === undefined || (now !== asked.form[field] && !closed)) return unchanged;
    for (const later of waiting) later.form[field] = value;
    return ({_KNOWN})[field] = value;
  }});
  const next = form.map((now, field) => (filled[field] === unchanged ? now : filled[field]));
  return [waiting.length ? {{ ...waiting[0].choice, form: next }} : unchanged, ...filled];
}}"""
"""Fills the form, except for open fields that were changed since the choice, and sends the next choice."""


class FormChoices:
    """Choices of a visitor, such as another model, for which the server fills a form.

    One choice is at the server at a time, so no answer comes after that to a newer choice. An answer leaves the fields
    that the visitor has changed since the choice.
    """

    def __init__(self) -> None:
        self.sent_choice = gr.JSON(visible=False)
        """The choice that the server answers, and the form as it is then.

        Unchecked: a visitor may have chosen from a list that the server has replaced since.
        """
        self.answer = gr.JSON(visible=False)
        """Name of the choice that was answered, and for each field a value and whether it is closed, or null."""
        self.fields: Sequence[Any] = ()
        """Components of the form."""
        self._handlers: dict[str, Handler] = {}

    def add(self, event: Any, name: str, handler: Handler, index: str = "() => null", source: Any = None) -> None:
        """Answer an event.

        Args:
            event: Listener of the event.
            name: Name of the choice.
            handler: Returns updates, among them those of fields; raises gr.Error for an invalid choice.
            index: Script that returns which of several was chosen, from the value of `source`; see `index`. Where it
                returns undefined, nothing was chosen.
            source: Component that this script needs.
        """
        self._handlers[name] = handler
        inputs = [source or self.sent_choice, *self.fields]
        event(None, inputs, self.sent_choice, js=_ASK.format(name=name, index=index), **AT_ONCE_EACH)

    def add_list(self, field: gr.Dropdown, name: str, handler: Handler) -> None:
        """Answer a new value of a list of the form.

        Gradio reports an input, too, where a list that was opened is left as it was.

        Args:
            field: The list, one of `fields`.
            name: Name of the choice.
            handler: See `add`.
        """
        number = self.fields.index(field)
        field.focus(None, field, None, js=f"(value) => {{ {_KNOWN}[{number}] = value; }}", **AT_ONCE_EACH)
        swap = f"([{_KNOWN}[{number}], {_KNOWN}[{number}] = value][0] === value ? undefined : null)"
        self.add(field.input, name, handler, f"(value) => {swap}", field)

    def connect(self, reads: set[Any], changes: Sequence[Any]) -> Any:
        """Answer the choices.

        Args:
            reads: Components whose values handlers read in addition to the fields.
            changes: Components that handlers update.

        Returns:
            The event that fires when the form has been filled.
        """
        answered = self.sent_choice.change(
            self.answered, {self.sent_choice, *reads}, [self.answer, *changes], **AT_ONCE_EACH
        )
        form, filled = [*self.fields], [self.sent_choice, *self.fields]
        answered.failure(None, form, filled, js=f"(...form) => ({_FILL})(null, ...form)", **AT_ONCE_EACH)
        return answered.success(None, [self.answer, *form], filled, js=_FILL, **AT_ONCE_EACH)

    def answered(self, values: Update) -> Update:
        """Answer one choice; raises gr.Error for one that the page does not offer."""
        choice: Any = values[self.sent_choice]
        name = str(choice.get("name")) if isinstance(choice, Mapping) else ""
        form = choice.get("form") if name in self._handlers else None
        if not isinstance(form, list) or len(form) != len(self.fields):
            raise gr.Error("choice: is unknown; reload the page.")
        update = dict(self._handlers[name](values | dict(zip(self.fields, form, strict=True))))
        field_values = [_pop_value(update, field) for field in self.fields]
        return update | {self.answer: {"name": name, "values": field_values}}

    def index(self, values: Update) -> object:
        """Return which of several was chosen, as the page sent it."""
        return values[self.sent_choice].get("index")


def _pop_value(update: Update, field: Any) -> dict[str, Any] | None:
    """Take the value of a field out of an update. Its choices and the like stay in it, as the server checks by them."""
    change = update.pop(field, None)
    if not isinstance(change, dict):
        return None if change is None else {"value": change, "closed": False}
    others = {name: each for name, each in change.items() if name != "value"}
    if others.keys() - {"__type__"}:
        update[field] = others
    return {"value": change["value"], "closed": others.get("interactive") is False} if "value" in change else None
