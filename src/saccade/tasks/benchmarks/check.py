"""What a data set holds, beside what its card expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from string import ascii_uppercase

from saccade.record.task import Task
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.problem import RowProblem

_MOST_VALUES = 12
"""Values of a tag that are shown; a tag with more of them tells rows apart and not kinds."""


@dataclass(frozen=True, slots=True)
class DataSetCheck:
    """Counts over all rows of a data set."""

    card: Card
    tasks: int
    problems: tuple[RowProblem, ...]
    answer_types: Mapping[str, int]
    choice_counts: Mapping[int, int]
    """How many tasks have so many choices."""
    gold_positions: Mapping[int, int]
    """How many tasks have their gold answer at that place, from 0, as the source orders the choices."""
    tags: Mapping[str, Mapping[str, int]]

    @property
    def complete(self) -> bool:
        """Whether there are as many tasks as the card expects; true where it states no size."""
        return self.card.size.tasks is None or self.tasks in (self.card.size.tasks, self.card.size.taken)

    def lines(self) -> Iterator[str]:
        """The findings for a person."""
        yield f"{self.card.title} ({self.card.id})"
        if self.card.form:
            yield f"form          {self.card.form}"
        if self.card.loader.known_from:
            yield f"form is from  {self.card.loader.known_from}"
        yield f"tasks         {self.tasks}{self._against_expected()}"
        yield f"broken rows   {len(self.problems)}"
        if lost := [problem for problem in self.problems if problem.field in ("images", "videos", "media")]:
            places = ", ".join(["the folder", *self.card.loader.media])
            yield f"media         {len(lost)} rows name none that can be used (looked for in {places})"
        yield f"answer types  {_counts(self.answer_types)}"
        if self.gold_positions:
            yield f"choices       {_counts({f'{count} choices': tasks for count, tasks in self.choice_counts.items()})}"
            gold = {ascii_uppercase[place] if place < 26 else str(place): n for place, n in self.gold_positions.items()}
            yield f"gold is at    {_counts(gold)}{self._about_order()}"
        for name, values in sorted(self.tags.items()):
            shown = _counts(values) if len(values) <= _MOST_VALUES else f"{len(values)} different values"
            yield f"{name:<14}{shown}"

    def _about_order(self) -> str:
        if self.card.choices.order == "shuffle":
            return f"  (as the source has it; shuffled when played, seed {self.card.choices.seed})"
        constant = len(self.gold_positions) == 1 and self.tasks > 1
        return "  (always the same: shuffle the choices)" if constant else ""

    def _against_expected(self) -> str:
        expected = self.card.size.tasks
        if expected is None:
            return f"  (the card states no exact size: {self.card.size.source})"
        same = "as expected" if self.complete else f"expected {expected}"
        return f"  ({same}, {self.card.size.source})"


def survey(card: Card, items: Iterable[Task | RowProblem]) -> DataSetCheck:
    """Count over what `Benchmark.tasks` gives."""
    problems: list[RowProblem] = []
    types: Counter[str] = Counter()
    counts: Counter[int] = Counter()
    gold: Counter[int] = Counter()
    tags: dict[str, Counter[str]] = {}
    for item in items:
        if isinstance(item, RowProblem):
            problems.append(item)
            continue
        types[item.answer_type.value] += 1
        if item.choices and item.answer in item.choices:
            counts[len(item.choices)] += 1
            gold[item.choices.index(item.answer)] += 1
        for tag in item.tags:
            name, _, value = tag.partition("=")
            tags.setdefault(name, Counter())[value] += 1
    return DataSetCheck(card, types.total(), tuple(problems), types, counts, gold, tags)


def _counts(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {number}" for name, number in sorted(values.items())) or "none"
