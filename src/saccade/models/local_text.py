"""From sampled token ids to text while they come: exact, also where a character is spread over several tokens.

For tokenizers with a byte-level decoder, which all known families have. Bytes that are no UTF-8 become U+FFFD, as the
tokenizer's own `decode` gives it.
"""

from __future__ import annotations

import codecs
from typing import Any

from saccade.errors import ModelRefusedError


def _byte_of_character() -> dict[str, int]:
    """The alphabet of byte-level BPE (GPT-2): printable Latin-1 stands for itself, the rest is moved above U+0100."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    moved = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + at): byte for at, byte in enumerate(moved)}


_BYTES = _byte_of_character()


def require_byte_level(tokenizer: Any, checkpoint: str) -> None:
    """Raises `ModelRefusedError` if the tokens of `tokenizer` are not bytes."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if type(getattr(backend, "decoder", None)).__name__ != "ByteLevel":
        raise ModelRefusedError(
            f"the tokenizer of {checkpoint} is not byte-level, so text cannot be given exactly while it comes. "
            "Serve the checkpoint with vLLM or SGLang instead."
        )


class TextOfTokens:
    """Decodes one answer, token by token."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token_id: int) -> str:
        """The characters that are complete with this token; empty inside a character."""
        token: str = self._tokenizer.convert_ids_to_tokens(token_id)
        try:
            data = bytes(_BYTES[character] for character in token)
        except KeyError:  # an added token, which is written as it is
            data = token.encode()
        return self._decoder.decode(data)

    def end(self) -> str:
        """What is left when no token follows: U+FFFD for a character that was cut."""
        return self._decoder.decode(b"", final=True)
