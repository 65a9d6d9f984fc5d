"""The requests of a sample as its page shows them: each try with what was sent and what came back."""

from __future__ import annotations

import json
from pathlib import Path

from saccade.errors import RecordError
from saccade.evals.requests import RequestTry, read_requests
from saccade.report.plain_text import cut_end
from saccade.report.view import WireView
from saccade.report.words import duration


def wires_of(run: Path, sample: str, problems: list[str]) -> tuple[WireView, ...]:
    """What was kept of the requests of `sample` in the folder `run`; what cannot be read is named in `problems`."""
    try:
        return tuple(map(_wire, read_requests(run, sample)))
    except RecordError as error:
        problems.append(str(error))
        return ()


def _wire(sent: RequestTry) -> WireView:
    ended = "no answer" if sent.status is None else f"HTTP {sent.status}"
    title = f"{sent.number + 1}. {sent.path or 'not sent'} · {ended} · {duration(sent.seconds)}"
    response = "\n\n".join(filter(None, (sent.error, _indented(sent.response))))
    request = json.dumps(sent.request, ensure_ascii=False, indent=2)
    return WireView(title, not sent.error, cut_end(request), cut_end(response))


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except ValueError:
        return text  # the events of a stream, or a page of some proxy
