"""The checkpoint's text tokens, from a ``tokenizer.json`` of the library tokenizers.

- SuperBPE is an ordinary file of that kind whose pre-tokenizer does not split at spaces, so a token
  may span words; nothing here depends on that. Source: spec/zonos3.md 4.9 (arXiv 2503.13423).
- The library is imported when a tokenizer is opened: no other model needs it.
"""

from __future__ import annotations

from pathlib import Path

from engine.errors import CheckpointError, InvalidRequest

TOKENIZER_FILE = "tokenizer.json"


class TextTokenizer:
    """Text to ids below ``size``, without special ids of its own."""

    def __init__(self, file: Path, size: int) -> None:
        """Raises ``CheckpointError`` when the file is absent, unreadable or of another size."""
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise CheckpointError(
                f"model: its {TOKENIZER_FILE} needs the package tokenizers; install"
                " requirements.txt."
            ) from None
        if not file.is_file():
            raise CheckpointError(
                f"model: the folder {file.parent.name!r} has no {TOKENIZER_FILE}; choose a folder"
                " that holds the whole checkpoint, or copy the file there."
            )
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises plain Exception
            reason = str(error).partition("\n")[0][:160]
            raise CheckpointError(f"model: {TOKENIZER_FILE} cannot be read ({reason}).") from None
        found = self._tokenizer.get_vocab_size()
        if found != size:
            raise CheckpointError(
                f"model: {TOKENIZER_FILE} has {found} tokens and params.json declares a"
                f" tokenizer_size of {size}; put the one beside it that it was made with."
            )

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``; raises ``InvalidRequest`` for half of a surrogate pair."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                f"input: character {error.start + 1} of the text (U+{ord(text[error.start]):04X})"
                " is half of a surrogate pair and stands for no character; remove it.",
                field="input",
            ) from None
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
