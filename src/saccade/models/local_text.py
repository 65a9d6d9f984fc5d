"""From sampled token ids to text while they come: exact, also where a character is spread over several tokens.

For tokenizers whose tokens are bytes, or texts with single bytes next to them (Gemma's): all known families have one of
these. Bytes that are no UTF-8 become U+FFFD, as the tokenizer's own `decode` gives it. Where bytes stand next to texts,
a run of them is text only as a whole, so it comes when the next text does.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from saccade.errors import ModelRefusedError
from saccade.models.providers.openai import Server, chat_model
from saccade.record.content import Record, Text


def _byte_of_character() -> dict[str, int]:
    """Return the alphabet of byte-level BPE (GPT-2): printable Latin-1 is itself, the rest is moved above U+0100."""
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
        """Return the characters that are complete with this token; empty inside a character."""
        return self._bytes.add(self._tokenizer.convert_ids_to_tokens(token_id))

    def end(self) -> str:
        """Return what is left when no token follows: U+FFFD for a character that was cut."""
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
    """Texts, and single bytes next to them: a run of these is UTF-8 as a whole, or U+FFFD for each."""

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


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Placement of a checkpoint, and what it may be shown."""

    device: str = "auto"
    """As torch names it; `auto`: `cuda` where there is one, else `cpu`."""
    dtype: str = "auto"
    """`float32`, `bfloat16` or `float16`; `auto`: `bfloat16` on a GPU, `float32` on the CPU."""
    revision: str | None = None
    """Branch, tag or commit on the hub; None for its default."""
    max_pixels: int | None = None
    """Larger pictures are scaled down to this many pixels first; None leaves it to the checkpoint."""
    max_sequences: int = 8
    """Answers that are written at once; as many earlier ones are kept in memory to be continued."""


def check_folder(source: str) -> None:
    """Raises `ModelRefusedError` if `source` can only be a folder (a name on the hub has one slash), and is none."""
    path = Path(source)
    looks_local = path.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1
    if looks_local and not path.is_dir():
        raise ModelRefusedError(f"there is no folder {source}. Give the folder of a checkpoint or its name on the hub.")
    if path.is_dir() and not (path / "config.json").is_file():
        raise ModelRefusedError(
            f"the folder {source} holds no checkpoint: there is no config.json in it. "
            "Give the folder of a checkpoint or its name on the hub."
        )


# The dialect that a checkpoint was trained in is a file next to its weights, which Saccade's own training writes.


FILE: Final = "saccade.json"


class _Learned(Record):
    dialects: dict[Text, int]
    """Id of a dialect -> how much of the training data was in it."""


def write_learned(folder: Path, dialects: Mapping[str, int]) -> None:
    """Note in the folder of a checkpoint what it learned; nothing where that is not known."""
    if dialects:
        text = _Learned(dialects=dict(dialects)).model_dump_json(indent=1)
        (folder / FILE).write_text(text + "\n", encoding="utf-8")


def learned_dialect(folder: str | Path) -> str:
    """Return the dialect that the checkpoint in `folder` learned most of; empty if that is not known."""
    try:
        learned = _Learned.model_validate_json((Path(folder) / FILE).read_bytes()).dialects
    except (OSError, ValidationError):
        return ""
    return max(learned, key=lambda name: learned[name], default="")


# Stop strings are cut by the client: transformers 5.23 fails on them with pictures.


TRANSFORMERS = Server(
    name="transformers",
    description="A server that `transformers serve` started, as in `transformers:FOLDER@http://host:8000/v1`.",
    example="transformers:FOLDER@http://host:8000/v1",
    make=chat_model,
    stops=False,
    stop_strings="the client",
    streams_functions=True,
)
