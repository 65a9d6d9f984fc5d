"""A trajectory as tokens: segments of three kinds, each with its ids and the pictures whose placeholders are in it.

What enters a loss is a property of the kind: what was sampled does, what was shown does not. A segment is kept or
dropped as a whole, so placeholders and pictures cannot disagree. Plain data: no tokenizer and no torch here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from saccade.errors import ModelRefusedError, TrainingError
from saccade.models.families.base import VideoClip
from saccade.record.content import ImagePart, VideoPart


class SegmentKind(StrEnum):
    """Author of a segment."""

    PROMPT = "prompt"
    """All that was read before the first turn; always the first segment, never dropped."""
    SAMPLED = "sampled"
    """Text of the model in one turn, with its end-of-turn token where it wrote one."""
    OBSERVATION = "observation"
    """Text and pictures shown between two turns, with every header and mark around it."""


@dataclass(frozen=True, slots=True)
class PromptPicture:
    """A picture or a video, and the number of its placeholders, which is that of its features."""

    part: ImagePart | VideoPart
    tokens: int
    clip: VideoClip | None = None
    """Of a video: what is seen of it."""


def image_parts(pictures: Sequence[PromptPicture], reader: str) -> list[ImagePart]:
    """Return the pictures, for a `reader` that cannot be given the frames of a video. Raises `ModelRefusedError` if one
    of `pictures` is a video.
    """
    parts = [picture.part for picture in pictures if isinstance(picture.part, ImagePart)]
    if len(parts) < len(pictures):
        raise ModelRefusedError(
            f"{reader} cannot be given the frames of a video, and would choose others than training sees. Sample in "
            "this process (leave out --engine), or take a dialect that shows frames as pictures."
        )
    return parts


@dataclass(frozen=True, slots=True)
class TokenSegment:
    """A stretch of tokens of one kind."""

    kind: SegmentKind
    ids: tuple[int, ...]
    pictures: tuple[PromptPicture, ...] = ()
    """In the order of their placeholders."""
    turn: int | None = None
    """Of a sampled segment: the number of its turn in the trajectory."""
    logprobs: tuple[float, ...] | None = None
    """Of a sampled segment, where the record has them: natural log-probability of each id."""

    def __post_init__(self) -> None:
        """Raises ValueError for a segment that contradicts itself."""
        if self.logprobs is not None and len(self.logprobs) != len(self.ids):
            raise ValueError(f"{len(self.logprobs)} log-probabilities for {len(self.ids)} ids; one each is needed")
        if (self.kind is SegmentKind.SAMPLED) != (self.turn is not None):
            raise ValueError("a sampled segment, and no other, belongs to a turn")
        if self.kind is SegmentKind.SAMPLED and self.pictures:
            raise ValueError("a model does not write pictures: a sampled segment holds none")

    @property
    def visual(self) -> int:
        return sum(picture.tokens for picture in self.pictures)


@dataclass(frozen=True, slots=True)
class TokenTrajectory:
    """The segments of one trajectory, in order. Every array has one entry for each token."""

    id: str
    segments: tuple[TokenSegment, ...]

    def __post_init__(self) -> None:
        """Raises ValueError unless there is one prompt, at the beginning."""
        kinds = [segment.kind for segment in self.segments]
        if kinds[:1] != [SegmentKind.PROMPT] or SegmentKind.PROMPT in kinds[1:]:
            raise ValueError(f"a trajectory begins with its one prompt; {self.id} has {[kind.value for kind in kinds]}")

    def __len__(self) -> int:
        return sum(len(segment.ids) for segment in self.segments)

    @property
    def pictures(self) -> tuple[PromptPicture, ...]:
        """Every picture that is shown, in the order of the placeholders; one shown twice comes twice."""
        return tuple(picture for segment in self.segments for picture in segment.pictures)

    def ids(self) -> NDArray[np.int64]:
        return np.fromiter((token for segment in self.segments for token in segment.ids), np.int64, len(self))

    def turns(self) -> NDArray[np.int64]:
        """Return the turn in which each token was sampled, -1 where it was not, (tokens,)."""
        numbers = [-1 if segment.turn is None else segment.turn for segment in self.segments]
        return np.repeat(np.array(numbers, np.int64), [len(segment.ids) for segment in self.segments])

    def loss_mask(self) -> NDArray[np.bool_]:
        """Return whether each token was sampled, (tokens,)."""
        mask: NDArray[np.bool_] = self.turns() >= 0
        return mask

    def logprobs(self) -> NDArray[np.float32]:
        """Return the log-probability of each token where it was sampled and recorded, else NaN, (tokens,)."""
        values = [segment.logprobs or (float("nan"),) * len(segment.ids) for segment in self.segments]
        return np.fromiter((value for part in values for value in part), np.float32, len(self))


def truncate(trajectory: TokenTrajectory, most: int) -> TokenTrajectory:
    """Return the longest beginning of `trajectory` with at most `most` tokens that ends in a sampled segment. Raises
    `TrainingError` if not even the prompt and the first turn fit.
    """
    ends = accumulate(len(segment.ids) for segment in trajectory.segments)
    kept = [
        index + 1
        for index, (segment, end) in enumerate(zip(trajectory.segments, ends, strict=True))
        if segment.kind is SegmentKind.SAMPLED and end <= most
    ]
    if not kept:
        first = sum(len(segment.ids) for segment in trajectory.segments[:2])
        raise TrainingError(
            f"the prompt and first turn of {trajectory.id} take {first} tokens, over the limit of {most}. "
            "Raise the limit, show smaller pictures, or leave the trajectory out."
        )
    return TokenTrajectory(trajectory.id, trajectory.segments[: kept[-1]])
