"""Filters by rule that look at one episode at a time: scores, pass rates, budgets, endings, errors, calls, form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import FiniteFloat, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from saccade.core.registry import install
from saccade.dialects.base import Dialect, load_dialect, recorded_dialect
from saccade.episode.run_folder import trajectories_of
from saccade.errors import MediaError, RegistryError, SettingsError, UnavailableError
from saccade.media.modes import PixelBudget, policy
from saccade.models.families.base import ONE_BLOCK, STAMPED_STEPS, VideoForm, VideoRules
from saccade.record.codec import read_lines
from saccade.record.content import Action, Code, ImagePart, Message, ParseError, ToolCall, VideoPart
from saccade.record.execution import Status
from saccade.record.trajectory import FinishReason, StopReason, Trajectory, Turn, conversation
from saccade.training.sft.curate.pipeline import (
    KEEP,
    Drop,
    FilterContext,
    FilterOutcome,
    FilterSettings,
    FilterStage,
    Undecided,
    each,
)


class MinimumScore(FilterSettings):
    """Leaves out trajectories whose named score is below a threshold.

    One that was never scored is undecided.
    """

    score: str = "correct"
    at_least: FiniteFloat = 1.0

    def decide(self, trajectory: Trajectory) -> FilterOutcome:
        value = score_of(trajectory, self.score)
        if value is None:
            names = ", ".join(score.name for score in trajectory.scores if score.value is not None) or "none"
            return Undecided(f"no score {self.score}", f"scores: {names}")
        return KEEP if value >= self.at_least else Drop(f"{self.score} below {self.at_least:g}", f"{value:g}")


def score_of(trajectory: Trajectory, name: str) -> float | None:
    """Return the value of a score; None if it was never computed."""
    return next((score.value for score in trajectory.scores if score.name == name), None)


@dataclass(frozen=True, slots=True)
class ModelPassRate:
    """Scored rollouts of a model on one task."""

    right: int
    rollouts: int
    """Those that were scored; rollouts lost to outages are not counted."""

    @property
    def value(self) -> float:
        """Share of rollouts that are right."""
        return self.right / self.rollouts


class Rollouts(FilterSettings):
    """Settings of filters that read another run, in which a model tried the same tasks (by id)."""

    rollouts: Path
    """Run folder of the model's rollouts."""
    score: str = "correct"
    right_from: FiniteFloat = 1.0
    """A rollout is right if its score is at least this."""
    at_least: PositiveInt = 8
    """Scored rollouts that a task needs; with fewer it is undecided."""

    def rates(self) -> dict[str, ModelPassRate]:
        """Return task id -> its rate. Raises `SettingsError` if there is no such run, `RecordError` if it is broken."""
        file = trajectories_of(self.rollouts)
        right: defaultdict[str, int] = defaultdict(int)
        count: defaultdict[str, int] = defaultdict(int)
        for trajectory in read_lines(file, Trajectory):
            value = None if trajectory.lost else score_of(trajectory, self.score)
            if value is not None:
                count[trajectory.task.id] += 1
                right[trajectory.task.id] += value >= self.right_from
        return {task: ModelPassRate(right[task], total) for task, total in count.items()}

    def rate_of(self, trajectory: Trajectory, rates: dict[str, ModelPassRate]) -> ModelPassRate | Undecided:
        """Return the rate of the trajectory's task, or `Undecided` with too few rollouts."""
        rate = rates.get(trajectory.task.id)
        if rate is None:
            return Undecided("no scored rollouts of the task", trajectory.task.id)
        if rate.rollouts < self.at_least:
            return Undecided(f"fewer than {self.at_least} scored rollouts", str(rate.rollouts))
        return rate


class PassRateFilter(Rollouts):
    """Leaves out tasks that a weak model, whose rollouts are in another run, finds too easy or too hard.

    A task's rate must be within both bounds. CodeV leaves out tasks that Qwen2.5-VL-7B answers correctly in more than
    0.9 of 8 samples.
    """

    ABOUT_TASKS = True

    lowest: NonNegativeFloat = 0.0
    highest: NonNegativeFloat = 0.9

    def start(self, around: FilterContext) -> FilterStage:
        """Return a stage for one run over a set. Raises as `rates`."""
        rates = self.rates()

        def decide(trajectory: Trajectory) -> FilterOutcome:
            rate = self.rate_of(trajectory, rates)
            if isinstance(rate, Undecided):
                return rate
            detail = f"{rate.right} of {rate.rollouts}"
            if rate.value > self.highest:
                return Drop(f"pass rate above {self.highest:g}", detail)
            return KEEP if rate.value >= self.lowest else Drop(f"pass rate below {self.lowest:g}", detail)

        return each(decide)


@dataclass(frozen=True, slots=True)
class VideoReading:
    """How the models of a pixel budget read a video that is shown as such."""

    form: VideoForm
    rules: VideoRules

    def tokens(self, part: VideoPart, count: Callable[[str], int]) -> int:
        """Count tokens of its frames, marks and times; `count` counts a text. Raises ValueError as `VideoForm.clip`."""
        pieces = self.form.pieces(self.form.clip(part, self.rules))
        return sum(count(piece) if isinstance(piece, str) else 1 for piece in pieces)


READINGS: Final[Mapping[str, VideoReading]] = {
    "qwen2.5-vl": VideoReading(
        ONE_BLOCK, replace(ONE_BLOCK.rules, shortest_edge=56 * 56, longest_edge=28 * 28 * 16_384)
    ),
    "qwen3-vl": VideoReading(
        STAMPED_STEPS, replace(STAMPED_STEPS.rules, shortest_edge=64 * 64, longest_edge=32 * 32 * 24_576)
    ),
}
"""By the name of a pixel budget that bounds anything, with the limits that the models' files were published with."""


class Budget(FilterSettings):
    """Leaves out trajectories with more tokens, pictures or pixels than a training context takes.

    Counts the whole conversation: prompt, what the model wrote, observations. Pictures, frames of videos among them,
    cost what the named pixel budget gives; a video that is shown as such costs what the models of that budget make of
    it. A video that only the model's code opens costs nothing. Chat templates add a few tokens more.
    """

    tokens: PositiveInt | None = None
    images: NonNegativeInt | None = None
    pixels: PositiveInt | None = None
    """Of all pictures together, at their stored size."""
    characters_per_token: PositiveFloat = 3.5
    """For the estimate that is used without a tokenizer."""
    tokenizer: str | None = None
    """Folder or name of a Hugging Face tokenizer."""
    picture_budget: str = "qwen2.5-vl"
    """Name of a pixel budget, as `saccade.media.modes` has them."""

    def start(self, around: FilterContext) -> FilterStage:
        """Return a stage for one run. Raises `SettingsError` for a tokenizer or a pixel budget that cannot be had."""
        budget = policy(self.picture_budget)
        if budget is None:
            raise SettingsError("the picture budget none has no tokens; name one with a size for a token")
        count = self._counter()

        def decide(trajectory: Trajectory) -> FilterOutcome:
            messages = conversation(trajectory.prompt, trajectory.turns)
            pictures = _pictures(messages)
            if self.images is not None and len(pictures) > self.images:
                return Drop(f"more than {self.images} pictures", str(len(pictures)))
            area = sum(part.width * part.height for part in pictures)
            if self.pixels is not None and area > self.pixels:
                return Drop(f"more than {self.pixels} pixels", str(area))
            return KEEP if self.tokens is None else self._within(messages, budget, count)

        return each(decide)

    def _within(self, messages: tuple[Message, ...], budget: PixelBudget, count: Callable[[str], int]) -> FilterOutcome:
        assert self.tokens is not None
        videos = [part for message in messages for part in message.media if isinstance(part, VideoPart)]
        text = sum(count(message.text) for message in messages)
        try:
            still = sum(budget.tokens(part.width, part.height) for part in _pictures(messages))
            moving = sum(READINGS[self.picture_budget].tokens(part, count) for part in videos)
        except (ValueError, MediaError) as error:
            return Drop("the model's processor refuses a picture or a video", str(error))
        except ImportError as error:
            raise UnavailableError(f"to count videos needs transformers: {install('local')}") from error
        if text + still + moving > self.tokens:
            of_videos = f", {moving} of videos" * bool(videos)
            return Drop(f"more than {self.tokens} tokens", f"{text} of text, {still} of pictures{of_videos}")
        return KEEP

    def _counter(self) -> Callable[[str], int]:
        if self.tokenizer is None:
            return lambda text: round(len(text) / self.characters_per_token)
        tokenizer = _load_tokenizer(self.tokenizer)
        return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def _pictures(messages: tuple[Message, ...]) -> tuple[ImagePart, ...]:
    return tuple(part for message in messages for part in message.media if isinstance(part, ImagePart))


def _load_tokenizer(name: str) -> Any:
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise UnavailableError(
            f"a tokenizer needs transformers: {install('local')}, or leave `tokenizer` out for an estimate"
        ) from error
    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise SettingsError(f"the tokenizer {name} cannot be loaded: {error}") from error


class Ended(FilterSettings):
    """Leaves out trajectories that did not end in one of the ways named, or that took too many turns."""

    stops: tuple[StopReason, ...] = (StopReason.ANSWERED,)
    turns: PositiveInt | None = None
    """Most turns, the answer included."""

    def decide(self, trajectory: Trajectory) -> FilterOutcome:
        if trajectory.stop not in self.stops:
            return Drop(f"ended as {trajectory.stop or 'not yet'}", trajectory.stop_detail)
        if self.turns is not None and len(trajectory.turns) > self.turns:
            return Drop(f"more than {self.turns} turns", str(len(trajectory.turns)))
        return KEEP


class ErrorTurns(FilterSettings):
    """Leaves out trajectories with too many error turns, or with one that was never made good.

    An error turn holds no action, or its execution did not end well.
    """

    at_most: NonNegativeInt | None = None
    """Error turns that a trajectory may have; None for any number."""
    recovered: bool = True
    """Whether a failed call must be followed, at once or later, by one that ended well, and a text without an action
    by one with an action."""

    def decide(self, trajectory: Trajectory) -> FilterOutcome:
        errors = [number for number, turn in enumerate(trajectory.turns) if is_error(turn)]
        if self.at_most is not None and len(errors) > self.at_most:
            return Drop(f"more than {self.at_most} error turns", f"turns {errors}")
        lasting = [number for number in errors if not _recovered(trajectory.turns[number:])]
        if self.recovered and lasting:
            return Drop("an error was never made good", f"turn {lasting[0]}")
        return KEEP


def is_error(turn: Turn) -> bool:
    """Return whether a turn holds no action, or what it ran did not end well."""
    failed = turn.execution is not None and turn.execution.status is not Status.OK
    return failed or isinstance(turn.action, ParseError)


def _recovered(turns: tuple[Turn, ...]) -> bool:
    """Return whether the error of the first of `turns` is made good by a later one."""
    if isinstance(turns[0].action, ParseError):
        return any(not isinstance(turn.action, ParseError) for turn in turns[1:])
    return any(turn.execution is not None and turn.execution.status is Status.OK for turn in turns[1:])


# PyVision-RL leaves out episodes with fewer than two calls.
class ToolTurns(FilterSettings):
    """Leaves out trajectories with too few or too many turns of code or tool calls."""

    at_least: NonNegativeInt = 2
    at_most: NonNegativeInt | None = None
    successful: bool = False
    """Whether only calls that ended well count; data of other projects hold no executions, so none of theirs do."""

    def decide(self, trajectory: Trajectory) -> FilterOutcome:
        count = tool_turns(trajectory, successful=self.successful)
        if count < self.at_least:
            return Drop(f"fewer than {self.at_least} tool turns", str(count))
        if self.at_most is not None and count > self.at_most:
            return Drop(f"more than {self.at_most} tool turns", str(count))
        return KEEP


def tool_turns(trajectory: Trajectory, *, successful: bool = False) -> int:
    """Count turns that ran code or an answered tool call; with `successful`, only those that ended well."""
    count = 0
    for turn in trajectory.turns:
        if not isinstance(turn.action, Code | ToolCall):
            continue
        if successful:
            count += turn.execution is not None and turn.execution.status is Status.OK
        else:
            count += turn.execution is not None or turn.observation is not None
    return count


class WellFormed(FilterSettings):
    """Leaves out trajectories with a turn that their dialect would not read as the recorded action.

    A trajectory whose dialect is not known is undecided.
    """

    dialect: str | None = None
    """Dialect to read all trajectories with; None for each one's own."""
    parse_errors: bool = False
    """Whether a turn that was recorded as a parse error, and is one, may stay."""

    def start(self, around: FilterContext) -> FilterStage:
        """Return a stage for one run over a set. Raises `RegistryError` for a dialect that there is not."""
        if self.dialect is not None:
            load_dialect(self.dialect)
        return super().start(around)

    def decide(self, trajectory: Trajectory) -> FilterOutcome:
        name = self.dialect or trajectory.provenance.dialect
        try:
            dialect = load_dialect(name) if self.dialect else recorded_dialect(name)
        except RegistryError as error:
            return Undecided(f"no dialect {name!r}", str(error))
        for number, turn in enumerate(trajectory.turns):
            read = reads_as(dialect, turn)
            # Why a text holds no action is worded anew from time to time; that it holds none is what counts.
            both_none = isinstance(read, ParseError) and isinstance(turn.action, ParseError)
            if read != turn.action and not both_none:
                return Drop("a turn reads otherwise", f"turn {number}: {read.kind} for {turn.action.kind}")
            if isinstance(read, ParseError) and not self.parse_errors:
                return Drop("a turn holds no action", f"turn {number}: {read.reason}")
        return KEEP


def reads_as(dialect: Dialect, turn: Turn) -> Action:
    """Return the action that `dialect` reads in a turn."""
    spoken = dialect.transcribe(turn.text, turn.calls)
    return dialect.parse(spoken, turn.finish_reason or FinishReason.STOP)
