"""What must be known of a family of checkpoints: the tokens around messages and pictures, and what is never sampled.

A family knows no vocabulary and holds no state. All known ones write ChatML; they differ in tool messages and pictures.
No weights and no torch here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from saccade.models.families.pieces import Piece, SpecialToken
from saccade.record.content import Role

END_OF_TURN = SpecialToken("<|im_end|>")
_START = SpecialToken("<|im_start|>")


@dataclass(frozen=True, kw_only=True)
class ModelFamily(ABC):
    """One family, by the `model_type` of its configuration."""

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
    """Servers write marks of their own around its pictures, so no engine at a server can be given ids for them."""

    def head(self, role: Role) -> tuple[Piece, ...]:
        """What stands before the content of a message: every role by its own name."""
        return (_START, f"{role}\n")

    def tail(self, role: Role) -> tuple[Piece, ...]:
        """What stands behind it, up to the next message."""
        return (END_OF_TURN, "\n")

    @abstractmethod
    def picture(self, tokens: int) -> tuple[Piece, ...]:
        """The placeholders of a picture of `tokens` features, with the marks around them."""

    @abstractmethod
    def visual_tokens(self, width: int, height: int, image_processor: Any, config: Any) -> int:
        """Features of a picture of that size in pixels. Raises ValueError for a shape that the family refuses."""

    @abstractmethod
    def prepared(self, image: Image.Image, image_processor: Any) -> Image.Image:
        """A smaller picture of which the processor makes the same tensors, to the bit; cheap to keep."""

    @abstractmethod
    def features(self, made: Mapping[str, Any], config: Any) -> tuple[int, ...]:
        """Features of each picture, as the image processor's output `made` tells."""
