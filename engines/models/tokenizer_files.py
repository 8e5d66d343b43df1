"""Files of a language model about texts: the tokenizer and the chat form."""

from collections.abc import Callable
from typing import Any, Final, cast

import transformers  # its names are imported when they are first used
from tokenizers import Tokenizer

from draftscope.engines.models.checkpoint_files import CheckpointDir

ChatForm = tuple[str, str]
"""Text before and after a question."""
QWEN_CHAT: Final[ChatForm] = ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n")
_SETTINGS: Final = "tokenizer_config.json"


def read_tokenizer(source: CheckpointDir) -> Tokenizer:
    """The tokenizer of a folder: tokenizer.json, or the several files that Qwen's were first published in."""
    if _has_tokenizer_json(source):
        tokenizer: Tokenizer = _read(
            source, "tokenizer.json", lambda: Tokenizer.from_file(str(source.folder / "tokenizer.json"))
        )
        return tokenizer
    return cast(Tokenizer, read_chat_tokenizer(source, transformers.Qwen2Tokenizer).backend_tokenizer)


def read_chat_tokenizer(source: CheckpointDir, kind: Any = None) -> Any:
    """Return the tokenizer of a folder with its chat template; code that the folder brings is not run.

    Args:
        source: Folder of the model.
        kind: Class of transformers; by default the one that the folder names.

    Raises:
        ModelError: If its files are missing or damaged.
    """
    kind = kind or transformers.AutoTokenizer
    has_tokenizer = _has_tokenizer_json(source)
    if has_tokenizer and "auto_map" in source.read_json_if_any(_SETTINGS):
        kind = transformers.PreTrainedTokenizerFast
    files = f"{'tokenizer.json' if has_tokenizer else 'vocab.json, merges.txt'} or {_SETTINGS}"
    options = {"local_files_only": True, "trust_remote_code": False}
    return _read(source, files, lambda: kind.from_pretrained(source.folder, **options))


def encode_template(tokenizer: Any, text: str) -> Any:
    """Return the ids of a text that a chat template wrote, to which no special tokens are added.

    Args:
        tokenizer: Tokenizer of transformers.
        text: The text, with all its special tokens.
    """
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def special_tokens(tokenizer: Any) -> dict[int, str]:
    """The special tokens of a tokenizer by id; empty for one that has none."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return {number: token.content for number, token in added.items() if token.special}


def encode_text(tokenizer: Any, text: str) -> Any:
    """Return the ids of a text with the special tokens that a tokenizer puts before it.

    Args:
        tokenizer: Tokenizer of transformers.
        text: The text; where it begins with these tokens already, they are not repeated.
    """
    ids = tokenizer(text)["input_ids"]
    if not special_tokens(tokenizer):
        return ids
    plain = encode_template(tokenizer, text)
    added = next((i for i in range(len(ids)) if ids[i : i + len(plain)] == plain), 0)
    return ids[added:] if added and plain[:added] == ids[:added] else ids


def _has_tokenizer_json(source: CheckpointDir) -> bool:
    """Whether a folder has a tokenizer.json, and not the other files."""
    folder = source.folder
    if (folder / "tokenizer.json").is_file():
        return True
    if (folder / "tokenizer.model").is_file():
        raise source.unsupported(
            "its tokenizer is tokenizer.model, of SentencePiece, which is not supported; write a tokenizer.json into "
            "the folder once, see docs/models.md"
        )
    if missing := [name for name in ("vocab.json", "merges.txt") if not (folder / name).is_file()]:
        raise source.incomplete(f"tokenizer.json is missing, and so is {missing[0]}, in {folder}")
    return False


def _read(source: CheckpointDir, files: str, read: Callable[[], Any]) -> Any:
    """Read files with the tokenizers library, which raises bare exceptions, and panics."""
    try:
        return read()
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise source.incomplete(f"{files} cannot be read: {error}") from error
        raise


def has_chat_template(source: CheckpointDir) -> bool:
    """Whether a checkpoint comes with a chat template, so that it was taught to chat."""
    is_separate = "chat_template" in source.read_json_if_any(_SETTINGS)
    return is_separate or (source.folder / "chat_template.jinja").is_file()


def named_token(source: CheckpointDir, *fields: str) -> str | None:
    """The token of the first of some fields of tokenizer_config.json that has one; None where none has."""
    settings = source.read_json_if_any(_SETTINGS)
    tokens = (settings.get(field) for field in fields)
    contents = (token.get("content") if isinstance(token, dict) else token for token in tokens)
    return next((token for token in contents if isinstance(token, str)), None)


def token_id(source: CheckpointDir, tokenizer: Tokenizer, token: str) -> int:
    """Return the id of a token that a tokenizer must have.

    Args:
        source: Folder that the error names.
        tokenizer: Tokenizer.
        token: The token as it is written, such as "<|mask|>".

    Raises:
        ModelError: If it has no such token.
    """
    number: int | None = tokenizer.token_to_id(token)
    if number is None:
        raise source.unsupported(f"its tokenizer has no {token}")
    return number


def size_of(source: CheckpointDir, tokenizer: Any, rows: int, last: int = 0) -> int:
    """Return how many ids a tokenizer has.

    Args:
        source: Folder that the error names.
        tokenizer: Tokenizer with `get_vocab`.
        rows: Ids that the network has.
        last: Id that counts, too, where it is larger than those of the tokenizer.

    Raises:
        ModelError: If the network has fewer.
    """
    size: int = max(last, *tokenizer.get_vocab().values()) + 1
    if size > rows:
        raise source.unsupported(f"config.json has {rows} for the size of its vocabulary, its tokenizer {size} tokens")
    return size
