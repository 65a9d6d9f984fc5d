"""Whether the graders that tasks name can be had, before the first of them is played."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from saccade.errors import SettingsError
from saccade.grading.registry import missing_graders
from saccade.tasks.sources.opened import OpenSource


def grader_problems(parts: Iterable[OpenSource]) -> Iterator[str]:
    """For each grader that tasks of a source name and that cannot be had: how many tasks, which one first, and why."""
    for part in parts:
        for spec, reason in missing_graders(light.grader for light in part.lights).items():
            names = [light.id for light in part.lights if light.grader == spec]
            several = "tasks name" if len(names) > 1 else "task names"
            yield f"{part.settings}: {len(names)} {several} the grader {spec!r} (the first: {names[0]}): {reason}"


def check_graders(parts: Iterable[OpenSource]) -> None:
    """Raises `SettingsError` for the first of `grader_problems`."""
    for problem in grader_problems(parts):
        raise SettingsError(problem)
