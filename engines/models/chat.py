"""How a prompt is put to a language model, and which prompts are refused."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from engines.settings import shown

_CHATML: Final = (
    "{% for turn in messages %}<|im_start|>{{ turn['role'] }}\n{{ turn['content'] }}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)
_MOST_CHARACTERS: Final = 200
"""Of what a template says."""


@dataclass(frozen=True, slots=True)
class Chat:
    """How a prompt is put to a causal language model: in the chat template of its tokenizer, or as it stands."""

    chat: bool | None = None
    """None for the template where the tokenizer has one; with True, ChatML stands in for a template that is missing."""
    messages: tuple[Mapping[str, str], ...] = ()
    system: str = ""

    @classmethod
    def of(cls, chat: object = None, messages: object = None, system: object = None) -> "Chat":
        """What somebody asks for; raises ValueError for what cannot be; the message says what can."""
        if chat is not None and not isinstance(chat, bool):
            raise ValueError(f"chat: {shown(chat)} is not allowed; use True or False, or leave it out.")
        if system is not None and not (isinstance(system, str) and system.strip()):
            raise ValueError(f"system: {shown(system)} is not allowed; use a text, or leave it out.")
        turns = messages if isinstance(messages, list | tuple) else []
        texts = [turn.get(key) if isinstance(turn, Mapping) else None for turn in turns for key in ("role", "content")]
        if messages is not None and not (texts and all(isinstance(text, str) for text in texts)):
            raise ValueError(
                'messages: are no list of turns; give such as [{"role": "user", "content": "Why is the sky blue?"}].'
            )
        if chat is False and (messages or system):
            beside = "messages" if messages else "system"
            raise ValueError(f"{beside}: stands beside chat=False, which has no turns; leave one of them out.")
        return cls(chat, tuple(turns), system or "")

    @property
    def question(self) -> str:
        """The last turn of `messages`."""
        return self.messages[-1]["content"] if self.messages else ""

    def render(self, tokenizer: Any, prompt: str, name: str) -> tuple[str, bool]:
        """The prompt as the model `name` reads it, and whether a template wrote it with all special tokens."""
        begun = ({"role": "system", "content": self.system},) if self.system else ()
        turns = [*begun, *(self.messages or ({"role": "user", "content": prompt},))]
        refuse_empty(turns[-1]["content"], "ask a question")
        if self.chat is False:
            return prompt, False
        special = [token.content for token in getattr(tokenizer, "added_tokens_decoder", {}).values() if token.special]
        for turn in turns:
            refuse_special(turn["content"], special, name)
        template = getattr(tokenizer, "chat_template", None)
        if not (template or self.chat or self.messages or self.system):
            return prompt, False
        try:
            text = tokenizer.apply_chat_template(
                turns, chat_template=None if template else _CHATML, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # whatever a template raises
            problem = " ".join(str(error).split())[:_MOST_CHARACTERS]
            raise ValueError(
                f"chat: the chat template of {name} refuses these turns ({problem}); change them, or use chat=False."
            ) from error
        return str(text), True


def refuse_empty(prompt: str, remedy: str) -> None:
    """Raise ValueError for a prompt without a word, saying what to do."""
    if not prompt.strip():
        raise ValueError(f"prompt: is empty; {remedy}.")


def refuse_special(prompt: str, special: Iterable[str], name: str) -> None:
    """Raise ValueError for a prompt that holds one of the special tokens of the model `name`."""
    for token in special:
        if token in prompt:
            raise ValueError(f"prompt: holds {token!r}, which {name} keeps for itself; leave it out.")


def refuse_guidance(guided: bool, name: str, needed: str = "prompt") -> None:
    """Raise ValueError where the model `name`, which cannot run without its prompt, is to be guided."""
    if guided:
        raise ValueError(f"guidance: {name} cannot run without its {needed}, as guidance does; use 1.")


def refuse_too_long(count: int, length: int, longest: int, name: str, field: str = "prompt") -> None:
    """Raise ValueError where a prompt of `count` tokens, called `field`, and `length` more do not fit `longest`."""
    room = longest - length
    if room < 1:
        raise ValueError(
            f"length: {length} is too much for {name}, which has room for {longest} tokens, the prompt's included; use "
            "a smaller one."
        )
    if count > room:
        raise ValueError(
            f"{field}: the prompt has {count} tokens, and {name} has room for {room} beside an answer of {length}; "
            "shorten it or lower length."
        )
