"""The protocols of confidence and tokens: accuracy against agreement, turns and budget, and against tokens spent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Final, Literal

from pydantic import FiniteFloat, NonNegativeFloat, NonNegativeInt, PositiveInt

from saccade.errors import MediaError
from saccade.evals.intervals import of_mean
from saccade.evals.metrics import majority, majority_by_samples, pass_at
from saccade.evals.protocols.base import Findings, Mean, Protocol, Rate, Rates, SampleRow, Studied, StudiedRun
from saccade.evals.rows import natural
from saccade.grading.registry import grade_of
from saccade.media.modes import policy
from saccade.record.content import ImagePart, Name, Record, Text, VideoPart, clean_text
from saccade.record.trajectory import CORRECT, Trajectory, conversation
from saccade.rewards.reward import calls

# What the confidence protocol finds: agreement across samples, accuracy against turns and budget.
#
# A curve over a budget counts a sample as right if it was, and had ended, within the budget: what the same run would
# have had if every later sample had been stopped without an answer. A model that knows its budget may do better.


class ConfidenceRow(SampleRow):
    """One sample: its answer, and what it cost to reach."""

    answer: Text
    """As the grader extracted it, plain; empty without an answer."""
    turns: NonNegativeInt
    calls: NonNegativeInt
    written: NonNegativeInt | None
    """Tokens that the model wrote; None if the backend does not say."""
    turn_limit: PositiveInt | None
    """The budget that the episode had."""


class TaskAgreement(Record):
    """The graded samples of one task that were taken more than once."""

    task: Name
    samples: NonNegativeInt
    answered: NonNegativeInt
    distinct: NonNegativeInt
    """Different answers."""
    agreement: FiniteFloat
    """Share of the samples that gave the most frequent answer, 0 to 1."""
    majority: FiniteFloat
    """Credit of that answer, ties by their mean."""
    average: FiniteFloat
    """Mean credit."""


class AgreementSpan(Record):
    """Tasks of like agreement: a bar of a reliability diagram."""

    low: FiniteFloat
    """Agreement above this (from 0 on: this or more)."""
    high: FiniteFloat
    """Up to this."""
    tasks: NonNegativeInt
    agreement: FiniteFloat
    """Mean."""
    accuracy: Mean
    """Of the most frequent answer."""


class CurvePoint(Record):
    """Accuracy at one number of turns, or within one budget."""

    at: NonNegativeFloat
    samples: NonNegativeInt
    """That ended with exactly this many turns; of a budget, within it."""
    accuracy: Mean | None


class SamplesPoint(Record):
    """Accuracy with `samples` samples of each task."""

    samples: PositiveInt
    any_right: FiniteFloat
    """pass@n, unbiased."""
    majority: FiniteFloat
    """Credit of the most frequent of n answers, over all choices of n of the samples."""


class Curve(Record):
    """Points in ascending order."""

    name: Name
    points: tuple[CurvePoint, ...]


class Confidence(Findings):
    """How far samples agree, and accuracy against turns and budgets."""

    protocol: Literal["confidence"] = "confidence"
    tasks: tuple[TaskAgreement, ...]
    """Those with more than one graded sample."""
    agreement: Mean | None
    """Mean over `tasks`."""
    unanimous: Rate
    """Tasks whose samples all gave one answer, of `tasks`."""
    unanimous_right: Rate
    """Right ones among the unanimous."""
    calibration_error: FiniteFloat | None
    """Expected calibration error of agreement as confidence of the most frequent answer, over `spans`."""
    separation: FiniteFloat | None
    """Chance that a task whose majority is right has the higher agreement than one whose is wrong (AUROC)."""
    spans: tuple[AgreementSpan, ...]
    by_turns: Curve
    """Accuracy of the samples that took exactly so many turns."""
    by_turn_limit: Curve
    """Accuracy of the samples that were allowed so many turns, where a run holds several limits."""
    within: tuple[Curve, ...]
    """Accuracy within a budget of `turns`, `calls` and `written` tokens."""
    with_samples: tuple[SamplesPoint, ...]
    rows: tuple[ConfidenceRow, ...]


SPANS: Final = 5


def agreements(rows: Sequence[ConfidenceRow]) -> tuple[TaskAgreement, ...]:
    """Return every task with more than one graded sample, in the order of the rows."""
    return tuple(_agreement(task, group) for task, group in _graded(rows).items() if len(group) > 1)


def spans(tasks: Sequence[TaskAgreement]) -> Iterator[AgreementSpan]:
    """Yield tasks of like agreement, from little to much; those without tasks are left out."""
    for number in range(SPANS):
        low, high = number / SPANS, (number + 1) / SPANS
        inside = [task for task in tasks if (low < task.agreement or number == 0) and task.agreement <= high]
        if inside:
            yield AgreementSpan(
                low=low,
                high=high,
                tasks=len(inside),
                agreement=fmean(task.agreement for task in inside),
                accuracy=mean([task.majority for task in inside]),
            )


def calibration_error(spans: Sequence[AgreementSpan]) -> float | None:
    """Compute the expected calibration error (Naeini et al., 2015) of agreement as the chance of a right majority."""
    tasks = sum(span.tasks for span in spans)
    if not tasks:
        return None
    return sum(span.tasks * abs(span.agreement - span.accuracy.value) for span in spans) / tasks


def separation(tasks: Sequence[TaskAgreement]) -> float | None:
    """Compute the chance that a right majority has more agreement than a wrong one, ties half; None without both."""
    right = Counter(task.agreement for task in tasks if task.majority == 1)
    wrong = Counter(task.agreement for task in tasks if task.majority == 0)
    if not right or not wrong:
        return None
    won = sum(
        count * other * (1.0 if high > low else 0.5 if high == low else 0.0)
        for (high, count), (low, other) in product(right.items(), wrong.items())
    )
    return won / (right.total() * wrong.total())


def mean(values: Sequence[float]) -> Mean:
    """Return the mean of values of tasks with its interval."""
    low, high = of_mean(values).interval
    return Mean(value=fmean(values), samples=len(values), low=low, high=high)


def _graded(rows: Sequence[ConfidenceRow]) -> dict[str, list[ConfidenceRow]]:
    """Group the graded samples by their task, in the order of the rows."""
    groups: dict[str, list[ConfidenceRow]] = defaultdict(list)
    for row in rows:
        if row.correct is not None:
            groups[row.task].append(row)
    return groups


def _agreement(task: str, rows: Sequence[ConfidenceRow]) -> TaskAgreement:
    answers = Counter(row.answer for row in rows if row.answer)
    most = max(answers.values(), default=0)
    return TaskAgreement(
        task=task,
        samples=len(rows),
        answered=answers.total(),
        distinct=len(answers),
        agreement=most / len(rows),
        majority=majority([(row.answer, row.correct or 0.0) for row in rows]),
        average=fmean(row.correct or 0.0 for row in rows),
    )


Number = Callable[[ConfidenceRow], int | None]

_STEPS: Final = 10
"""Points of a curve over a number with many values."""


def row(studied: Studied) -> ConfidenceRow:
    """Return the row of one sample: its answer in plain words, and how much was written for it."""
    trajectory = studied.trajectory
    detail = next((score.detail for score in trajectory.scores if score.name == CORRECT), "")
    answer = (grade_of(detail).extracted or trajectory.answer or "") if trajectory.answer is not None else ""
    written = [turn.tokens.sampled for turn in trajectory.turns]
    known = [number for number in written if number is not None]
    return ConfidenceRow(
        **studied.head,
        answer=" ".join(clean_text(answer).casefold().split()),
        turns=len(trajectory.turns),
        calls=len(calls(trajectory)),
        written=sum(known) if len(known) == len(written) else None,
        turn_limit=trajectory.provenance.limits.turns,
    )


def findings(rows: Sequence[ConfidenceRow], about: StudiedRun) -> Confidence:
    """Return the findings of all rows."""
    tasks = agreements(rows)
    unanimous = [task for task in tasks if task.distinct == 1 and task.answered == task.samples]
    groups = tuple(spans(tasks))
    limits = {row.turn_limit for row in rows}
    return Confidence(
        about=about,
        tasks=tasks,
        agreement=mean([task.agreement for task in tasks]) if tasks else None,
        unanimous=Rate(count=len(unanimous), of=len(tasks)),
        unanimous_right=Rate(count=sum(task.majority == 1 for task in unanimous), of=len(unanimous)),
        calibration_error=calibration_error(groups),
        separation=separation(tasks),
        spans=groups,
        by_turns=_exactly("turns", rows, lambda row: row.turns),
        by_turn_limit=_exactly("turn_limit", rows if len(limits) > 1 else (), lambda row: row.turn_limit),
        within=(
            _within("turns", rows, lambda row: row.turns),
            _within("calls", rows, lambda row: row.calls),
            _within("written", rows, lambda row: row.written),
        ),
        with_samples=tuple(_with_samples(rows)),
        rows=tuple(rows),
    )


def _exactly(name: str, rows: Sequence[ConfidenceRow], number: Number) -> Curve:
    values = sorted({value for row in rows if (value := number(row)) is not None})
    columns = [[row.correct if number(row) == value else None for row in rows] for value in values]
    counts = [sum(number(row) == value for row in rows) for value in values]
    return _curve(name, values, counts, Rates(rows).credits(columns))


def _within(name: str, rows: Sequence[ConfidenceRow], number: Number) -> Curve:
    """Return the accuracy of all samples if those beyond each budget had been stopped without an answer."""
    known = [row for row in rows if number(row) is not None]
    values = sorted(value for row in known if (value := number(row)) is not None)
    budgets = _budgets(values)
    columns = [
        [None if row.correct is None else row.correct * ((number(row) or 0) <= most) for row in known]
        for most in budgets
    ]
    counts = [sum(value <= most for value in values) for most in budgets]
    return _curve(name, budgets, counts, Rates(known).credits(columns))


def _curve(name: str, places: Sequence[int], counts: Sequence[int], means: Sequence[Mean | None]) -> Curve:
    listed = zip(places, counts, means, strict=True)
    return Curve(name=name, points=tuple(CurvePoint(at=at, samples=n, accuracy=one) for at, n, one in listed))


def _budgets(values: Sequence[int]) -> list[int]:
    """Return every value there is; of many, those at even shares of the samples."""
    distinct = sorted(set(values))
    if len(distinct) <= 2 * _STEPS:
        return distinct
    return sorted({values[len(values) * step // _STEPS - 1] for step in range(1, _STEPS + 1)})


def _with_samples(rows: Sequence[ConfidenceRow]) -> Iterator[SamplesPoint]:
    """pass@n and majority@n over the tasks, as far as every task has n graded samples."""
    groups = _graded(rows).values()
    fewest = min(map(len, groups), default=0)
    voted = [majority_by_samples([(row.answer, row.correct or 0.0) for row in group]) for group in groups]
    for count in range(1, fewest + 1):
        yield SamplesPoint(
            samples=count,
            any_right=fmean(pass_at(count, len(group), sum(row.right for row in group)) for group in groups),
            majority=fmean(by_samples[count - 1] for by_samples in voted),
        )


PROTOCOL: Final = Protocol("confidence", "Confidence", Confidence, row, findings)


# What the token protocol finds: visual and text tokens per sample against accuracy (PyVision-RL, figure 4).
#
# Backends seldom say how many tokens of a prompt are visual. Where they do not, the number is computed from the sizes
# of the pictures that were shown, by a named pixel budget, and so is an estimate for any other model.


class TokenUsageRow(SampleRow):
    """One sample and the tokens that it used."""

    pictures: NonNegativeInt
    """Shown to the model, each time it was shown."""
    visual: NonNegativeInt | None
    """Visual tokens in the last context; None if the shape of a picture is beyond the budget."""
    estimated: bool
    """Whether `visual` was computed from the pictures' sizes."""
    text: NonNegativeInt | None
    """Text tokens at the end: what was read and written, less `visual`; None if the backend does not say."""
    written: NonNegativeInt | None
    """Tokens that the model wrote in all turns; None if the backend does not say."""
    processed: NonNegativeInt | None
    """Tokens that were read in all turns together, again and again; None if the backend does not say."""


class TokenPoint(Record):
    """Some samples as a point of the figure."""

    label: Name
    samples: NonNegativeInt
    accuracy: Mean | None
    pictures: Mean | None
    visual: Mean | None
    text: Mean | None
    written: Mean | None
    processed: Mean | None


class TokenEconomy(Findings):
    """Accuracy next to the tokens that were spent on it."""

    protocol: Literal["tokens"] = "tokens"
    estimated: NonNegativeInt
    """Samples whose visual tokens were computed by the budget of `about`."""
    total: TokenPoint
    sources: Mapping[str, TokenPoint]
    """By benchmark."""
    spans: tuple[TokenPoint, ...]
    """Samples in quarters by visual tokens, from few to many; fewer where numbers tie."""
    lengths: tuple[TokenPoint, ...]
    """Samples in quarters by the tokens that the model wrote, from short to long: what length is worth (VISTA-R1,
    figures 4f and 5, of expert trajectories)."""
    rows: tuple[TokenUsageRow, ...]


_SPANS: Final = 4
_AMOUNTS: Final = ("pictures", "visual", "text", "written", "processed")


def token_row(studied: Studied) -> TokenUsageRow:
    """Return the row of one sample: its tokens. Raises `RegistryError` for an unknown pixel budget."""
    trajectory = studied.trajectory
    turns = trajectory.turns
    shown = [part for message in conversation(trajectory.prompt, turns[:-1]) for part in message.media]
    last = turns[-1].tokens if turns else None
    reported = None if last is None else last.context_visual
    visual = _estimated(shown, studied.budget) if reported is None else reported
    sampled = [turn.tokens.sampled for turn in turns]
    contexts = [turn.tokens.context for turn in turns]
    return TokenUsageRow(
        **studied.head,
        pictures=len(shown),
        visual=visual,
        estimated=reported is None,
        text=_text(trajectory, visual),
        written=_sum(sampled),
        processed=_sum(contexts),
    )


def token_findings(rows: Sequence[TokenUsageRow], about: StudiedRun) -> TokenEconomy:
    """Return the findings of all rows."""
    sources = sorted({row.source for row in rows}, key=natural)
    return TokenEconomy(
        about=about,
        estimated=sum(row.estimated and row.visual is not None for row in rows),
        total=point("all", rows),
        sources={name: point(name or "?", [row for row in rows if row.source == name]) for name in sources},
        spans=tuple(_spans(rows, [row.visual for row in rows])),
        lengths=tuple(_spans(rows, [row.written for row in rows])),
        rows=tuple(rows),
    )


def point(label: str, rows: Sequence[TokenUsageRow]) -> TokenPoint:
    """Return the point of some samples in the plot: their mean accuracy and mean tokens."""
    rates = Rates(rows)
    means = rates.means([[getattr(row, amount) for row in rows] for amount in _AMOUNTS])
    return TokenPoint(
        label=label,
        samples=len(rows),
        accuracy=rates.credits([[row.correct for row in rows]])[0],
        **dict(zip(_AMOUNTS, means, strict=True)),
    )


def _estimated(shown: Sequence[ImagePart | VideoPart], budget: str) -> int | None:
    """Return visual tokens by the sizes of the pictures; None if one of them cannot be estimated."""
    rule = policy(budget)
    if rule is None or any(isinstance(part, VideoPart) for part in shown):
        return None
    try:
        return sum(rule.tokens(part.width, part.height) for part in shown)
    except MediaError:
        return None


def _text(trajectory: Trajectory, visual: int | None) -> int | None:
    """Count the text at the end: the last context and what was written then, less `visual`; None if not a number."""
    last = trajectory.turns[-1].tokens if trajectory.turns else None
    if last is None or last.context is None or visual is None or visual > last.context:
        return None
    return last.context + (last.sampled or 0) - visual


def _sum(numbers: Sequence[int | None]) -> int | None:
    """Return the sum; None if one is not known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None


def _spans(rows: Sequence[TokenUsageRow], amounts: Sequence[int | None]) -> list[TokenPoint]:
    """Return quarters by an amount that each row has or not; samples of one amount stay together."""
    every = [(amount, row) for row, amount in zip(rows, amounts, strict=True) if amount is not None]
    known = sorted(amount for amount, _ in every)
    bounds = sorted({known[len(known) * part // _SPANS - 1] for part in range(1, _SPANS + 1)}) if known else []
    found, low = [], -1
    for high in bounds:
        inside = [row for amount, row in every if low < amount <= high]
        if inside:
            least = min(amount for amount, _ in every if low < amount <= high)
            found.append(point(f"{least}" if least == high else f"{least}-{high}", inside))
        low = high
    return found


TOKENS: Final = Protocol("tokens", "Token economy (PyVision-RL)", TokenEconomy, token_row, token_findings)
