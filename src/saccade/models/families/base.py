"""What must be known of a family of checkpoints: the tokens around messages and pictures, and what is never sampled.

A family knows no vocabulary and holds no state. No weights and no torch here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from PIL import Image

from saccade.models.families.video import Piece, SpecialToken, VideoClip, VideoForm, VideoRules
from saccade.record.content import Role, VideoPart

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
