"""Prompts of models that draw: texts, which may hold none of the model's special tokens, and numbers of classes."""

from tokenizers import Tokenizer

from engines.models.errors import ModelError


class TextPrompts:
    """A tokenizer, and the special tokens that a model's prompts are made with."""

    def __init__(self, tokenizer: Tokenizer, owner: str, *needed: str) -> None:
        """See that the special tokens are there.

        Raises:
            ModelError: for the first that is not.
        """
        self._tokenizer, self.owner = tokenizer, owner
        self._named: dict[str, int] = {}
        for name in needed:
            found = tokenizer.token_to_id(name)
            if found is None:
                raise ModelError(f"{owner}: its tokenizer has no {name}. Fetch its tokenizer.json again.")
            self._named[name] = found
        added = tokenizer.get_added_tokens_decoder().values()
        self._kept = {token.content for token in added if token.special} | set(needed)

    def named(self, name: str) -> int:
        """The id of one of the needed tokens."""
        return self._named[name]

    def ids(self, text: str) -> tuple[int, ...]:
        """The ids of a text, with nothing added."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def checked(self, prompt: str) -> str:
        """A visitor's prompt, which may not be empty and holds no special token.

        Raises:
            ValueError: where it is not like that.
        """
        if not prompt.strip():
            raise ValueError("prompt: is empty; say what to draw.")
        for name in sorted(self._kept):
            if name in prompt:
                raise ValueError(f"prompt: holds {name!r}, which {self.owner} keeps for itself; leave it out.")
        return prompt.strip()


def class_of(prompt: str, classes: int) -> int:
    """The class that a prompt names.

    Raises:
        ValueError: for anything but the number of one.
    """
    if not prompt.isdecimal() or int(prompt) >= classes:
        raise ValueError(f"prompt: {prompt!r} is no class; give a number from 0 to {classes - 1}.")
    return int(prompt)
