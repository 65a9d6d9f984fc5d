"""Trajectories that are too long for a training context: tokens, pictures, pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from saccade.errors import SettingsError, UnavailableError
from saccade.media.budget import policy
from saccade.record.content import ImagePart, Message
from saccade.record.conversation import conversation
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.stage import KEEP, Drop, FilterContext, FilterOutcome, FilterSettings, FilterStage, each


class Budget(FilterSettings):
    """Leaves out trajectories with more tokens, pictures or pixels than a training context takes.

    Counts the whole conversation: prompt, what the model wrote, observations. Pictures cost what the named pixel
    budget gives; videos count as no tokens, since their frames are chosen later. Chat templates add a few tokens more.
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
        pixels = policy(self.picture_budget)
        if pixels is None:
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
            if self.tokens is not None:
                text = sum(count(message.text) for message in messages)
                visual = sum(pixels.tokens(part.width, part.height) for part in pictures)
                if text + visual > self.tokens:
                    return Drop(f"more than {self.tokens} tokens", f"{text} of text, {visual} of pictures")
            return KEEP

        return each(decide)

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
