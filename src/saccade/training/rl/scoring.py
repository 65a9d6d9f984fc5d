"""Score the rollouts of one task: repeated pictures, grades, verdicts of judges, rewards with named parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from saccade.episode.regions import PictureReader, StoredPixels, only_place, packed
from saccade.grading.registry import scored_by_rule
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.models.registry import load_model
from saccade.record.content import ImagePart
from saccade.record.task import Task
from saccade.record.trajectory import CORRECT, Score, Trajectory, Turn
from saccade.rewards.judges.answer import RIGHT, AnswerJudge, ConsistencyJudge, judged_score
from saccade.rewards.judges.client import JudgeClient
from saccade.rewards.judges.prompt import JudgeContext, judged, make_judge, unjudged
from saccade.rewards.reward import (
    LONGEST_ANSWER,
    Judge,
    NeedsConsistency,
    NeedsJudge,
    Reward,
    RewardGroup,
    RewardPreset,
    accuracy,
    needs_judge,
    paid,
    unscored,
)
from saccade.training.rl.recipe import RewardSettings
from saccade.training.rl.rollout import Rollout

CELLS: Final = (16, 64)
"""Fewest and most, each way."""
MEAN_LEVELS: Final = 6.0
MOST_LEVELS: Final = 40.0
OF_CONTRAST: Final = 0.6
NEARLY_WHOLE: Final = 0.9
"""Of width and height."""
_CELL: Final = 8
_BASE: Final = 512
"""Pixels to which the longer side of a large picture is reduced first."""
_BORDER_LEVELS: Final = 12
_PLAIN: Final = 0.5
"""Contrast of a picture of one colour, in which a level is a difference."""
_TURNS: Final = tuple(Image.Transpose)
_STEPS: Final = (0.025, 0.0125, 0.006, 0.003, 0.0015)
_SEARCH: Final = 32
_HOPELESS: Final = 3 * MEAN_LEVELS
_COARSE: Final = 12
_ALIKE: Final = 0.7
"""Of the contrast, with four levels for noise: what differs more is not looked at closely."""
Grid: TypeAlias = npt.NDArray[np.float32]
_Window: TypeAlias = tuple[float, float, float, float]
_WHOLE: Final[_Window] = (0.0, 0.0, 1.0, 1.0)


def with_repeats(trajectory: Trajectory, book: PictureReader) -> Trajectory:
    """Return it with each picture that repeats an earlier one replaced by that one, so that equal pictures are equal.

    Earlier are the pictures of the task and of its prompt, and what calls brought back before. A repeat is a picture
    saved anew, compressed, scaled, stretched, mirrored, turned by a multiple of 90°, padded by one colour, or cut to no
    less than nine tenths of its width and height. Both are averaged over a grid of cells (an eighth of the smaller
    side's pixels, 16 to 64); they show the same if cells differ by at most 6 of 255 levels and three fifths of the
    picture's own contrast on average, and none by more than 40: so a crop of a texture is no repeat, nor a copy with a
    mark. Other angles and changed colours are not seen. A picture that `book` lacks is only equal to itself.
    """
    given = [item.part for item in trajectory.task.media] + [part for said in trajectory.prompt for part in said.media]
    first = {part.sha256: part for part in given if isinstance(part, ImagePart)}
    looks = {name: _look(part, book) for name, part in first.items()}
    turns = []
    for turn in trajectory.turns:
        for picture in turn.execution.pictures if turn.execution is not None else ():
            part = picture.image
            if part.sha256 not in first:
                look = _look(part, book)
                known = next((name for name, other in looks.items() if _repeats(look, other)), None)
                first[part.sha256] = part if known is None else first[known]
                looks[part.sha256] = look
        turns.append(_renamed(turn, first))
    return trajectory.model_copy(update={"turns": tuple(turns)})


def _renamed(turn: Turn, first: dict[str, ImagePart]) -> Turn:
    if turn.execution is None or not turn.execution.pictures:
        return turn
    pictures = tuple(one.model_copy(update={"image": first[one.image.sha256]}) for one in turn.execution.pictures)
    return turn.model_copy(update={"execution": turn.execution.model_copy(update={"pictures": pictures})})


@dataclass(frozen=True, slots=True)
class _Look:
    """A picture, and the reduced one that is compared where its pixels are not found as they are."""

    whole: Image.Image
    reduced: Image.Image


def _look(part: ImagePart, book: PictureReader) -> _Look | None:
    picture = book.pixels(part)
    return None if picture is None else _reduced(picture)


def _reduced(picture: Image.Image) -> _Look:
    whole = picture.convert("RGB")
    reduced = whole.copy()
    reduced.thumbnail((_BASE, _BASE), Image.Resampling.BOX)
    return _Look(whole, reduced)


def repeats(picture: Image.Image, earlier: Image.Image) -> bool:
    """Tell whether `picture` shows nothing but what `earlier` shows."""
    return _repeats(_reduced(picture), _reduced(earlier))


def _repeats(look: _Look | None, known: _Look | None) -> bool:
    if look is None or known is None:
        return False
    if _is_cut(look.whole, known.whole):
        return True
    picture, earlier = look.reduced, known.reduced
    cells = min(max(min(*picture.size, *earlier.size) // _CELL, CELLS[0]), CELLS[1])
    whole, coarse = _grid(earlier, cells), _grid(earlier, _COARSE)
    for candidate in _unpadded(picture, earlier):
        for turned in (candidate, *(candidate.transpose(turn) for turn in _TURNS)):
            if _apart(_grid(turned, _COARSE), coarse) > _ALIKE * _contrast(coarse) + 4:
                continue
            grid = _grid(turned, cells)
            if _same(grid, whole) or _same(grid, _grid(earlier, cells, _margins(turned, earlier))):
                return True
    return False


def _is_cut(picture: Image.Image, earlier: Image.Image) -> bool:
    """Return whether it is nearly all of `earlier`, pixel for pixel."""
    shares = picture.width / earlier.width, picture.height / earlier.height
    if not (min(shares) >= NEARLY_WHOLE and max(shares) <= 1):
        return False
    return only_place(packed(earlier), packed(picture)) is not None


def _unpadded(picture: Image.Image, earlier: Image.Image) -> Iterator[Image.Image]:
    """Return the picture, and what a border of one colour surrounds in it.

    With as much border as `earlier` has of its own.
    """
    yield picture
    box, own, full = _content(picture), _content(earlier), (0, 0, *picture.size)
    if box == full:
        return
    for sides in range(1, 16):  # each set of sides: a border of its own may follow on the added one
        trimmed = [
            edge if sides >> side & 1 else whole for side, (edge, whole) in enumerate(zip(box, full, strict=True))
        ]
        if tuple(trimmed) != full:
            yield picture.crop((trimmed[0], trimmed[1], trimmed[2], trimmed[3]))
    if own == (0, 0, *earlier.size):
        return
    across, down = (box[2] - box[0]) / (own[2] - own[0]), (box[3] - box[1]) / (own[3] - own[1])
    left, top = box[0] - own[0] * across, box[1] - own[1] * down
    right, bottom = left + earlier.width * across, top + earlier.height * down
    if left > -1 and top > -1 and right < picture.width + 1 and bottom < picture.height + 1:
        yield picture.crop((max(0, round(left)), max(0, round(top)), round(right), round(bottom)))


def _content(picture: Image.Image) -> tuple[int, int, int, int]:
    """Return the box of a picture without the rows and columns at its edges that have one colour, each edge its own."""
    pixels = np.asarray(picture, dtype=np.int16)
    top, bottom = _edges(pixels)
    left, right = _edges(pixels.transpose(1, 0, 2))
    return (left, top, right, bottom) if left < right and top < bottom else (0, 0, *picture.size)


def _edges(rows: npt.NDArray[np.int16]) -> tuple[int, int]:
    spans = []
    for first in (rows, rows[::-1]):
        plain = (np.abs(first - first[0, 0]) <= _BORDER_LEVELS).all(axis=(1, 2))
        spans.append(len(plain) if plain.all() else int(np.argmin(plain)))
    return spans[0], len(rows) - spans[1]


def _grid(picture: Image.Image, cells: int, window: _Window = _WHOLE) -> Grid:
    """Return averages of cells of a part of a picture, cells × cells × 3; `window` as shares of width and height."""
    width, height = picture.size
    box = (window[0] * width, window[1] * height, window[2] * width, window[3] * height)
    return np.asarray(picture.resize((cells, cells), Image.Resampling.BOX, box=box), dtype=np.float32)


def _apart(left: Grid, right: Grid) -> float:
    return float(np.abs(left - right).mean())


def _contrast(grid: Grid) -> float:
    return _apart(grid, grid.mean(axis=(0, 1)))


def _same(left: Grid, right: Grid) -> bool:
    contrast, most = _contrast(right), float(np.abs(left - right).max())
    if contrast < _PLAIN:
        return most < 1
    return _apart(left, right) <= min(MEAN_LEVELS, max(1.0, OF_CONTRAST * contrast)) and most <= MOST_LEVELS


def _margins(picture: Image.Image, earlier: Image.Image) -> _Window:
    """Return the window of `earlier` that is most like `picture`, found by ever smaller steps from all of it."""
    earlier = earlier.copy()
    earlier.thumbnail((_BASE // 2, _BASE // 2), Image.Resampling.BOX)
    grid, window = _grid(picture, _SEARCH), _WHOLE
    error = _apart(grid, _grid(earlier, _SEARCH))
    for step in _STEPS:
        for _ in range(8):
            tried = [(_apart(grid, _grid(earlier, _SEARCH, way)), way) for way in _ways(window, step)]
            best = min(tried, default=(error, window))
            if best[0] >= error:
                break
            error, window = best
        if error > _HOPELESS:
            break
    return window


def _ways(window: _Window, step: float) -> Iterator[_Window]:
    """Windows with one or two sides moved by a step, none smaller than nearly the whole."""
    for moved in ((0,), (1,), (2,), (3,), (0, 2), (1, 3)):
        for by in (step, -step):
            left, top, right, bottom = (side + by * (place in moved) for place, side in enumerate(window))
            large = min(right - left, bottom - top) >= NEARLY_WHOLE - 1e-9
            if large and min(left, top) >= 0 and max(right, bottom) <= 1:
                yield left, top, right, bottom


@dataclass(frozen=True, slots=True)
class AnswerGrading:
    """Grades answers by a rule, and by a model where the rule finds no right answer to an open question."""

    grader: str = ""
    judge: AnswerJudge | None = None
    open_tags: tuple[str, ...] = ()

    async def graded(self, trajectory: Trajectory) -> Trajectory:
        """Return it with its score `correct`, without a value if the task cannot be graded or there is no verdict.

        Raises `ModelDeniedError`: the judge refuses whatever it is asked; `RegistryError`: the task names a grader that
        is not there.
        """
        task, answer = trajectory.task, trajectory.answer
        score = await asyncio.to_thread(scored_by_rule, answer, task, self.grader)
        decided = score.value == RIGHT or trajectory.lost or len(answer or "") >= LONGEST_ANSWER
        if self.judge is not None and not decided and self.is_open(task) and (task.answer or "").strip():
            score = judged_score(f"judge:{self.judge.model.name}", answer, await self.judge.verdict(answer, task))
        return trajectory.with_scores([score])

    def is_open(self, task: Task) -> bool:
        """Return whether only a model can say that an answer to `task` is wrong."""
        return task.is_open or not set(self.open_tags).isdisjoint((*task.tags, "*"))


@dataclass(frozen=True, slots=True)
class Scorer:
    """A reward with its judges."""

    preset: RewardPreset
    judge: Judge | None = None
    answers: AnswerGrading = AnswerGrading()
    consistency: ConsistencyJudge | None = None
    models: tuple[Model, ...] = ()
    """Models of the judges; closed with the scorer."""
    asks: bool = False
    """Whether the judge of calls asks a model."""
    preset_of: Callable[[Task], RewardPreset] | None = None
    """Gives the reward of a task with parameters; None: `preset` for all tasks."""
    book: PictureReader | None = None
    """Has the pictures of the rollouts; without it, only equal bytes make a picture one that was seen before."""

    async def close(self) -> None:
        for model in self.models:
            await model.close()

    async def __call__(self, group: Sequence[Rollout], *, trained_on: bool = True) -> list[Rollout]:
        """Reward the rollouts of one task; one that cannot be trained on gets none.

        Rollouts that are not `trained_on` (validation, pass rates) are shown to no model that judges calls or thoughts:
        parts that need such a verdict have no value.
        """
        task = group[0].trajectory.task if group else None
        preset = self.preset_of(task) if self.preset_of and task and task.reward else self.preset
        graded = await asyncio.gather(*(self._graded(item.trajectory, preset, trained_on) for item in group))
        rewards = paid(preset, await self._judged(graded, preset, trained_on))
        return [
            _scored(replace(item, trajectory=trajectory), reward)
            for item, trajectory, reward in zip(group, graded, rewards, strict=True)
        ]

    async def _graded(self, trajectory: Trajectory, preset: RewardPreset, trained_on: bool) -> Trajectory:
        graded = await self.answers.graded(trajectory)
        needs = isinstance(preset, NeedsConsistency) and preset.needs_consistency(graded)
        return await self.consistency.scored(graded) if needs and trained_on and self.consistency else graded

    async def _judged(self, graded: Sequence[Trajectory], preset: RewardPreset, trained_on: bool) -> RewardGroup:
        if not isinstance(preset, NeedsJudge):
            return RewardGroup(tuple(graded))
        if self.book is not None:
            graded = [await asyncio.to_thread(with_repeats, one, self.book) for one in graded]
        if self.asks and not trained_on:
            return unjudged(graded)
        return await judged(self.judge, graded, preset.turns_to_judge)


def accuracy_alone(rollout: Rollout) -> Rollout:
    """Reward a graded rollout by its accuracy."""
    return _scored(rollout, Reward(parts=(Score(name=CORRECT, value=accuracy(rollout.trajectory)),)))


def _scored(rollout: Rollout, reward: Reward) -> Rollout:
    without = rollout.tokens is None
    return replace(rollout, reward=unscored(reward, "it has no turn to be trained on") if without else reward)


def load_scorer(settings: RewardSettings, store: MediaStore, kept: Path) -> Scorer:
    """Load the reward with the judges that a recipe names; replies of models are kept in the folder `kept`.

    Two judges that are the same model share the limit of requests at once. Raises `RegistryError`: there is no such
    reward, judge or model; `SettingsError`: the judge needs a model, and none is named; `PromptFileError`: a judge's
    prompt file cannot be used.
    """
    rules, models, preset = settings.judge_rules, dict[str, JudgeClient](), settings.load()
    judge = settings.judge if needs_judge(preset) else "none"
    judge_model = "" if judge in ("none", "boxes") else settings.judge_model
    for name in {judge_model, settings.answer_judge, settings.consistency_judge} - {""}:
        models[name] = JudgeClient(load_model(name, settings.retry), rules, kept)
    thoughts = settings.consistency_judge
    context = JudgeContext(store, models.get(judge_model), rules)
    return Scorer(
        preset,
        None if judge == "none" else make_judge(judge, context),
        AnswerGrading(
            settings.grader,
            AnswerJudge(models[settings.answer_judge], rules.asked_with(settings.answer_prompt))
            if settings.answer_judge
            else None,
            settings.open_tags,
        ),
        ConsistencyJudge(models[thoughts], rules.asked_with(settings.consistency_prompt)) if thoughts else None,
        tuple(models.values()),
        asks=bool(judge_model),
        book=StoredPixels(store),
        preset_of=lambda task: settings.load_with(task.tags, {own.name: own.value for own in task.reward}),
    )
