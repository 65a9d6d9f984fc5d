"""The headline: how many are right on each benchmark, next to the scores that its card quotes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from saccade.errors import SettingsError
from saccade.evals.metrics import Comparison, SourceScore, compare, source_score
from saccade.evals.summary import Figures, JudgeSummary, Summary, headline_text, judged, summarise
from saccade.report.plots import Dot, StackedBar, dots, hue, shares, short_percent
from saccade.report.runs import LOST, NO_ANSWER, NOT_GRADED, OUTCOMES, PARTLY, RIGHT, WRONG, EvalRun
from saccade.report.sections.view import (
    Panel,
    Section,
    SectionRow,
    SectionTable,
    between,
    card_of,
    difference_cells,
    figures,
    percent,
    title_of,
)
from saccade.report.words import NONE, some
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.registry import cards_of_group

# Means over benchmarks as papers print them: each with its own number, runs put together, the papers' rows below.


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
        {score.model: score.score / 100 for score in reversed(card.scores) if score.source.partition(",")[0] == paper}
        for card in cards
    ]
    models = (score.model for score in cards[0].scores)
    return {
        model: [scores[model] for scores in of_card]
        for model in dict.fromkeys(models)
        if all(model in scores for scores in of_card)
    }


# Answers that a rule and a judge graded: both numbers, which one is the headline, and how far they agree.


HEADS = ("by rule, %", "by judge, %", "headline")
"""Columns of a table of scores where one of its runs was judged."""
NOTE = (
    "A judge was asked beside the rule. Both numbers are over the answers on which it gave a verdict; the headline is "
    "the one that counts in every other figure."
)


def cells(summary: JudgeSummary | None) -> tuple[str, ...]:
    """Return the cells under `HEADS`; dashes for a run without a judge."""
    if summary is None:
        return (NONE,) * len(HEADS)
    return percent(summary.by_rule), percent(summary.by_judge), headline_text(summary)


def agreement(summaries: Mapping[str, JudgeSummary], colours: Mapping[str, str]) -> SectionTable:
    """Tabulate how far rule and judge agree in each judged run, with the class of its colour."""
    heads = (
        "",
        "agree, %",
        "Cohen's kappa",
        "both right",
        "only rule",
        "only judge",
        "both wrong",
        "verdicts",
        "without one",
    )
    return SectionTable(
        "Rule and judge",
        heads,
        tuple(SectionRow((name, *_counts(judged)), colours[name]) for name, judged in summaries.items()),
        words=1,
    )


def _counts(summary: JudgeSummary) -> tuple[str, ...]:
    missing = ", ".join(f"{reason} {count:,}" for reason, count in summary.no_verdict.items())
    last = (f"{summary.samples:,}", missing or "0")
    agreed = summary.agreement
    if agreed is None:
        return (*(NONE,) * 6, *last)
    kappa = NONE if agreed.kappa is None else f"{agreed.kappa:.2f}".replace("-", "−")
    counts = (agreed.both, agreed.only_rule, agreed.only_judge, agreed.neither)
    return (percent(agreed.raw), kappa, *(f"{count:,}" for count in counts), *last)


OUTCOME_COLOURS = {
    RIGHT: "tone-right",
    PARTLY: "tone-partly",
    WRONG: "tone-wrong",
    NO_ANSWER: "tone-none",
    NOT_GRADED: "tone-blank",
    LOST: "tone-lost",
}
_OWN = "this report"
_MOST_LINES = 40
"""Bars of outcomes that one figure holds."""


def results(runs: Sequence[EvalRun]) -> Section | None:
    """Return the section of the headline numbers; None where nothing was played."""
    if not any(run.rows or run.failures for run in runs):
        return None
    summaries = {run.name: summarise(run.rows, k=run.k) for run in runs}
    sources = list(dict.fromkeys(source for summary in summaries.values() for source in summary.sources))
    together = columns(runs, summaries)
    panels = [_overview(together, summaries, sources)] if len(sources) > 1 else []
    if (groups := means(together)) is not None:
        panels.append(groups)
    for source in sources:
        judgements = {run.name: judged(row for row in run.rows if row.source == source) for run in runs}
        panels.append(_benchmark(source, summaries, {name: one for name, one in judgements.items() if one is not None}))
    panels += [_outcomes(runs, sources), *_kinds(summaries)]
    return Section("results", "Results", tuple(panels))


def means_of(runs: Sequence[EvalRun]) -> Panel | None:
    """Return the means over the groups of benchmarks of papers; None where no run has two of a group."""
    return means(columns(runs, {run.name: summarise(run.rows, k=run.k) for run in runs}))


def _overview(together: Sequence[Column], summaries: Mapping[str, Summary], sources: Sequence[str]) -> Panel:
    lines = []
    for source in sources:
        cells = [_known(column, summaries.get(column.name), source) for column in together]
        lines.append(SectionRow((title_of(source), *cells)))
    averages = (column.mean(sources) for column in together)
    lines.append(SectionRow(("mean over benchmarks", *map(percent, averages))))
    notes = (
        "Each cell holds the number by which the benchmark is known, and the mean is over these cells: percent right "
        "(avg@k) with its 95% interval, or the card's own number by its name.",
        *intervals_note(part for summary in summaries.values() for part in summary.sources.values()),
    )
    head = ("benchmark", *(column.name for column in together))
    return Panel("All benchmarks", notes, (SectionTable("All benchmarks", head, tuple(lines)),))


def _known(column: Column, summary: Summary | None, source: str) -> str:
    score = column.scores.get(source)
    if score is None:
        return NONE
    numbers = None if summary is None else summary.sources.get(source)
    own = numbers is None or score.value != numbers.avg
    return f"{percent(score.value)} ({score.number})" if own else _cell(numbers)


def intervals_note(parts: Iterable[Figures]) -> tuple[str, ...]:
    """Name the methods of the 95% intervals of these figures; nothing where there are none."""
    methods = dict.fromkeys(part.interval_by for part in parts if part.interval_by)
    return (f"95% intervals: {' or '.join(methods)}.",) if methods else ()


def _benchmark(source: str, summaries: Mapping[str, Summary], judgements: Mapping[str, JudgeSummary]) -> Panel:
    card = card_of(source)
    says = f"Percent right on {title_of(source)}: a dot for each score, a line for its 95% interval."
    if card is not None and card.scores:
        says += " Published scores are rings."
    judges = [agreement(judgements, {name: hue(place) for place, name in enumerate(summaries)})] if judgements else []
    return Panel(
        title_of(source),
        (
            *_notes(card, source, summaries),
            *((NOTE,) if judgements else ()),
            *intervals_note(summary.sources[source] for summary in summaries.values() if source in summary.sources),
        ),
        (_score_table(source, summaries, judgements), *_by(source, summaries), *judges),
        figures(dots(f"{title_of(source)}: percent right", says, _drawn(source, summaries), "percent right")),
    )


def _score_table(source: str, summaries: Mapping[str, Summary], judgements: Mapping[str, JudgeSummary]) -> SectionTable:
    passes = sorted(
        {count for s in summaries.values() if source in s.sources for count in s.sources[source].pass_at} - {1}
    )
    heads = ["", "right, %", "95% interval", *(HEADS if judgements else ())]
    heads += [*(f"pass@{count}" for count in passes), "majority", "tasks", "samples", "from"]
    blank = (NONE,) * (len(heads) - 3)
    lines = []
    for place, (name, summary) in enumerate(summaries.items()):
        figures_of = summary.sources.get(source)
        if figures_of is None:
            continue
        more = cells(judgements.get(name)) if judgements else ()
        more += tuple(percent(figures_of.pass_at.get(count)) for count in passes)
        lines.append(_own_line(name, place, figures_of, more))
        for number, value in summary.card_numbers.get(source, {}).items():
            lines.append(SectionRow((f"{name}: {number}", percent(value), *blank, _OWN), hue(place)))
    return SectionTable(title_of(source), tuple(heads), (*lines, *_published(card_of(source), blank)), words=1)


def _by(source: str, summaries: Mapping[str, Summary]) -> tuple[SectionTable, ...]:
    """Return the numbers by the tags that the benchmark's card names."""
    tags = dict.fromkeys(tag for summary in summaries.values() for tag in summary.by.get(source, ()))
    lines = tuple(
        SectionRow((tag, *(_cell(summary.by.get(source, {}).get(tag)) for summary in summaries.values())))
        for tag in tags
    )
    return (SectionTable("Percent right by the card's tags", ("tag", *summaries), lines),) if lines else ()


def _drawn(source: str, summaries: Mapping[str, Summary]) -> list[Dot]:
    card = card_of(source)
    drawn = []
    for place, (name, summary) in enumerate(summaries.items()):
        figures_of = summary.sources.get(source)
        if figures_of is not None and figures_of.avg is not None:
            drawn.append(Dot(name, figures_of.avg, hue(place), figures_of.interval, "with its 95% interval"))
        for number, value in summary.card_numbers.get(source, {}).items():
            drawn.append(Dot(f"{name}: {number}", value, hue(place), None, "as the benchmark is reported"))
    return drawn + [Dot(score.model, score.score / 100, why=score.source) for score in (card.scores if card else ())]


def _own_line(name: str, place: int, numbers: Figures, more: Sequence[str]) -> SectionRow:
    cells = [name, percent(numbers.avg), between(numbers.interval), *more]
    cells += [percent(numbers.majority), f"{numbers.tasks:,}", f"{numbers.samples:,}", _OWN]
    return SectionRow(tuple(cells), hue(place))


def _published(card: Card | None, blank: Sequence[str]) -> list[SectionRow]:
    lines = []
    for score in card.scores if card else ():
        part = f" ({score.part})" if score.part else ""
        faithful = f"; faithful and right {score.faithful:g}%" if score.faithful is not None else ""
        cells = (score.model + part, percent(score.score / 100), *blank, score.source + faithful)
        lines.append(SectionRow(cells, reference=True))
    return lines


def _notes(card: Card | None, source: str, summaries: Mapping[str, Summary]) -> tuple[str, ...]:
    if card is None:
        return ()
    notes = []
    if card.metric.note:
        notes.append(f"The benchmark's own number: {card.metric.note}.")
    tasks = {summary.sources[source].tasks for summary in summaries.values() if source in summary.sources}
    if card.size.tasks and tasks != {card.size.tasks}:
        counts = ", ".join(f"{count:,}" for count in sorted(tasks))
        notes.append(f"Only {counts} of its {card.size.tasks:,} tasks: published scores are of all of them.")
    if card.scores:
        notes.append("Published scores are quoted, not measured here, and may stem from other prompts and graders.")
    return tuple(notes)


def _outcomes(runs: Sequence[EvalRun], sources: Sequence[str]) -> Panel:
    bars, lines = [], []
    apart = sources if len(sources) > 1 and len(sources) * len(runs) <= _MOST_LINES else ()
    for run in runs:
        for source in ("", *apart):
            rows = [row for row in run.rows if source in ("", row.source)]
            parts = {name: float(sum(run.outcome(row) == name for row in rows)) for name in OUTCOMES}
            if not source:
                parts[LOST] += len(run.failures)
            name = f"{run.name}: {title_of(source)}" if source else run.name
            bars.append(StackedBar(name, parts))
            lines.append(SectionRow((name, *(f"{parts[kind]:.0f}" for kind in OUTCOMES))))
    says = (
        "What became of every sample. Lost ones are outages and no answers of the model; they, and those that could "
        "not be graded, are in no average. Outages of which nothing was kept count in the bar of the whole run."
    )
    return Panel(
        "Outcomes",
        sheets=(SectionTable("Samples by outcome", ("", *OUTCOMES), tuple(lines), folded=True),),
        figures=figures(shares("Outcomes", says, bars, OUTCOME_COLOURS)),
    )


def _kinds(summaries: Mapping[str, Summary]) -> list[Panel]:
    tags = list(dict.fromkeys(tag for summary in summaries.values() for tag in summary.tags))
    if not tags:
        return []
    lines = [SectionRow((tag, *(_cell(summary.tags.get(tag)) for summary in summaries.values()))) for tag in tags]
    return [
        Panel(
            "By kind of task",
            intervals_note(part for summary in summaries.values() for part in summary.tags.values()),
            sheets=(SectionTable("Percent right by tag", ("tag", *summaries), tuple(lines), folded=True),),
        )
    ]


def _cell(numbers: Figures | None) -> str:
    if numbers is None or numbers.avg is None:
        return NONE
    return f"{percent(numbers.avg)} ({between(numbers.interval)}) of {numbers.tasks:,}"


# Runs against each other, task by task: the first one against each of the others.

_HEADS = ("", "tasks", "difference", "95% interval", "p", "first better", "second better", "the same")
_LEVEL = 0.05
"""p below which a difference is taken for more than chance; shared among as many comparisons as there are."""


def verdict(runs: Sequence[EvalRun]) -> str:
    """Say in one sentence how often a run is right, or which of several is right most often, and how sure that is."""
    totals = [(run, summarise(run.rows, k=run.k).total) for run in runs]
    graded = [(run, total) for run, total in totals if total.avg is not None]
    graded.sort(key=lambda one: -(one[1].avg or 0.0))
    if not graded:
        held = [
            (run.name, f"{some(len(run.rows), 'sample')}, none graded" if run.rows else "no samples") for run in runs
        ]
        return " ".join(f"{name} holds {what}." for name, what in held)
    (best, top), *others = graded
    right = f"{percent(top.avg)}% right"
    if not others:
        ends = " to ".join(map(short_percent, top.interval or ()))
        return f"{best.name} is {right}, {ends}, of {some(top.tasks, 'task')}."
    other = runs[0] if best is not runs[0] else others[0][0]
    try:
        found = compare(best.rows, other.rows, seed=best.seed)
    except SettingsError:
        return f"{best.name}: {right}. It shares no graded task with {other.name}, so they are not compared."
    ends = f"{100 * found.interval.low:.1f} to {100 * found.interval.high:.1f}".replace("-", "−")
    p = f"p = {found.p:.2g}" if found.p >= 0.0001 else "p < 0.0001"
    if not found.difference:
        return f"{best.name} and {other.name} are equally often right, {ends} points apart, {p}."
    sure = found.p * len(others) < _LEVEL
    word = "more than chance" if sure else "not certain"
    word += f", as one of {len(others)} comparisons" if len(others) > 1 else ""
    first = f"{best.name} is right most often ({percent(top.avg)}%)," if len(others) > 1 else f"{best.name} is"
    gap = f"{short_percent(abs(found.difference))} points {'better' if found.difference > 0 else 'worse'}"
    return f"{first} {gap} than {other.name}, {ends}, {p}: {word}."


def comparison(runs: Sequence[EvalRun]) -> Section | None:
    """Return the section that compares the first run with each other one; None for fewer than two."""
    if len(runs) < 2:
        return None
    lines: list[SectionRow] = []
    notes = dict.fromkeys(
        (
            "Percent right of the first run less that of the second, over the tasks that both graded; positive: the "
            "first is better. A task is better in the run with the larger mean over its samples.",
        )
    )
    tests: dict[str, None] = {}
    for right in runs[1:]:
        title = f"{runs[0].name} against {right.name}"
        try:
            overall = compare(runs[0].rows, right.rows, seed=runs[0].seed)
        except SettingsError as error:
            notes[f"{title}: {error}"] = None
            continue
        for name, found in ((title, overall), *_by_source(title, runs[0], right)):
            lines.append(_line(name, found))
            tests[f"{found.test} (intervals: {found.interval_by})"] = None
        alone = [
            f"{some(count, 'task')} only in {run.name}"
            for count, run in ((overall.only_left, runs[0]), (overall.only_right, right))
            if count
        ]
        notes |= {f"Not compared: {' and '.join(alone)}.": None} if alone else {}
    if tests:
        notes[f"p by {' or '.join(tests)}; two-sided."] = None
    sheets = (SectionTable("Comparison", _HEADS, tuple(lines)),) if lines else ()
    return Section("comparison", "Comparison", (Panel("Comparison", tuple(notes), sheets),))


def differing(runs: Sequence[EvalRun]) -> frozenset[str]:
    """Return tasks that runs solved to a different degree, of those that several runs graded."""
    by_task: dict[str, set[float]] = {}
    for run in runs:
        credits: dict[str, list[float]] = {}
        for row in run.rows:
            if row.correct is not None:
                credits.setdefault(row.task, []).append(row.correct)
        for task, values in credits.items():
            by_task.setdefault(task, set()).add(sum(values) / len(values))
    return frozenset(task for task, values in by_task.items() if len(values) > 1)


def _by_source(title: str, left: EvalRun, right: EvalRun) -> Iterator[tuple[str, Comparison]]:
    sources = dict.fromkeys(row.source for row in left.rows)
    for source in sources if len(sources) > 1 else ():
        ours = [row for row in left.rows if row.source == source]
        theirs = [row for row in right.rows if row.source == source]
        try:
            difference = compare(ours, theirs, seed=left.seed)
        except SettingsError:
            continue  # this benchmark is in one of them only
        yield f"{title}: {title_of(source)}", difference


def _line(name: str, comparison: Comparison) -> SectionRow:
    counts = (f"{count:,}" for count in (comparison.wins, comparison.losses, comparison.ties))
    return SectionRow((name, f"{len(comparison.pairs):,}", *difference_cells(comparison), *counts))
