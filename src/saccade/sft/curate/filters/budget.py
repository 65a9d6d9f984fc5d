"""Trajectories that are too long for a training context: tokens, pictures, pixels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from saccade.errors import MediaError, SettingsError, UnavailableError
from saccade.media.budget import PixelBudget, policy
from saccade.models.families.video import ONE_BLOCK, STAMPED_STEPS, VideoForm, VideoRules
from saccade.record.content import ImagePart, Message, VideoPart
from saccade.record.conversation import conversation
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.stage import KEEP, Drop, FilterContext, FilterOutcome, FilterSettings, FilterStage, each


@dataclass(frozen=True, slots=True)
class VideoReading:
    """How the models of a pixel budget read a video that is shown as such."""

    form: VideoForm
    rules: VideoRules

    def tokens(self, part: VideoPart, count: Callable[[str], int]) -> int:
        """Placeholders of its frames, marks and times; `count` counts a text. Raises ValueError as `VideoForm.clip`."""
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
    """Name of a pixel budget, as `saccade.media.budget` has them."""

    def start(self, around: FilterContext) -> FilterStage:
        """A stage for one run. Raises `SettingsError` for a tokenizer or a pixel budget that cannot be had."""
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
            raise UnavailableError("to count videos needs transformers: pip install 'saccade[local]'") from error
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
            "a tokenizer needs transformers: pip install 'saccade[local]', or leave `tokenizer` out for an estimate"
        ) from error
    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise SettingsError(f"the tokenizer {name} cannot be loaded: {error}") from error
