"""A few samples of each kind, the first ones in their order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from saccade.evals.protocols.findings import SampleExamples

MOST: Final = 10


def examples(named: Iterable[tuple[str, str]]) -> tuple[SampleExamples, ...]:
    """Kinds and ids of samples as examples, by kind."""
    found: dict[str, list[str]] = {}
    for kind, name in named:
        ids = found.setdefault(kind, [])
        if len(ids) < MOST:
            ids.append(name)
    return tuple(SampleExamples(kind=kind, ids=tuple(found[kind])) for kind in sorted(found))
