"""Filters that compose a set (splits, mixtures, strata of difficulty), apply reviews or label boxes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Literal, Self

from pydantic import (
    Field,
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from saccade.dialects.question import question_text
from saccade.errors import SettingsError
from saccade.grading.registry import scored_by_rule
from saccade.record.content import ImagePart, Record, Text, iou
from saccade.record.task import AnswerType, EvidenceBox, NamedMedia, Task, right_choices
from saccade.record.trajectory import CORRECT, Trajectory
from saccade.rewards.judges.client import unfenced
from saccade.training.sft.curate.filters.episodes import Rollouts, tool_turns
from saccade.training.sft.curate.filters.judged import JudgedSettings, JudgeQuestion, ask_about
from saccade.training.sft.curate.pipeline import (
    KEEP,
    CategoryRule,
    DatasetStage,
    Drop,
    FilterContext,
    FilterOutcome,
    FilterSettings,
    FilterStage,
    Keep,
    Undecided,
    categories,
    each,
    task_pictures,
)
from saccade.training.sft.review import ReviewDecision, decisions_in


class SplitFilter(FilterSettings):
    """Gives every task a split by a seeded hash of its id or of its pictures; leaves out nothing.

    Shares are met on average, not exactly. All rollouts of one task fall into one split; with `picture`, all tasks
    that have the same pictures (or, without pictures, the same id).
    """

    ABOUT_TASKS = True

    shares: dict[str, PositiveFloat] = Field(default_factory=lambda: {"train": 0.9, "validation": 0.1})
    """Split -> weight."""
    by: Literal["task", "picture"] = "picture"
    seed: int = 0

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.shares:
            raise ValueError("shares names no split")
        return self

    def decide(self, trajectory: Trajectory) -> FilterOutcome:
        task = trajectory.task
        pictures = [part.sha256 for part in task_pictures(trajectory)] if self.by == "picture" else []
        point = unit_hash(self.seed, *(pictures or [task.id])) * sum(self.shares.values())
        ends = accumulate(self.shares.values())
        name = next((name for name, end in zip(self.shares, ends, strict=True) if point < end), next(iter(self.shares)))
        return Keep(trajectory.model_copy(update={"task": task.model_copy(update={"split": name})}))


def unit_hash(seed: int, *texts: str) -> float:
    """Return a number in [0, 1) that depends only on seed and texts."""
    digest = sha256("\0".join([str(seed), *texts]).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


Note = tuple[str, str | None]
"""Id of a trajectory, and its category among those that have a weight."""


class Mixture(FilterSettings):
    """Draws the largest set in which categories stand in the proportions of their weights.

    Nothing is repeated, so the scarcest category, or the tightest cap, decides how large the set is. Which ones of a
    category are drawn depends on ids and seed only. A trajectory of no category with a weight is left out; one with
    several tags that have weights counts for the first of them in the table.
    """

    ABOUT_TASKS = True

    weights: dict[str, NonNegativeFloat]
    """Category -> weight; they need not sum to 1."""
    by: CategoryRule = "source"
    caps: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """Category -> most trajectories of it."""
    size: PositiveInt | None = None
    """Most trajectories in all."""
    seed: int = 0

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if sum(self.weights.values()) <= 0:
            raise ValueError("weights needs a category with a weight above 0")
        unknown = sorted(self.caps.keys() - self.weights.keys())
        if unknown:
            raise ValueError(f"caps names categories without a weight: {', '.join(unknown)}")
        return self

    def start(self, around: FilterContext) -> FilterStage:
        """Start the stage, which raises `SettingsError` if a category with a weight is empty."""
        return DatasetStage(self._note, self._choose)

    def _note(self, trajectory: Trajectory) -> Note:
        own = categories(trajectory, self.by)
        return trajectory.id, next((name for name in self.weights if name in own), None)

    def _choose(self, notes: Sequence[Note]) -> Sequence[FilterOutcome]:
        there = Counter(category for _, category in notes if category is not None)
        room = {name: min(there[name], self.caps.get(name, there[name])) for name in self.weights}
        missing = [name for name, weight in self.weights.items() if weight > 0 and not room[name]]
        if missing:
            raise SettingsError(
                f"the mixture gives weight to {', '.join(missing)}, of which there is nothing left to draw. "
                "Give them weight 0, or look into the report of the filters before it."
            )
        quota = quotas(self.weights, room, self.size)
        by_category: defaultdict[str, list[str]] = defaultdict(list)
        for id_, category in notes:
            if category is not None:
                by_category[category].append(id_)
        drawn = {
            id_
            for category, ids in by_category.items()
            for id_ in sorted(ids, key=lambda id_: (unit_hash(self.seed, id_), id_))[: quota[category]]
        }
        return [self._outcome(note, drawn) for note in notes]

    def _outcome(self, note: Note, drawn: set[str]) -> FilterOutcome:
        id_, category = note
        if id_ in drawn:
            return KEEP
        return Drop("category has no weight") if category is None else Drop(f"{category}: not drawn")


def quotas(weights: Mapping[str, float], room: Mapping[str, int], size: int | None) -> dict[str, int]:
    """Compute how many to draw of each category: the largest total whose rounded shares all have room.

    Shares are rounded by largest remainders (ties by the order of `weights`), so they sum to the total exactly.
    """
    weight_sum = sum(weights.values())
    shares = {name: weight / weight_sum for name, weight in weights.items()}
    # A share is rounded up by less than 1, so no larger total can fit.
    bound = min(int((room[name] + 1) / share) for name, share in shares.items() if share > 0)
    total = min(bound, sum(room.values()), bound if size is None else size)
    while total > 0:
        counts = _rounded(shares, total)
        if all(counts[name] <= room[name] for name in shares):
            return counts
        total -= 1
    return dict.fromkeys(weights, 0)


def _rounded(shares: Mapping[str, float], total: int) -> dict[str, int]:
    counts = {name: int(share * total) for name, share in shares.items()}
    remainders = sorted(shares, key=lambda name: counts[name] - shares[name] * total)
    for name in remainders[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


# CodeDance names the weak model (Qwen2.5-VL-7B) and the aim, but no bounds: those of `Strata` are our choice.
Style = Literal["direct", "tools", "any", "leave_out"]
"""Answered without a call; with at least one; either; or left out."""


class Strata(Rollouts):
    """Sorts tasks into easy, medium and hard by a weak model's pass rate, and wants a style of answer in each.

    A trajectory that stays gets the tag `stratum:easy`, `stratum:medium` or `stratum:hard`, for a mixture after it,
    and its task the difficulty 1 - pass rate. So do tasks that nobody has played: of them none is left out but those of
    a stratum that is to be.
    """

    ABOUT_TASKS = True

    easy_from: NonNegativeFloat = 0.75
    hard_below: NonNegativeFloat = 0.25
    easy: Style = "direct"
    medium: Style = "any"
    hard: Style = "tools"

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.hard_below > self.easy_from:
            raise ValueError("hard_below must not be above easy_from")
        return self

    def start(self, around: FilterContext) -> FilterStage:
        """Return a stage for one run over a set. Raises as `rates`."""
        rates = self.rates()

        def decide(trajectory: Trajectory) -> FilterOutcome:
            rate = self.rate_of(trajectory, rates)
            return rate if isinstance(rate, Undecided) else self._place(trajectory, rate.value)

        return each(decide)

    def _place(self, trajectory: Trajectory, rate: float) -> FilterOutcome:
        if rate >= self.easy_from:
            name, style = "easy", self.easy
        elif rate < self.hard_below:
            name, style = "hard", self.hard
        else:
            name, style = "medium", self.medium
        calls, played = tool_turns(trajectory), bool(trajectory.turns)
        if style == "leave_out":
            return Drop(f"{name} task")
        if played and style == "direct" and calls:
            return Drop(f"{name} task answered with calls", str(calls))
        if played and style == "tools" and not calls:
            return Drop(f"{name} task answered without a call")
        tags = tuple(tag for tag in trajectory.task.tags if not tag.startswith("stratum:"))
        task = trajectory.task.model_copy(update={"tags": (*tags, f"stratum:{name}"), "difficulty": 1 - rate})
        return Keep(trajectory.model_copy(update={"task": task}))


class LeaveOut(FilterSettings):
    """Leaves out everything in its branch, which `only` and `without` say."""

    ABOUT_TASKS = True

    reason: str = "not wanted"
    """Notes for the report."""

    def decide(self, trajectory: Trajectory) -> FilterOutcome:
        return Drop(self.reason, trajectory.task.source)


class Reviewed(FilterSettings):
    """Leaves out what a person dropped, and corrects what a person corrected; what is still open is undecided.

    A trajectory whose gold answer was corrected is graded anew by the task's rule.
    """

    ABOUT_TASKS = True

    reviews: tuple[Path, ...]
    """The folders that were reviewed, which hold `review.jsonl`."""

    def start(self, around: FilterContext) -> FilterStage:
        """Return the stage for one run over a set. Raises `SettingsError` for a folder that nobody has reviewed."""
        logs = [decisions_in(folder) for folder in self.reviews]

        def decide(trajectory: Trajectory) -> FilterOutcome:
            decisions = [decision for log in logs if (decision := log.of(trajectory.id)) is not None]
            if not decisions:
                return Undecided("not reviewed yet")
            return _outcome(trajectory, decisions[-1])

        return each(decide)


def corrected_task(task: Task, answer: str | None, question: str | None) -> Task:
    """Change the gold answer or question. Raises `SettingsError` for an answer that is none of the choices."""
    if answer is not None and task.answer_type is AnswerType.CHOICE and not right_choices(answer, task.choices):
        raise SettingsError(f"{answer!r} is none of the choices {list(task.choices)}. Take one of them.")
    changes = {"answer": answer, "question": question}
    return task.model_copy(update={name: value for name, value in changes.items() if value is not None})


def _outcome(trajectory: Trajectory, decision: ReviewDecision) -> FilterOutcome:
    if decision.verdict == "drop":
        return Drop("dropped by a person", decision.note)
    if decision.answer is None and decision.question is None:
        return KEEP
    if decision.question is not None and trajectory.turns:
        raise SettingsError(f"the question of {trajectory.id} was corrected after it was played. Play it again.")
    changed = trajectory.model_copy(
        update={"task": corrected_task(trajectory.task, decision.answer, decision.question)}
    )
    if any(score.name == CORRECT for score in changed.scores):
        changed = changed.with_scores([scored_by_rule(changed.answer, changed.task)])
    return Keep(changed)


# CodeDance, table 6. Boxes are in pixels of the stored picture. If a provider scales the picture down and the judge
# answers in pixels of the scaled one, this is not noticed as long as the boxes are inside the stored picture.
_BOX_LABEL_PROMPT = """\
The picture above is {width} pixels wide and {height} high. Find in it what this question asks about:

{question}

Give the box of every whole object that fits the question best; if the question is about a part, give the object to
which the part belongs."""
_BOX_LABEL_REPLY = """

Reply with a JSON array and nothing else, an empty one if nothing fits. Each entry:
{"label": "name of the object", "bbox_2d": [left, top, right, bottom]}, in pixels from the upper left corner."""


class DetectedObject(Record):
    """One entry of a reply."""

    label: Text
    bbox_2d: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]


_REPLY = TypeAdapter(list[DetectedObject])


class BoxLabel(JudgedSettings):
    """Asks a judge for boxes: they become a task's evidence where it has none, and are compared with it where it has.

    Left out are tasks in which the judge finds nothing, and those whose evidence none of its boxes meets. Only tasks
    with exactly one picture are asked about; others are undecided.
    """

    ABOUT_TASKS = True
    OWN_PROMPT = _BOX_LABEL_PROMPT
    MORE_FIELDS = ("width", "height")

    iou: float = Field(default=0.5, gt=0, le=1)
    """Intersection over union that a box and a piece of evidence need, at least once."""

    def question(self, trajectory: Trajectory) -> JudgeQuestion | FilterOutcome:
        """Return the question for the judge, or the outcome if none is needed."""
        media = trajectory.task.media
        if len(media) != 1 or not isinstance(media[0].part, ImagePart):
            return Undecided("the task has not exactly one picture")
        named, part = media[0], media[0].part
        size = {"width": str(part.width), "height": str(part.height)}
        text = self.prompt.fill({"question": question_text(trajectory.task), **size})
        message = ask_about(trajectory, text + _BOX_LABEL_REPLY)
        if isinstance(message, Undecided):
            return message
        return JudgeQuestion(message, lambda reply: self._read(reply, trajectory, named, part))

    def _read(self, reply: str, trajectory: Trajectory, named: NamedMedia, part: ImagePart) -> FilterOutcome | None:
        boxes = _boxes(reply, named.name, part)
        if boxes is None:
            return None
        if not boxes:
            return Drop("judge finds nothing that fits the question")
        known = trajectory.task.evidence
        if known:
            best = max(iou(box.xyxy, evidence.xyxy) for box in boxes for evidence in known)
            return KEEP if best >= self.iou else Drop("judge's boxes miss the evidence", f"best overlap {best:.2f}")
        task = trajectory.task.model_copy(update={"evidence": boxes})
        return Keep(trajectory.model_copy(update={"task": task}))


def _boxes(reply: str, image: str, part: ImagePart) -> tuple[EvidenceBox, ...] | None:
    """Parse the boxes of a reply; None unless it is an array of boxes inside the picture."""
    try:
        items = _REPLY.validate_json(unfenced(reply), strict=True)
        boxes = tuple(EvidenceBox(image=image, xyxy=item.bbox_2d, label=item.label) for item in items)
    except ValidationError:
        return None
    inside = all(box.xyxy[2] <= part.width and box.xyxy[3] <= part.height for box in boxes)
    return boxes if inside else None
