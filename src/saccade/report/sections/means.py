"""Means over benchmarks as papers print them: each with its own number, runs put together, the papers' rows below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from saccade.evals.metrics import SourceScore, source_score
from saccade.evals.summary import Summary
from saccade.report.plots import hue
from saccade.report.runs import EvalRun
from saccade.report.sections.view import Panel, SectionRow, SectionTable, card_of, percent
from saccade.report.words import NONE, some
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.registry import cards_of_group


@dataclass(frozen=True, slots=True)
class Column:
    """Runs that are read as one: a single run, or runs of one model over different benchmarks."""

    name: str
    scores: Mapping[str, SourceScore]
    """By the name of the source."""
    place: int
    """Of its colour; that of its first run."""

    def mean(self, sources: Sequence[str]) -> float | None:
        """Return the plain mean over `sources`; None unless each has a number."""
        values = [self.scores[source].value for source in sources if source in self.scores]
        known = [value for value in values if value is not None]
        return fmean(known) if known and len(known) == len(sources) else None


def columns(runs: Sequence[EvalRun], summaries: Mapping[str, Summary]) -> list[Column]:
    """Return each run, and then runs of one model in one dialect that have no source in common, put together."""
    found = [Column(run.name, _scores(summaries[run.name]), place) for place, run in enumerate(runs)]
    alike: dict[tuple[object, ...], list[Column]] = defaultdict(list)
    for run, column in zip(runs, found, strict=True):
        alike[_model(run)].append(column)
    return found + [_together(group) for group in alike.values() if len(group) > 1 and _apart(group)]


def _model(run: EvalRun) -> tuple[object, ...]:
    return frozenset(run.models), frozenset(run.dialects.values())


def _apart(group: Sequence[Column]) -> bool:
    return len({source for column in group for source in column.scores}) == sum(len(column.scores) for column in group)


def _together(group: Sequence[Column]) -> Column:
    scores = {source: score for column in group for source, score in column.scores.items()}
    return Column(" + ".join(column.name for column in group), scores, group[0].place)


def _scores(summary: Summary) -> dict[str, SourceScore]:
    return {
        source: source_score(part.avg, summary.card_numbers.get(source, {}), summary.k)
        for source, part in summary.sources.items()
    }


def means(found: Sequence[Column]) -> Panel | None:
    """Return the panel of the groups over which papers give means, as far as a run has a benchmark of one."""
    groups = dict.fromkeys(
        group
        for source in dict.fromkeys(source for column in found for source in column.scores)
        if (card := card_of(source)) is not None
        for group in card.groups
    )
    sheets = [sheet for group in groups if (sheet := _sheet(group, cards_of_group(group), found))]
    if not sheets:
        return None
    notes = (
        "Each benchmark counts once, with the number by which it is known. Runs of one model in one dialect are put "
        "together, whatever settings each benchmark was run with. A mean is given where all benchmarks of the group "
        "have a number; published rows are means of the scores that the cards quote.",
    )
    return Panel("Means over groups of benchmarks", notes, tuple(sheets))


def _sheet(group: str, cards: Sequence[Card], found: Sequence[Column]) -> SectionTable | None:
    counts = [sum(card.id in column.scores for card in cards) for column in found]
    if max(counts, default=0) < 2:
        return None  # one benchmark of a group has its own table
    lines = []
    for column, count in zip(found, counts, strict=True):
        if count > 1:
            values = [column.scores[card.id].value if card.id in column.scores else None for card in cards]
            lines.append(SectionRow(_cells(column.name, values), hue(column.place)))
    lines += [
        SectionRow(_cells(model, values), reference=True) for model, values in published_rows(group, cards).items()
    ]
    return SectionTable(group, ("", "mean", *(card.title for card in cards)), tuple(lines))


def _cells(name: str, values: Sequence[float | None]) -> tuple[str, ...]:
    known = [value for value in values if value is not None]
    if len(known) == len(values):
        middle = percent(fmean(known))
    else:
        middle = f"{NONE} ({some(len(values) - len(known), 'benchmark')} missing)"
    return (name, middle, *(percent(value) for value in values))


def published_rows(group: str, cards: Sequence[Card]) -> dict[str, list[float]]:
    """Return the scores of each model that the group's paper reports on all of its benchmarks, from 0 to 1."""
    paper = group.partition(",")[0]
    of_card = [
        {score.model: score.score / 100 for score in reversed(card.scores) if _of_paper(score.source, paper)}
        for card in cards
    ]
    models = (score.model for score in cards[0].scores)
    return {
        model: [scores[model] for scores in of_card]
        for model in dict.fromkeys(models)
        if all(model in scores for scores in of_card)
    }


def _of_paper(source: str, paper: str) -> bool:
    return source.partition(",")[0] == paper
