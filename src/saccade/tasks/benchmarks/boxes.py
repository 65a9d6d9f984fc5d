"""Boxes of a row as evidence: where in the first picture the answer can be seen.

Boxes are clipped to the picture, because annotators draw over its edges; one outside it is a fault of its row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from saccade.record.content import ImagePart
from saccade.record.task import EvidenceBox, NamedMedia
from saccade.tasks.benchmarks.card import Fields
from saccade.tasks.benchmarks.problem import FieldError, short
from saccade.tasks.benchmarks.values import as_list, as_text, first_value, list_in_text, missing

_LARGEST = 2**53
"""Beyond it a whole number is no coordinate, and may be too large for a float."""


def evidence(row: Mapping[str, Any], fields: Fields, media: Sequence[NamedMedia]) -> tuple[EvidenceBox, ...]:
    """The boxes that a row names; none if its card or the row has none.

    Raises:
        FieldError: a box is no box, or lies outside the picture.
    """
    value = first_value(row, fields.boxes)
    if value is None:
        return ()
    picture = next((item for item in media if isinstance(item.part, ImagePart)), None)
    if picture is None or not isinstance(picture.part, ImagePart):
        raise FieldError("boxes", "there are boxes and no picture")
    boxes = _listed(value, row, fields)
    labels = as_list(first_value(row, fields.box_labels) or "")
    if len(labels) != len(boxes):
        labels = [""] * len(boxes)
    size = (picture.part.width, picture.part.height)
    return tuple(
        EvidenceBox(
            image=picture.name, xyxy=_clipped(box, fields.boxes_are == "xywh", size), label=as_text(label, "boxes")
        )
        for box, label in zip(boxes, labels, strict=True)
    )


def _listed(value: object, row: Mapping[str, Any], fields: Fields) -> list[Any]:
    """The boxes of any form that `Fields.boxes` names."""
    if isinstance(value, str):
        listed = list_in_text(value)
        value = value if listed is None else listed
    if isinstance(value, Mapping) and "bbox" not in value:
        held = {str(key): box for key, box in value.items() if not missing(box)}
        value = _of_table(held, first_value(row, fields.box_keys) or ()) if fields.box_keys else list(held.values())
    if missing(value):
        return []
    boxes = as_list(value)
    if not isinstance(boxes[0], list | tuple | Mapping):
        boxes = [boxes]
    return [box.get("bbox") if isinstance(box, Mapping) else box for box in boxes]


def _of_table(table: Mapping[str, Any], keys: object) -> list[Any]:
    wanted = [as_text(key, "box_keys") for key in as_list(keys)]
    lost = [key for key in wanted if key not in table]
    if lost:
        raise FieldError("boxes", f"there is no box {', '.join(lost)} in {short(table)}")
    return [table[key] for key in wanted]


def _clipped(box: object, by_size: bool, size: tuple[int, int]) -> tuple[float, float, float, float]:
    numbers = [float(side) for side in box if _is_number(side)] if isinstance(box, list | tuple) else []
    if len(numbers) != 4:
        raise FieldError("boxes", f"{short(box)} is no box of four numbers")
    x0, y0, x1, y1 = numbers
    if by_size:
        x1, y1 = x0 + x1, y0 + y1
    x0, x1 = (min(max(x, 0.0), float(size[0])) for x in (x0, x1))
    y0, y1 = (min(max(y, 0.0), float(size[1])) for y in (y0, y1))
    if not (x0 < x1 and y0 < y1):
        raise FieldError("boxes", f"{short(box)} holds nothing of a picture of {size[0]}x{size[1]} pixels")
    return x0, y0, x1, y1


def _is_number(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < _LARGEST
    return isinstance(value, float) and isfinite(value)
