"""Findings beside the run that they are of: `RUN/protocols/NAME.json`."""

from __future__ import annotations

from pathlib import Path

from saccade.errors import RecordError
from saccade.evals.protocols.findings import Findings
from saccade.evals.protocols.registry import recorded_protocol
from saccade.record.codec import dumps, loads
from saccade.record.disk import write_atomic

FOLDER = "protocols"
REPLIES = "replies"
"""Folder in which a judge's replies are kept, beside the findings."""


def findings_file(run: Path, name: str, out: Path | None = None) -> Path:
    """Where the findings of protocol `name` lie: in the folder `out`, or in the run's own."""
    return (run / FOLDER if out is None else out) / f"{name}.json"


def write_findings(file: Path, findings: Findings) -> None:
    """Write findings; the file appears complete or not at all."""
    write_atomic(file, dumps(findings) + "\n")


def read_findings(run: Path, name: str) -> Findings | None:
    """The stored findings of a run; None if there are none.

    Raises:
        RegistryError: there is no such protocol.
        RecordError: the file cannot be read.
    """
    file = findings_file(run, name)
    kind = recorded_protocol(name).kind
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return None
    try:
        findings = loads(text, kind)
    except RecordError as error:
        raise type(error)(f"{file}: {error}") from error
    assert isinstance(findings, Findings)
    return findings
