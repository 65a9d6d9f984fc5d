"""InternVL3 in its transformers form: a picture is cut into tiles and followed by a line break."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PIL import Image

from saccade.models.families.base import ModelFamily
from saccade.models.families.pieces import Piece, SpecialToken
from saccade.models.families.qwen_vl import RESERVED


@dataclass(frozen=True, kw_only=True)
class InternVl(ModelFamily):
    """A family whose features are counted by tiles."""

    def picture(self, tokens: int) -> tuple[Piece, ...]:
        """The placeholders of all its tiles in one row."""
        return (SpecialToken("<img>"), *(SpecialToken(self.placeholder),) * tokens, SpecialToken("</img>"), "\n")

    def visual_tokens(self, width: int, height: int, image_processor: Any, config: Any) -> int:
        """Tiles, the thumbnail among them, times the features of a tile."""
        tiles = int(image_processor.get_number_of_image_patches(height, width, dict(self.picture_options)))
        return tiles * int(config.image_seq_length)

    def prepared(self, image: Image.Image, image_processor: Any) -> Image.Image:
        """As it is: its tiles are cut from the whole picture."""
        return image

    def features(self, made: Mapping[str, Any], config: Any) -> tuple[int, ...]:
        """From the number of tiles of each picture."""
        return tuple(int(tiles) * int(config.image_seq_length) for tiles in made["num_patches"])


INTERNVL = InternVl(
    model_type="internvl",
    placeholder="<IMG_CONTEXT>",
    reserved=(*RESERVED, "<img>", "</img>", "<IMG_CONTEXT>", "<video>"),
    vision_parts=("vision_tower", "multi_modal_projector"),
    projector_parts=("multi_modal_projector",),
    tensor_names=("pixel_values",),
    picture_options={"crop_to_patches": True},
    own_marks=True,
    no_video="It reads a video as pictures in a row and merges none of them, so frames as pictures cost the same.",
)
