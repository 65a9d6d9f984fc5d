"""Records as JSON and as files of JSON lines, exactly both ways.

Reading is strict: an unknown field, a wrong type or another schema version is refused with the field and the way out.
A file of lines only grows at its end; a crash can cut its last line short. That is reported as `TornRecordError`, and
`recover_lines` mends it when a person (or a resume) says so. Two processes may not append to one file at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json

from saccade.core.disk import atomic_file, writing
from saccade.errors import RecordError, SchemaVersionError, TornRecordError
from saccade.record.content import SCHEMA_VERSION, Record

R = TypeVar("R", bound=Record)

_HEAD = re.compile(rb'\{"schema_version":%d,"id":(?P<id>"(?:[^"\\]|\\.)*"),' % SCHEMA_VERSION)


def dumps(record: Record) -> str:
    """Return the record as JSON on one line, without a line break at its end. Raises `RecordError` if the record holds
    what JSON cannot give back (built past its checks, with `model_construct`).
    """
    try:
        return record.model_dump_json()
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise RecordError(f"this {type(record).__name__} cannot be written as JSON: {error}") from error


def loads(text: str | bytes, kind: type[R]) -> R:
    """Return the record of class `kind` that `dumps` wrote.

    Raises `SchemaVersionError`: it was written by another version of the schema; `RecordError`: it is not JSON, or a
    field is unknown, missing or wrong; the message names every such field.
    """
    try:
        record = kind.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise _refusal(error, kind) from error
    if "schema_version" in kind.model_fields and "schema_version" not in record.model_fields_set:
        raise SchemaVersionError(
            f"this {kind.__name__} does not say its schema_version. Saccade always writes it: "
            f'add `"schema_version": {SCHEMA_VERSION}` if the record follows today\'s form.'
        )
    return record


def append_line(path: str | os.PathLike[str], record: Record) -> None:
    """Append one record to a file of lines (made if missing) and wait until it is on the disk.

    Raises `TornRecordError`: the file's last line was cut short; nothing was written.
    """
    append_lines(path, (record,))


def append_lines(path: str | os.PathLike[str], records: Iterable[Record]) -> None:
    """Append records to a file of lines (made if missing) and wait once until all are on the disk.

    Raises `TornRecordError`: the file's last line was cut short; nothing was written; `OSError`: the disk refuses; the
    file is as it was before.
    """
    lines = b"".join(dumps(record).encode() + b"\n" for record in records)
    with writing(Path(path)), open(path, "ab+", buffering=0) as file:
        size = file.tell()
        if size and _last_byte(file.fileno(), size) != b"\n":
            raise TornRecordError(_torn_message(Path(path)))
        try:
            left = memoryview(lines)
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):  # a full disk leaves no half line
                file.truncate(size)
            raise


def write_lines(path: str | os.PathLike[str], records: Iterable[Record]) -> None:
    """Write a whole file of lines; the file appears complete or not at all."""
    target = Path(path)
    with atomic_file(target) as partial, partial.open("wb") as file:
        file.writelines(dumps(record).encode() + b"\n" for record in records)
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: str | os.PathLike[str], kind: type[R]) -> Iterator[R]:
    """Yield the records of a file of lines, one after the other.

    Raises `TornRecordError`: the last line was cut short; raised after the whole lines were given; `RecordError`: a
    line cannot be read; the message names the file and the line.
    """
    with open(path, "rb") as file:
        # Iterating a binary file splits at \n only; JSON may hold U+2028 and its like unescaped.
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n") and not _is_json(line):
                raise TornRecordError(_torn_message(Path(path)))
            try:
                yield loads(line, kind)
            except RecordError as error:
                raise type(error)(f"{path}, line {number}: {error}") from error


def read_ids(path: str | os.PathLike[str], kind: type[R]) -> Iterator[str]:
    """Yield the ids of the records in a file of lines, quickly: of a line as `dumps` writes it only the head is parsed.

    All other lines are read in full, so that they raise as in `read_lines`; the fields `id` and `schema_version` of
    `kind` come first.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            head = _HEAD.match(line)
            if head is not None and line.endswith(b"}\n"):
                yield from_json(head["id"])
            elif not line.endswith(b"\n") and not _is_json(line):
                raise TornRecordError(_torn_message(Path(path)))
            else:
                try:
                    yield str(getattr(loads(line, kind), "id"))  # noqa: B009
                except RecordError as error:
                    raise type(error)(f"{path}, line {number}: {error}") from error


def recover_lines(path: str | os.PathLike[str]) -> bytes:
    """Mend a file whose last line was cut short: cut that line off and return its bytes (empty if it was whole).

    A last line that is whole but for its line break gets the break.
    """
    with open(path, "rb+") as file:
        data = file.read()
        start = data.rfind(b"\n") + 1
        tail = data[start:]
        if not tail:
            return b""
        if _is_json(tail):
            file.write(b"\n")
            tail = b""
        else:
            file.truncate(start)
        file.flush()
        os.fsync(file.fileno())
    return tail


def _last_byte(descriptor: int, size: int) -> bytes:
    return os.pread(descriptor, 1, size - 1)


def _is_json(line: bytes) -> bool:
    try:
        from_json(line)
    except ValueError:
        return False
    return True


def _torn_message(path: Path) -> str:
    return (
        f"{path}: the last line was cut short, as when the writer crashed; all lines before it are whole. "
        "Remove that line (in Python: saccade.record.codec.recover_lines(path))."
    )


def _refusal(error: ValidationError, kind: type[Record]) -> RecordError:
    problems = error.errors(include_url=False, include_context=False)
    for problem in problems:
        if problem["loc"] == ("schema_version",):
            return SchemaVersionError(
                f"this {kind.__name__} was written with schema version {problem['input']!r}; this Saccade reads "
                f"version {SCHEMA_VERSION}. Read it with the Saccade that wrote it, or upgrade this one."
            )
    lines = [_describe(problem["type"], problem["loc"], problem["msg"]) for problem in problems]
    unknown = any(problem["type"] == "extra_forbidden" for problem in problems)
    way_out = (
        "An unknown field is a slip, or was written by a newer Saccade: correct it, or upgrade."
        if unknown
        else f"Correct the record, or write it again with saccade.record.codec.dumps({kind.__name__}(...))."
    )
    return RecordError(f"this {kind.__name__} cannot be read:\n" + "\n".join(lines) + f"\n{way_out}")


def _describe(type_: str, where: tuple[int | str, ...], message: str) -> str:
    field = ".".join(str(step) for step in where) or "(the whole record)"
    return f"  {field}: {'unknown field' if type_ == 'extra_forbidden' else message}"
