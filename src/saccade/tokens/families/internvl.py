"""InternVL3 in its transformers form: ChatML; a picture is cut into tiles and followed by a line break."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PIL import Image

from saccade.record.content import Role
from saccade.tokens.families.base import CHATML_TAIL, chatml_head
from saccade.tokens.pieces import Piece, SpecialToken


@dataclass(frozen=True, slots=True)
class InternVl:
    """The frame; see `base.Frame`."""

    model_type: str = "internvl"
    vision_parts: tuple[str, ...] = ("vision_tower", "multi_modal_projector")
    projector_parts: tuple[str, ...] = ("multi_modal_projector",)

    def head(self, role: Role) -> tuple[Piece, ...]:
        """Every role by its own name."""
        return chatml_head(role)

    def tail(self, role: Role) -> tuple[Piece, ...]:
        """The same for every role."""
        return CHATML_TAIL

    def picture(self, tokens: int) -> tuple[Piece, ...]:
        """The placeholders of all its tiles in one row."""
        return (SpecialToken("<img>"), *(SpecialToken("<IMG_CONTEXT>"),) * tokens, SpecialToken("</img>"), "\n")

    def visual_tokens(self, width: int, height: int, image_processor: Any, config: Any) -> int:
        """Tiles, the thumbnail among them, times the features of a tile."""
        options = {"crop_to_patches": True}
        tiles = int(image_processor.get_number_of_image_patches(height, width, options))
        return tiles * int(config.image_seq_length)

    def prepared(self, image: Image.Image, image_processor: Any) -> Image.Image:
        """As it is: its tiles are cut from the whole picture."""
        return image

    def features(self, made: Mapping[str, Any], config: Any) -> tuple[int, ...]:
        """From the number of tiles of each picture."""
        return tuple(int(tiles) * int(config.image_seq_length) for tiles in made["num_patches"])

    def tensor_names(self) -> tuple[str, ...]:
        """The tiles of all pictures in one tensor."""
        return ("pixel_values",)
