"""How a prompt is put to a language model, and which prompts are refused."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from draftscope.engines.models.tokenizer_files import special_tokens
from draftscope.engines.settings import format_value

_CHATML: Final = (
    "{% for turn in messages %}<|im_start|>{{ turn['role'] }}\n{{ turn['content'] }}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)
_MAX_CHARACTERS: Final = 200
"""Maximum length of a template's error message."""


_RESERVED: Final = ("chat_template", "tokenize", "return_dict", "return_tensors", "padding", "truncation", "max_length")
"""Arguments of `apply_chat_template` that a template does not see."""
_CONTINUES: Final = "continue_final_message"
_DATE: Final = "strftime_now"
"""The function by which a template asks for the date."""

Turn: TypeAlias = Mapping[str, Any]
"""A turn of a conversation as `apply_chat_template` takes it: `role`, `content` and, for instance, `tool_calls`."""


class RenderedPrompt(NamedTuple):
    """A prompt as a model reads it."""

    text: str
    is_template: bool
    """Whether a template wrote it with all special tokens."""
    record: Mapping[str, Any]
    """Options of a chat that a trace keeps: those that were set, `messages` as their number, and in `template` the date
    that the template reads."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How a prompt is given to a causal language model: in the chat template of its tokenizer, or unchanged."""

    chat: bool | None = None
    """None for the template if the tokenizer has one; with True, ChatML replaces a missing template."""
    messages: tuple[Turn, ...] = ()
    system: str = ""
    template: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the template, such as `enable_thinking` and `tools`, and `continue_final_message`."""

    @classmethod
    def parse(
        cls, chat: object = None, messages: object = None, system: object = None, template: object = None
    ) -> "ChatOptions":
        """Parse the chat options of a request.

        Args:
            chat: True for the chat template, ChatML if the model has none; False for the prompt as it is; None for the
                chat template if the model has one.
            messages: Turns of a conversation, in place of a prompt.
            system: System message before the first turn.
            template: Variables of the chat template, such as {"enable_thinking": False}.

        Raises:
            ValueError: If an option has the wrong type, or cannot be combined with `chat=False`.
        """
        if chat is not None and not isinstance(chat, bool):
            raise ValueError(f"chat: {format_value(chat)} is not allowed; use True or False, or leave it out.")
        if system is not None and not (isinstance(system, str) and system.strip()):
            raise ValueError(f"system: {format_value(system)} is not allowed; use a text, or leave it out.")
        if template is not None and not (
            isinstance(template, Mapping) and all(isinstance(key, str) for key in template)
        ):
            raise ValueError(
                f"template: {format_value(template)} is not allowed; use names and values, such as "
                '{"enable_thinking": False}.'
            )
        variables = dict(template or {})
        for name in _RESERVED:
            if name in variables:
                raise ValueError(f"template: {name!r} is not a variable of a chat template; leave it out.")
        turns = () if messages is None else parse_turns(messages)
        options = {"messages": turns, "system": system, "template": variables}
        if chat is False and (field := next((name for name, value in options.items() if value), "")):
            raise ValueError(f"{field}: cannot be combined with chat=False, which has no turns; leave one of them out.")
        return cls(chat, turns, system or "", variables)

    @property
    def question(self) -> str:
        """The text of the last turn of `messages`."""
        return text_of_turn(self.messages[-1]) if self.messages else ""

    def render(self, tokenizer: Any, prompt: str, name: str) -> RenderedPrompt:
        """Return a prompt as a model reads it.

        Args:
            tokenizer: Tokenizer of transformers, whose chat template and special tokens are used.
            prompt: Text of the user, without effect if the options have messages.
            name: Model that errors name.

        Raises:
            ValueError: If the prompt is empty or holds a special token, or an option needs a chat template and there is
                none.
        """
        begun: tuple[Turn, ...] = ({"role": "system", "content": self.system},) if self.system else ()
        turns = [*begun, *(self.messages or ({"role": "user", "content": prompt},))]
        if not self.messages:
            check_not_empty(prompt, "ask a question")
        if self.chat is False:
            return RenderedPrompt(prompt, False, {"chat": False})
        special = special_tokens(tokenizer).values()
        for turn in turns:
            if turn["role"] != "assistant":  # a model's own answer may hold them
                check_no_special_tokens(text_of_turn(turn), special, name)
        template = _template_of(tokenizer)
        if not template and self.chat is None:
            needs = {"messages": self.messages, "system": self.system, "template": self.template}
            if field := next((name for name, value in needs.items() if value), ""):
                raise ValueError(
                    f"{field}: {name} has no chat template, so it does not chat; use chat=True for ChatML, or give a "
                    "prompt."
                )
            return RenderedPrompt(prompt, False, {})
        text = self._applied(tokenizer, turns, name, template)
        dated = {"date": f"{datetime.now():%Y-%m-%d}"} if _DATE in template else {}
        record = {"messages": len(self.messages), "system": self.system, "template": {**self.template, **dated}}
        chosen = {} if self.chat is None else {"chat": self.chat}
        return RenderedPrompt(text, True, chosen | {name: value for name, value in record.items() if value})

    def _applied(self, tokenizer: Any, turns: list[Turn], name: str, template: str) -> str:
        """The turns in the template of a tokenizer, or in ChatML without one."""
        options = {"add_generation_prompt": not self.template.get(_CONTINUES), **self.template}

        def apply(turns: list[Turn]) -> str:
            chosen = None if template else _CHATML
            return str(tokenizer.apply_chat_template(turns, chat_template=chosen, tokenize=False, **options))

        lists = [turn["content"] for turn in turns if isinstance(turn.get("content"), list)]
        joined = [{**turn, "content": text_of_turn(turn)} if turn.get("content") in lists else turn for turn in turns]
        try:
            try:
                text = apply(turns)
            except Exception:  # of a template that adds texts, and got a list
                if not lists:
                    raise
                return apply(joined)
            return apply(joined) if any(str(content) in text for content in lists) else text
        except Exception as error:  # whatever a template raises
            problem = " ".join(str(error).split())[:_MAX_CHARACTERS]
            raise ValueError(
                f"chat: the chat template of {name} refuses these turns ({problem}); change them, or use chat=False."
            ) from error


def _template_of(tokenizer: Any) -> str:
    """The chat template of a tokenizer; empty without one, and of several the default."""
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, Mapping):
        template = template.get("default") or next(iter(template.values()), None)
    return template or ""


def parse_turns(messages: object) -> tuple[Turn, ...]:
    """Return the turns of a conversation; raises ValueError unless each has a role and texts as its content."""
    turns = messages if isinstance(messages, list | tuple) else []
    shaped = [isinstance(turn, Mapping) and isinstance(turn.get("role"), str) and len(turn) > 1 for turn in turns]
    if not shaped or not all(shaped):
        raise ValueError(
            'messages: must be a list of turns, such as [{"role": "user", "content": "Why is the sky blue?"}].'
        )
    for number, turn in enumerate(turns, 1):
        content = turn.get("content")
        parts = content if isinstance(content, list) else [] if content is None else [{"type": "text", "text": content}]
        for part in parts:
            if not (isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)):
                raise ValueError(
                    f"messages: turn {number} has {format_value(part)} in its content; only text is read, as "
                    '{"type": "text", "text": ...}.'
                )
        if not parts and not any(key not in ("role", "content") for key in turn):
            raise ValueError(f"messages: turn {number} is empty; give it a text as 'content'.")
    return tuple(turns)


def text_of_turn(turn: Turn) -> str:
    """The text of a turn, its parts joined; empty for one that only calls tools."""
    content = turn.get("content")
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content or ""


def check_not_empty(prompt: str, remedy: str) -> None:
    """Raise ValueError for a prompt without a word.

    Args:
        prompt: Text of the user.
        remedy: End of the error message, such as "ask a question".
    """
    if not prompt.strip():
        raise ValueError(f"prompt: is empty; {remedy}.")


def check_no_special_tokens(prompt: str, special: Iterable[str], name: str) -> None:
    """Raise ValueError for a prompt that holds a special token.

    Args:
        prompt: Text of the user.
        special: Special tokens, as they are written in a text.
        name: Model that the error names.
    """
    for token in special:
        if token in prompt:
            raise ValueError(f"prompt: holds {token!r}, which {name} keeps for itself; leave it out.")


def check_guidance(guided: bool, name: str, needed: str = "prompt") -> None:
    """Raise ValueError if guidance is requested from a model that cannot run without its prompt.

    Args:
        guided: Whether the request has a guidance scale other than 1.
        name: Model that the error names.
        needed: What the model cannot run without.
    """
    if guided:
        raise ValueError(f"guidance: {name} cannot run without its {needed}, as guidance does; use 1.")


def check_length(count: int, length: int, longest: int, name: str, field: str = "prompt") -> None:
    """Raise ValueError where prompt and output together are too long for a model.

    Args:
        count: Tokens of the prompt.
        length: Tokens of the output.
        longest: Tokens that the model has positions for.
        name: Model that the error names.
        field: Field of the request that the prompt comes from.
    """
    room = longest - length
    if room < 1:
        raise ValueError(
            f"length: {length} is too much for {name}, which has room for {longest} tokens, the prompt's included; use "
            "a smaller one."
        )
    if count > room:
        raise ValueError(
            f"{field}: the prompt has {count} tokens, and {name} has room for {room} plus an answer of {length}; "
            "shorten it or lower length."
        )
