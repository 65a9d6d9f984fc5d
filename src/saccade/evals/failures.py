"""Samples that came to nothing for a reason that is not the model's: outages, tasks that cannot be shown.

They lie in `failures.jsonl` of the run folder, are in no average, and are played again when the run is continued. The
file only grows: a failure counts as long as no trajectory of its id is there.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from saccade.record.base import Name, Record, Text
from saccade.record.codec import append_line, read_lines, recover_lines

FAILURES = "failures.jsonl"


class SampleFailure(Record):
    """One sample without a trajectory."""

    id: Name
    """Of the sample."""
    kind: Name
    """A stop reason such as `model_lost`, or the name of an error's class."""
    detail: Text = ""


def add_failure(root: Path, failure: SampleFailure) -> None:
    """Append `failure` to the run folder's list."""
    append_line(root / FAILURES, failure)


def mend_failures(root: Path) -> None:
    """Cut off a last line that a killed writer left."""
    if (root / FAILURES).exists():
        recover_lines(root / FAILURES)


def open_failures(root: Path, done: Collection[str]) -> dict[str, SampleFailure]:
    """The last failure of every sample that is not among `done`, by its id.

    Raises:
        RecordError: the file cannot be read.
    """
    path = root / FAILURES
    if not path.exists():
        return {}
    return {failure.id: failure for failure in read_lines(path, SampleFailure) if failure.id not in done}
