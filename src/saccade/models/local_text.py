"""From sampled token ids to text while they come: exact, also where a character is spread over several tokens.

For tokenizers whose tokens are bytes, or texts with single bytes beside them (Gemma's): all known families have one of
these. Bytes that are no UTF-8 become U+FFFD, as the tokenizer's own `decode` gives it. Where bytes stand beside texts,
a run of them is text only as a whole, so it comes when the next text does.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

from saccade.errors import ModelRefusedError


def _byte_of_character() -> dict[str, int]:
    """The alphabet of byte-level BPE (GPT-2): printable Latin-1 stands for itself, the rest is moved above U+0100."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    moved = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + at): byte for at, byte in enumerate(moved)}


_BYTES = _byte_of_character()
_SINGLE_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_BLANK = "\u2581"
_FALLBACK = [{"type": "Replace", "pattern": {"String": _BLANK}, "content": " "}, "ByteFallback", "Fuse"]


def require_exact_text(tokenizer: Any, checkpoint: str) -> None:
    """Raises `ModelRefusedError` if the text of a token of `tokenizer` depends on those around it."""
    if not (_is_byte_level(tokenizer) or _has_single_bytes(tokenizer)):
        raise ModelRefusedError(
            f"the tokens of {checkpoint} are neither bytes nor texts with single bytes beside them, so text cannot be "
            "given exactly while it comes. Serve the checkpoint with vLLM or SGLang instead."
        )


def _is_byte_level(tokenizer: Any) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return type(getattr(backend, "decoder", None)).__name__ == "ByteLevel"


def _has_single_bytes(tokenizer: Any) -> bool:
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if type(getattr(backend, "decoder", None)).__name__ != "Sequence":
        return False
    parts = json.loads(backend.to_str())["decoder"]["decoders"]
    return [part if part["type"] == "Replace" else part["type"] for part in parts] == _FALLBACK


class TextOfTokens:
    """Decodes one answer, token by token."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._bytes = _ByteTokens() if _is_byte_level(tokenizer) else _ByteRuns()

    def add(self, token_id: int) -> str:
        """The characters that are complete with this token; empty inside a character."""
        return self._bytes.add(self._tokenizer.convert_ids_to_tokens(token_id))

    def end(self) -> str:
        """What is left when no token follows: U+FFFD for a character that was cut."""
        return self._bytes.end()


class _ByteTokens:
    """Every token is bytes."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token: str) -> str:
        try:
            data = bytes(_BYTES[character] for character in token)
        except KeyError:  # an added token, which is written as it is
            data = token.encode()
        return self._decoder.decode(data)

    def end(self) -> str:
        return self._decoder.decode(b"", final=True)


class _ByteRuns:
    """Texts, and single bytes beside them: a run of these is UTF-8 as a whole, or U+FFFD for each."""

    def __init__(self) -> None:
        self._run = bytearray()

    def add(self, token: str) -> str:
        if single := _SINGLE_BYTE.fullmatch(token):
            self._run.append(int(single[1], 16))
            return ""
        return self.end() + token.replace(_BLANK, " ")

    def end(self) -> str:
        run, self._run = bytes(self._run), bytearray()
        try:
            return run.decode()
        except UnicodeDecodeError:
            return "\ufffd" * len(run)
