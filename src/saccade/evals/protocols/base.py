"""What a protocol is: a row from each sample, and findings from all rows. Both are pure; rows are small.

So a run is read once, one trajectory at a time, for all protocols together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from saccade.core.disk import write_atomic
from saccade.core.registry import Registry, is_a
from saccade.episode.regions import PictureReader, Region, regions
from saccade.errors import RecordError, RegistryError
from saccade.evals.protocols.findings import Findings, SampleRow, StudiedRun
from saccade.record.codec import dumps, loads
from saccade.record.trajectory import CORRECT, Trajectory
from saccade.rewards.reward import JudgeVerdict

R = TypeVar("R", bound=SampleRow)
F = TypeVar("F", bound=Findings)


@dataclass(frozen=True)
class Studied:
    """One sample, and what protocols may ask about it."""

    trajectory: Trajectory
    book: PictureReader
    verdicts: tuple[tuple[JudgeVerdict, ...], ...] | None = None
    """A model's verdicts, for each turn one for each picture; None if no model was asked."""
    budget: str = "qwen2.5-vl"
    """Name of the pixel budget by which visual tokens are estimated."""

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """Where the sample looked; decodes pictures, so it is found when first asked for."""
        return regions(self.trajectory, self.book)

    @property
    def head(self) -> dict[str, Any]:
        """The fields that every row begins with."""
        one = self.trajectory
        return {
            "id": one.id,
            "task": one.task.id,
            "rollout": one.rollout,
            "source": one.task.source,
            "correct": next((score.value for score in one.scores if score.name == CORRECT), None),
        }


@dataclass(frozen=True, slots=True)
class Protocol(Generic[R, F]):
    """One study of a stored run: how a sample becomes a row, and rows become findings."""

    name: str
    title: str
    kind: type[F]
    """What it finds."""
    row: Callable[[Studied], R]
    findings: Callable[[Sequence[R], StudiedRun], F]
    """Of rows in the order of tasks and rollouts."""


AnyProtocol: TypeAlias = Protocol[Any, Any]
"""A protocol, whatever it finds."""


_NAME = re.compile(r"[A-Za-z0-9_-]+")  # findings are in a file of that name

PROTOCOLS: Final = Registry[AnyProtocol](
    "protocols",
    {
        "faithfulness@1": "saccade.evals.protocols.faithfulness:PROTOCOL",
        "errors@1": "saccade.evals.protocols.errors:PROTOCOL",
        "tool_use@1": "saccade.evals.protocols.tool_use:PROTOCOL",
        "tokens@1": "saccade.evals.protocols.confidence:TOKENS",
        "confidence@1": "saccade.evals.protocols.confidence:PROTOCOL",
    },
    is_a(Protocol, "a saccade.evals.protocols.base.Protocol"),
)


def load_protocol(name: str) -> AnyProtocol:
    """Load the protocol that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises:
        RegistryError: there is none (suggests the nearest), it cannot be imported, it is no protocol, or a protocol of
            the user's own has a name that is taken or that cannot be a file's.
    """
    protocol = PROTOCOLS.load(name)
    if PROTOCOLS.code(name) is not None:
        if PROTOCOLS.has(protocol.name):
            raise RegistryError(f"{name} has the name {protocol.name!r}, which is taken. Give it one of its own.")
        if not _NAME.fullmatch(protocol.name):
            raise RegistryError(f"{name} has the name {protocol.name!r}; use letters, digits, _ and - alone.")
    return protocol


def recorded_protocol(name: str) -> AnyProtocol:
    """Return the protocol that stored findings name; no code is run for it. Raises `RegistryError`."""
    return PROTOCOLS.load_recorded(name)


def protocol_names() -> tuple[str, ...]:
    """Return all names, without versions."""
    return PROTOCOLS.names()


FOLDER = "protocols"
REPLIES = "replies"
"""Folder in which a judge's replies are kept, next to the findings."""


def findings_file(run: Path, name: str, out: Path | None = None) -> Path:
    """Return where the findings of protocol `name` lie: in the folder `out`, or in the run's own."""
    return (run / FOLDER if out is None else out) / f"{name}.json"


def write_findings(file: Path, findings: Findings) -> None:
    """Write findings; the file appears complete or not at all."""
    write_atomic(file, dumps(findings) + "\n")


def read_findings(run: Path, name: str) -> Findings | None:
    """Return the stored findings of a run; None if there are none. Raises `RegistryError` if there is no such protocol,
    `RecordError` if the file cannot be read.
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
