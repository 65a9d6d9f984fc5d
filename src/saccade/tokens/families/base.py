"""What a family's frame says: the tokens around messages and pictures, and how many a picture takes.

A frame knows no vocabulary and holds no state. The three families write ChatML; they differ in what is written before
the first message, in tool messages and in pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from PIL import Image

from saccade.record.content import Role
from saccade.tokens.pieces import Piece, SpecialToken

END_OF_TURN = SpecialToken("<|im_end|>")
_START = SpecialToken("<|im_start|>")


class Frame(Protocol):
    """One family, by the `model_type` of its configuration."""

    @property
    def model_type(self) -> str:
        """Key of `models.local_families.FAMILIES`."""

    @property
    def vision_parts(self) -> tuple[str, ...]:
        """Names of the vision tower inside a model, as its parameters' names have them."""

    @property
    def projector_parts(self) -> tuple[str, ...]:
        """Names of what maps its features to the language model; parts of the tower in some families."""

    def head(self, role: Role) -> tuple[Piece, ...]:
        """What stands before the content of a message."""

    def tail(self, role: Role) -> tuple[Piece, ...]:
        """What stands behind it, up to the next message."""

    def picture(self, tokens: int) -> tuple[Piece, ...]:
        """The placeholders of a picture of `tokens` features, with the marks around them."""

    def visual_tokens(self, width: int, height: int, image_processor: Any, config: Any) -> int:
        """Features of a picture of that size in pixels. Raises ValueError for a shape that the family refuses."""

    def prepared(self, image: Image.Image, image_processor: Any) -> Image.Image:
        """A smaller picture of which the processor makes the same tensors, to the bit; cheap to keep."""

    def features(self, made: Mapping[str, Any], config: Any) -> tuple[int, ...]:
        """Features of each picture, as the image processor's output `made` tells."""

    def tensor_names(self) -> tuple[str, ...]:
        """Which tensors of the image processor the model's forward pass takes."""


def chatml_head(role: str) -> tuple[Piece, ...]:
    """`<|im_start|>role` and a line break."""
    return (_START, f"{role}\n")


CHATML_TAIL: tuple[Piece, ...] = (END_OF_TURN, "\n")


def merged_patches(width: int, height: int, image_processor: Any) -> int:
    """Features of a picture for the processor of the Qwen-VL families, which merges squares of patches."""
    patches = int(image_processor.get_number_of_image_patches(height, width))
    return patches // int(image_processor.merge_size) ** 2


def merged_grids(made: Mapping[str, Any], config: Any) -> tuple[int, ...]:
    """The same from the grids that it gave."""
    merged = config.vision_config.spatial_merge_size**2
    return tuple(int(patches) // merged for patches in made["image_grid_thw"].prod(-1))


def resized(image: Image.Image, image_processor: Any) -> Image.Image:
    """The picture as the processor of the Qwen-VL families resizes it, before it cuts patches."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    height, width = smart_resize(
        image.height,
        image.width,
        factor=image_processor.patch_size * image_processor.merge_size,
        min_pixels=image_processor.size["shortest_edge"],
        max_pixels=image_processor.size["longest_edge"],
    )
    return image.resize((width, height), resample=image_processor.resample)
