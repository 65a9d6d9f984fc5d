"""What some sources hold, for a person: tasks by source, type of answer, grader and tag; media that cannot be had."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from saccade.errors import DataError, MediaError, RecordError
from saccade.media.store import MediaStore
from saccade.tasks.sources.opened import OpenSource
from saccade.tasks.sources.task_set import TaskPool

_MOST_VALUES = 12
"""Values of a tag that are shown."""


def lines(tasks: TaskPool) -> Iterator[str]:
    """The counts of all sources, then of each."""
    yield from tasks.lines()
    for part in tasks.parts:
        if not part.endless or part.tags:
            yield ""
            yield from _of(part)


def counts(tasks: TaskPool) -> list[dict[str, object]]:
    """The same as values: of each source its tasks by type of answer, by grader, by reward and by tag."""
    return [
        {
            "source": str(part.settings),
            "endless": part.endless,
            "tasks": len(part.lights),
            "answers": Counter(light.answer_type.value for light in part.lights),
            "graders": Counter(light.grader or "" for light in part.lights),
            "without_answer": sum(not light.answered for light in part.lights),
            "without_media": sum(not light.media for light in part.lights),
            "left_out_by_tags": part.other_tags,
            "beyond_n": part.undrawn,
            "rewards": _rewards(part),
            "tags": dict(part.tags),
        }
        for part in tasks.parts
    ]


def _rewards(part: OpenSource) -> Counter[str]:
    return Counter(", ".join(f"{name}={value}" for name, value in light.reward) for light in part.lights)


def _of(part: OpenSource) -> Iterator[str]:
    lights = part.lights
    yield f"{part.settings}"
    yield f"  answers     {_counts(Counter(light.answer_type.value for light in lights))}"
    yield f"  graders     {_counts(Counter(light.grader or 'by type of answer' for light in lights))}"
    unanswered = sum(not light.answered for light in lights)
    if unanswered:
        yield f"  no answer   {unanswered}"
    unseen = sum(not light.media for light in lights)
    if unseen:
        yield f"  no media    {unseen}"
    rewards = _rewards(part)
    if set(rewards) != {""}:
        yield f"  reward      {_counts({name or 'as the run': count for name, count in rewards.items()})}"
    for name, values in sorted(_by_name(part.tags).items()):
        shown = _counts(values) if len(values) <= _MOST_VALUES else f"{len(values)} different values"
        yield f"  {name:<12}{shown}"


def _by_name(tags: Mapping[str, int]) -> dict[str, Counter[str]]:
    """Tags `name=value` by their names; all others together."""
    counts: dict[str, Counter[str]] = {}
    for tag, count in tags.items():
        name, equals, value = tag.partition("=")
        counts.setdefault(name if equals else "tags", Counter())[value if equals else tag] += count
    return counts


def _counts(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(values.items()))


def media_problems(tasks: TaskPool, names: Sequence[str], folder: Path) -> Iterator[str | None]:
    """For every task of `names` what is wrong with its pictures and videos, or None; `folder` holds them meanwhile."""
    store = MediaStore(folder / "media")
    for name in names:
        try:
            tasks.make(name, store)
            yield None
        except (DataError, MediaError, RecordError) as error:
            yield str(error)
        shutil.rmtree(store.root, ignore_errors=True)  # a data set may be larger than the disk
