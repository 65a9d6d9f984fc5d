"""A trajectory of the record as the page shows it."""

from __future__ import annotations

from collections.abc import Iterable
from string import ascii_uppercase

from saccade.looks.regions import Region, regions
from saccade.record.action import Answer
from saccade.record.content import VideoPart
from saccade.record.score import CORRECT, Score, total
from saccade.record.task import Task
from saccade.record.trajectory import Provenance, StopReason, Trajectory
from saccade.record.turn import Turn
from saccade.report.overlay import boxes
from saccade.report.picture_book import PictureBook
from saccade.report.plain_text import cut_end
from saccade.report.turn_view import talk, turn_view
from saccade.report.video_strip import video_view
from saccade.report.view import EpisodeCard, EpisodeView, Fact, Original, TableView, VerdictView
from saccade.report.words import NONE, count, duration, known_sum, money, some, stop_words


def episode_view(anchor: str, trajectory: Trajectory, book: PictureBook) -> EpisodeView:
    """The whole episode; `anchor` names it in the page."""
    looked = regions(trajectory, book)
    task = trajectory.task
    return EpisodeView(
        anchor=anchor,
        id=trajectory.id,
        question=cut_end(task.question),
        originals=_originals(trajectory, looked, book),
        choices=_choices(task, trajectory.answer),
        answer=trajectory.answer,
        gold=task.answer,
        verdict=verdict(trajectory.scores),
        stop=stop_words(trajectory.stop),
        stop_detail=trajectory.stop_detail,
        answered=trajectory.stop is StopReason.ANSWERED,
        outage=trajectory.lost,
        chips=_chips(trajectory),
        turns=tuple(
            turn_view(number, turn, book, sum(region.turn == number - 1 for region in looked))
            for number, turn in enumerate(trajectory.turns, 1)
        ),
        prompt=tuple(talk("Before the first turn", message, book) for message in trajectory.prompt),
        table=_table(trajectory.turns),
        scores=_scores(trajectory.scores),
        settings=_settings(trajectory),
        resolved=trajectory.provenance.settings,
    )


def card(href: str, trajectory: Trajectory, book: PictureBook) -> EpisodeCard:
    """The episode on an index."""
    pictures = [item.part for item in trajectory.task.media]
    return EpisodeCard(
        href=href,
        id=trajectory.id,
        question=trajectory.task.question,
        answer=trajectory.answer,
        gold=trajectory.task.answer,
        verdict=verdict(trajectory.scores),
        stop=stop_words(trajectory.stop),
        answered=trajectory.stop is StopReason.ANSWERED,
        turns=some(len(trajectory.turns), "turn"),
        picture=book.add(pictures[0]) if pictures else None,
    )


def verdict(scores: Iterable[Score]) -> VerdictView:
    """Whether the answer is right, by the score `correct`."""
    value = next((score.value for score in scores if score.name == CORRECT), None)
    if value is None:
        return VerdictView("not scored", None)
    right = True if value >= 1 else False if value <= 0 else None
    return VerdictView({True: "right", False: "wrong", None: f"{CORRECT} {value:g}"}[right], right)


def _originals(trajectory: Trajectory, regions: tuple[Region, ...], book: PictureBook) -> tuple[Original, ...]:
    task = trajectory.task
    return tuple(
        Original(
            item.name,
            book.add(item.part),
            boxes(
                item.part,
                [region for region in regions if region.name == item.name],
                [box for box in task.evidence if box.image == item.name],
            ),
            video_view(item.part, trajectory.turns, book) if isinstance(item.part, VideoPart) else None,
        )
        for item in task.media
    )


def _choices(task: Task, answer: str | None) -> tuple[tuple[str, str, str], ...]:
    given = "" if answer is None else answer.strip().casefold()
    rows = []
    for number, choice in enumerate(task.choices):
        mark = ascii_uppercase[number] if len(task.choices) <= 26 else str(number + 1)
        chosen = given in (choice.strip().casefold(), mark.casefold())
        classes = ["chosen"] if chosen else []
        if task.answer is not None and choice == task.answer:
            classes.append("gold")
        rows.append((mark, choice, " ".join(classes)))
    return tuple(rows)


def _chips(trajectory: Trajectory) -> tuple[Fact, ...]:
    turns = trajectory.turns
    pictures = sum(len(execution.pictures) for turn in turns for execution in turn.executions)
    dollars = known_sum(turn.dollars for turn in turns)
    facts = [Fact("turns", f"{len(turns):,}"), Fact("pictures back", f"{pictures:,}")]
    if trajectory.seconds:
        facts.append(Fact("time", duration(trajectory.seconds)))
    written = known_sum(turn.tokens.sampled for turn in turns)
    if written is not None:
        facts.append(Fact("tokens written", count(int(written))))
    if dollars is not None:
        facts.append(Fact("cost", money(dollars)))
    return tuple(facts)


def _table(turns: tuple[Turn, ...]) -> TableView:
    heads = ("turn", "did", "model", "run", "tokens read", "of them visual", "tokens written", "cost")
    rows = tuple(
        (
            str(number),
            turn.action.kind.replace("_", " "),
            duration(turn.model_seconds),
            duration(turn.execution_seconds) if turn.execution is not None else NONE,
            count(turn.tokens.context),
            count(turn.tokens.context_visual),
            count(turn.tokens.sampled),
            money(turn.dollars),
        )
        for number, turn in enumerate(turns, 1)
    )
    ends = "answer" if turns and isinstance(turns[-1].action, Answer) else "no answer"
    totals = (
        "total",
        ends,
        duration(sum(turn.model_seconds for turn in turns)),
        duration(sum(turn.execution_seconds for turn in turns)),
        _summed(turn.tokens.context for turn in turns),
        _summed(turn.tokens.context_visual for turn in turns),
        _summed(turn.tokens.sampled for turn in turns),
        money(known_sum(turn.dollars for turn in turns)),
    )
    return TableView(heads, rows, totals)


def _summed(values: Iterable[int | None]) -> str:
    amount = known_sum(values)
    return count(None if amount is None else int(amount))


def _scores(scores: tuple[Score, ...]) -> tuple[tuple[str, str, str, str], ...]:
    if not scores:
        return ()
    rows = [
        (score.name, NONE if score.value is None else f"{score.value:g}", f"{score.weight:g}", score.detail)
        for score in scores
    ]
    amount = total(scores)
    return (*rows, ("total", NONE if amount is None else f"{amount:g}", "", "weighted sum"))


def _settings(trajectory: Trajectory) -> tuple[Fact, ...]:
    provenance, task = trajectory.provenance, trajectory.task
    facts = [
        Fact("trajectory", trajectory.id),
        Fact("task", task.id),
        Fact("source", " · ".join(filter(None, (task.source, task.split)))),
        Fact("group", f"{trajectory.group}, rollout {trajectory.rollout}" if trajectory.group else ""),
        Fact("recorded", trajectory.created.isoformat(" ", "seconds") if trajectory.created is not None else ""),
        *_made_by(provenance),
    ]
    return tuple(fact for fact in facts if fact.value)


def _made_by(provenance: Provenance) -> list[Fact]:
    sampling = provenance.sampling.model_dump(exclude_none=True)
    limits = provenance.limits.model_dump(exclude_none=True)
    return [
        Fact("Saccade", provenance.saccade),
        Fact("model", provenance.model),
        Fact("revision", provenance.model_revision),
        Fact("dialect", provenance.dialect),
        Fact("after an exception", provenance.state_policy),
        Fact("repairs", ", ".join(provenance.repairs)),
        Fact("isolation", ", ".join(provenance.layers)),
        *(Fact(f"sampling: {name.replace('_', ' ')}", f"{value:g}") for name, value in sampling.items()),
        *(Fact(f"limit: {name.replace('_', ' ')}", f"{value:g}") for name, value in limits.items()),
    ]
