"""How a prompt is put to a language model, and which prompts are refused."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from engines.settings import format_value

_CHATML: Final = (
    "{% for turn in messages %}<|im_start|>{{ turn['role'] }}\n{{ turn['content'] }}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)
_MAX_CHARACTERS: Final = 200
"""Maximum length of a template's error message."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How a prompt is given to a causal language model: in the chat template of its tokenizer, or unchanged."""

    chat: bool | None = None
    """None for the template if the tokenizer has one; with True, ChatML replaces a missing template."""
    messages: tuple[Mapping[str, str], ...] = ()
    system: str = ""

    @classmethod
    def parse(cls, chat: object = None, messages: object = None, system: object = None) -> "ChatOptions":
        """Parse the chat options of a request; raises ValueError for an invalid one."""
        if chat is not None and not isinstance(chat, bool):
            raise ValueError(f"chat: {format_value(chat)} is not allowed; use True or False, or leave it out.")
        if system is not None and not (isinstance(system, str) and system.strip()):
            raise ValueError(f"system: {format_value(system)} is not allowed; use a text, or leave it out.")
        turns = messages if isinstance(messages, list | tuple) else []
        texts = [turn.get(key) if isinstance(turn, Mapping) else None for turn in turns for key in ("role", "content")]
        if messages is not None and not (texts and all(isinstance(text, str) for text in texts)):
            raise ValueError(
                'messages: must be a list of turns, such as [{"role": "user", "content": "Why is the sky blue?"}].'
            )
        if chat is False and (messages or system):
            field = "messages" if messages else "system"
            raise ValueError(f"{field}: cannot be combined with chat=False, which has no turns; leave one of them out.")
        return cls(chat, tuple(turns), system or "")

    @property
    def question(self) -> str:
        """The last turn of `messages`."""
        return self.messages[-1]["content"] if self.messages else ""

    def render(self, tokenizer: Any, prompt: str, name: str) -> tuple[str, bool]:
        """The prompt as the model `name` reads it, and whether a template wrote it with all special tokens."""
        begun = ({"role": "system", "content": self.system},) if self.system else ()
        turns = [*begun, *(self.messages or ({"role": "user", "content": prompt},))]
        check_not_empty(turns[-1]["content"], "ask a question")
        if self.chat is False:
            return prompt, False
        special = [token.content for token in getattr(tokenizer, "added_tokens_decoder", {}).values() if token.special]
        for turn in turns:
            check_no_special_tokens(turn["content"], special, name)
        template = getattr(tokenizer, "chat_template", None)
        if not (template or self.chat or self.messages or self.system):
            return prompt, False
        try:
            text = tokenizer.apply_chat_template(
                turns, chat_template=None if template else _CHATML, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # whatever a template raises
            problem = " ".join(str(error).split())[:_MAX_CHARACTERS]
            raise ValueError(
                f"chat: the chat template of {name} refuses these turns ({problem}); change them, or use chat=False."
            ) from error
        return str(text), True


def check_not_empty(prompt: str, remedy: str) -> None:
    """Raise ValueError for a prompt without a word, saying what to do."""
    if not prompt.strip():
        raise ValueError(f"prompt: is empty; {remedy}.")


def check_no_special_tokens(prompt: str, special: Iterable[str], name: str) -> None:
    """Raise ValueError for a prompt that holds one of the special tokens of the model `name`."""
    for token in special:
        if token in prompt:
            raise ValueError(f"prompt: holds {token!r}, which {name} keeps for itself; leave it out.")


def check_guidance(guided: bool, name: str, needed: str = "prompt") -> None:
    """Raise ValueError if guidance is requested from the model `name`, which cannot run without its prompt."""
    if guided:
        raise ValueError(f"guidance: {name} cannot run without its {needed}, as guidance does; use 1.")


def check_length(count: int, length: int, longest: int, name: str, field: str = "prompt") -> None:
    """Raise ValueError where a prompt of `count` tokens, called `field`, and `length` more do not fit `longest`."""
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
