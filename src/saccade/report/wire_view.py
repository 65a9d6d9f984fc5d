"""The requests of a sample as its page shows them: each try with what was sent and what came back."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import JsonValue

from saccade.errors import RecordError
from saccade.evals.requests import RequestTry, read_requests


def wires_of(run: Path, sample: str, problems: list[str]) -> tuple[RequestTry, ...]:
    """Read the requests of `sample` that the folder `run` keeps; add to `problems` what cannot be read."""
    try:
        return tuple(read_requests(run, sample))
    except RecordError as error:
        problems.append(str(error))
        return ()


def indented(value: JsonValue) -> str:
    """Write JSON, or a text that may hold JSON, with indents."""
    try:
        data = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return str(value)  # the events of a stream, or a page of some proxy
    return json.dumps(data, ensure_ascii=False, indent=2)
