"""What must be known of a family of checkpoints: the tokens around messages and pictures, and what is never sampled.

A family knows no vocabulary and holds no state. No weights and no torch here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
from PIL import Image

from saccade.record.content import ImagePart, Role, VideoPart

# What a message is made of before it is ids: plain texts, tokens of the frame, pictures.
#
# Only a family's frame makes a `SpecialToken`; whatever comes from a record is text, and text never becomes one.


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """One token of the frame, by its name in the vocabulary."""

    token: str


@dataclass(frozen=True, slots=True)
class PicturePlaceholder:
    """The place of a picture, or of a video."""

    part: ImagePart | VideoPart


Piece = str | SpecialToken | PicturePlaceholder


def joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the pieces with neighbouring texts as one: a chat template's tokens do not stop at the seam either."""
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        if text:
            yield text
            text = ""
        yield piece
    if text:
        yield text


def written(pieces: Iterable[Piece]) -> str:
    """Return the text of `pieces` without pictures, special tokens by their names."""
    return "".join(piece.token if isinstance(piece, SpecialToken) else str(piece) for piece in pieces)


_OWN_FRAME = 768 * 28**2
"""Pixels of a frame, at most, where nobody chose frames, in the reference implementation of Qwen2.5-VL."""


@dataclass(frozen=True, kw_only=True)
class VideoRules:
    """What the video processor of a checkpoint does to frames; the names are those of its files."""

    patch_size: int
    """Pixels along the side of a patch."""
    merge_size: int = 2
    """Patches along the side of a feature."""
    temporal_patch_size: int = 2
    """Frames that are merged into one step in time."""
    shortest_edge: int
    """Least pixels, of a frame or of all frames together: that is the form's."""
    longest_edge: int
    """Most pixels, of the same."""
    image_mean: tuple[float, ...]
    """Of each channel, of values from 0 to 1."""
    image_std: tuple[float, ...]
    rescale_factor: float = 1 / 255
    fps: float = 2.0
    """Frames of each second, where nobody chose frames."""
    min_frames: int = 4
    max_frames: int = 768
    cap_pixels_per_frame: bool = False
    """Many frames share the pixels of `max_video_tokens`."""
    max_video_tokens: int
    stored: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """The file of the video processor, where the checkpoint has one; a trained checkpoint gets it too."""

    @property
    def factor(self) -> int:
        """Pixels along the side of a feature."""
        return self.patch_size * self.merge_size


@dataclass(frozen=True, slots=True)
class VideoClip:
    """A video as a model sees it."""

    frames: tuple[int, ...]
    """Numbers of its frames, the last one repeated where the last step would not be full."""
    grid: tuple[int, int, int]
    """Steps in time, rows and columns of patches."""
    step_tokens: int
    """Features of a step."""
    seconds: tuple[float, ...]
    """When each step is on the screen, on average over its frames."""
    interval: float
    """Seconds from a step to the next."""
    rules: VideoRules

    @property
    def tokens(self) -> int:
        return self.grid[0] * self.step_tokens

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return the size (width, height) to which every frame is brought, whatever it was."""
        return self.grid[2] * self.rules.patch_size, self.grid[1] * self.rules.patch_size


@dataclass(frozen=True, kw_only=True)
class VideoForm(ABC):
    """The convention of some families."""

    placeholder: str = "<|video_pad|>"
    """The token of which a prompt has one for each feature."""
    written: str = "<|vision_start|><|video_pad|><|vision_end|>"
    """What chat templates write in place of a video."""
    rules: VideoRules
    """What holds where the files of a checkpoint say nothing."""

    def clip(self, part: VideoPart, rules: VideoRules) -> VideoClip:
        """Return what the model sees of `part`. Raises ValueError for a video that the processor refuses."""
        sample = part.sample
        frames = self.chosen(part, rules) if sample is None else sample.indices
        width, height = self.frame_size(part, len(frames), None if sample is None else sample.pixels, rules)
        span = rules.temporal_patch_size
        filled = (*frames, *frames[-1:] * (-len(frames) % span))
        rows, columns = height // rules.patch_size, width // rules.patch_size
        steps = [filled[at : at + span] for at in range(0, len(filled), span)]
        return VideoClip(
            frames=filled,
            grid=(len(steps), rows, columns),
            step_tokens=rows * columns // rules.merge_size**2,
            # The first and the last frame of a step, as the processors reckon it.
            seconds=tuple((step[0] / part.fps + step[-1] / part.fps) / 2 for step in steps),
            interval=span / (len(frames) / part.frames * part.fps),
            rules=rules,
        )

    @abstractmethod
    def chosen(self, part: VideoPart, rules: VideoRules) -> tuple[int, ...]:
        """Return numbers of the frames that are shown where nobody chose any."""

    @abstractmethod
    def frame_size(self, part: VideoPart, count: int, pixels: int | None, rules: VideoRules) -> tuple[int, int]:
        """Return the size (width, height) of each of `count` frames, of at most `pixels` each. Raises ValueError."""

    @abstractmethod
    def pieces(self, clip: VideoClip) -> tuple[Piece, ...]:
        """Return the placeholders of a clip with the marks and texts around them."""

    def _step(self, tokens: int) -> tuple[Piece, ...]:
        return (
            SpecialToken("<|vision_start|>"),
            *(SpecialToken(self.placeholder),) * tokens,
            SpecialToken("<|vision_end|>"),
        )


@dataclass(frozen=True, kw_only=True)
class OneBlock(VideoForm):
    """Qwen2.5-VL: all placeholders in a row; time is in their positions. Bounds of pixels are those of a frame."""

    def chosen(self, part: VideoPart, rules: VideoRules) -> tuple[int, ...]:
        """Choose as the reference implementation: an even number of frames, from the first to the last."""
        most = min(rules.max_frames, part.frames)
        count = min(max(part.frames / part.fps * rules.fps, rules.min_frames), most)
        span = rules.temporal_patch_size
        return _evenly(part.frames, max(span, int(count) // span * span) if part.frames >= span else part.frames)

    def frame_size(self, part: VideoPart, count: int, pixels: int | None, rules: VideoRules) -> tuple[int, int]:
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        most = min(rules.longest_edge, _OWN_FRAME if pixels is None else pixels)
        if rules.cap_pixels_per_frame:
            total = int(rules.max_video_tokens * rules.factor**2 * 0.9)
            share = total * rules.temporal_patch_size // count
            most = max(min(most, share), int(rules.shortest_edge * 1.05))
        height, width = smart_resize(part.height, part.width, rules.factor, rules.shortest_edge, most)
        return width, height

    def pieces(self, clip: VideoClip) -> tuple[Piece, ...]:
        return self._step(clip.tokens)


@dataclass(frozen=True, kw_only=True)
class StampedSteps(VideoForm):
    """Qwen3-VL and Qwen3.5: each step stands between marks of its own, behind its time. Bounds are those of all."""

    def chosen(self, part: VideoPart, rules: VideoRules) -> tuple[int, ...]:
        """Choose as the families' processor: at its rate, from the first frame to the last."""
        count = int(part.frames / part.fps * rules.fps)
        return _evenly(part.frames, min(max(count, rules.min_frames), rules.max_frames, part.frames))

    def frame_size(self, part: VideoPart, count: int, pixels: int | None, rules: VideoRules) -> tuple[int, int]:
        from transformers.models.glm46v.image_processing_pil_glm46v import smart_resize  # the same rule

        if count < rules.temporal_patch_size:
            raise ValueError(f"it would be shown by {count} frame, and {rules.temporal_patch_size} are merged into one")
        most = rules.longest_edge
        if rules.cap_pixels_per_frame:
            share = min(rules.max_video_tokens * rules.factor**2, most // count)
            most = max(share, int(rules.shortest_edge * 1.05)) * count
        height, width = smart_resize(
            count,
            part.height,
            part.width,
            temporal_factor=rules.temporal_patch_size,
            factor=rules.factor,
            min_pixels=rules.shortest_edge,
            max_pixels=most if pixels is None else min(most, pixels * count),
        )
        return width, height

    def pieces(self, clip: VideoClip) -> tuple[Piece, ...]:
        step = self._step(clip.step_tokens)
        return tuple(piece for second in clip.seconds for piece in (f"<{second:.1f} seconds>", *step))


def _evenly(frames: int, count: int) -> tuple[int, ...]:
    numbers: Sequence[float] = np.linspace(0, frames - 1, count).round().tolist()
    return tuple(int(number) for number in numbers)


_CLIP_MEAN, _CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
ONE_BLOCK = OneBlock(
    rules=VideoRules(
        patch_size=14,
        shortest_edge=128 * 28**2,
        longest_edge=768 * 28**2,
        image_mean=_CLIP_MEAN,
        image_std=_CLIP_STD,
        max_video_tokens=128_000,
    )
)
STAMPED_STEPS = StampedSteps(
    rules=VideoRules(
        patch_size=16,
        shortest_edge=128 * 32**2,
        longest_edge=768 * 32**2,
        image_mean=(0.5, 0.5, 0.5),
        image_std=(0.5, 0.5, 0.5),
        max_video_tokens=768,
    )
)

CHATML_END: Final = "<|im_end|>"
CHATML_START: Final = "<|im_start|>"

AttentionKind = Literal["full", "recurrent", "sliding"]
"""Of the layers of a language model: all `full`, some `recurrent`, or some that `sliding` windows bound."""


@dataclass(frozen=True, kw_only=True)
class ModelFamily(ABC):
    """One family, by the `model_type` of its configuration. Messages are written in ChatML unless it says otherwise."""

    model_type: str
    placeholder: str
    """The token of which a prompt has one for each feature of a picture."""
    reserved: tuple[str, ...]
    """Tokens that only a prompt may hold: a sampled one would claim a picture, or begin a turn, that is not there."""
    vision_parts: tuple[str, ...]
    """Names of the vision tower inside a model, as its parameters' names have them."""
    projector_parts: tuple[str, ...]
    """Names of what maps its features to the language model; parts of the tower in some families."""
    tensor_names: tuple[str, ...]
    """Which tensors of the image processor the model's forward pass takes."""
    rope_axes: int = 1
    """3 where positions count time, height and width (M-RoPE), else 1."""
    picture_options: Mapping[str, object] = field(default_factory=dict)
    """Options of its image processor that the family's own processor always sets."""
    own_marks: bool = False
    """Its processor writes the token on each side of a picture's placeholders too, and so does a server: what either is
    given has the placeholder only."""
    start: tuple[str, ...] = ()
    """Tokens in front of every conversation."""
    ends: tuple[str, ...] = (CHATML_END,)
    """Tokens that end a turn; the first of them where the frame has no other after a turn."""
    openings: tuple[str, ...] = ("",)
    """What a chat template may write between the head of the assistant's message and what the model writes."""
    marks: tuple[str, ...] = (CHATML_START, CHATML_END)
    """Tokens that openings and a template's own system message may hold."""
    picture_edges: tuple[str, ...] = ("",)
    """Texts that a chat template may write on both sides of a picture."""
    trims: Literal["nothing", "messages", "texts"] = "nothing"
    """Where its chat template takes blanks from both ends: of the messages that are shown, or each text in them."""
    framed: bool = False
    """Its published chat templates say earlier answers otherwise than they were written (without their thoughts), so
    prompts are made of this frame, and what was written stays as it was."""
    attention: AttentionKind = "full"
    type_ids: bool = False
    """The forward pass is told which tokens are pictures, since those of one picture see each other."""

    video: VideoForm | None = None
    """How it reads a video natively; None where it does not here."""
    no_video: str = ""
    """Why not, as a sentence."""

    def clip(self, part: VideoPart, rules: VideoRules | None) -> VideoClip:
        """Return a video as the model sees it; `rules` are those of the checkpoint. Raises `ValueError` if the family
        reads no video here, or its processor refuses this one.
        """
        if self.video is None:
            raise ValueError(f"{self.model_type} reads no videos in this process: {self.no_video}")
        return self.video.clip(part, rules or self.video.rules)

    def head(self, role: Role) -> tuple[Piece, ...]:
        """Return what stands before the content of a message: every role by its own name."""
        return (SpecialToken(CHATML_START), f"{role}\n")

    def tail(self, role: Role, *, media: bool = False) -> tuple[Piece, ...]:
        """Return what stands behind it, up to the next message; `media`: the message has some."""
        return (SpecialToken(CHATML_END), "\n")

    def answer(self, text: str, opening: str) -> str:
        """Return what is learned of a turn of which the text alone is known, as the family's template says it."""
        return text

    def shown(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Return the content of a message that is shown to the model, without the blanks that the template takes."""
        if self.trims == "texts":
            return [piece.strip() if isinstance(piece, str) else piece for piece in pieces]
        found = list(pieces)
        if self.trims == "messages":
            _strip(found, 0, str.lstrip)
            _strip(found, -1, str.rstrip)
        return found

    @abstractmethod
    def picture(self, tokens: int) -> tuple[Piece, ...]:
        """Return the placeholders of a picture of `tokens` features, with the marks around them."""

    @abstractmethod
    def visual_tokens(self, width: int, height: int, image_processor: Any, config: Any) -> int:
        """Count features of a picture of that size in pixels. Raises ValueError for a shape that the family refuses."""

    @abstractmethod
    def prepared(self, image: Image.Image, image_processor: Any) -> Image.Image:
        """Return a smaller picture of which the processor makes the same tensors, to the bit; cheap to keep."""

    @abstractmethod
    def features(self, made: Mapping[str, Any], config: Any) -> tuple[int, ...]:
        """Return features of each picture, as the image processor's output `made` tells."""


def _strip(pieces: list[Piece], at: int, strip: Any) -> None:
    """Take blanks from one end; texts of nothing else go with them."""
    while pieces and isinstance(piece := pieces[at], str):
        pieces[at] = strip(piece)
        if pieces[at]:
            return
        del pieces[at]
