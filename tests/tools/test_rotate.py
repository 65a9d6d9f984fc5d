"""Rotation: which way, and what becomes of the canvas."""

from __future__ import annotations

import pytest
from PIL import Image

from saccade.tools.context import ProblemKind, ToolContext
from saccade.tools.crop import Rotate


def test_quarter_turns_lose_no_pixel(context: ToolContext, picture: Image.Image) -> None:
    result = Rotate().call({"angle": 90}, context)
    assert result.value == {"image": "scene", "angle": 90.0, "size": [60, 100]}
    assert result.pictures[0].image.tobytes() == picture.transpose(Image.Transpose.ROTATE_90).tobytes()
    clockwise = Rotate().call({"angle": 90, "direction": "clockwise"}, context)
    assert clockwise.pictures[0].image.tobytes() == picture.transpose(Image.Transpose.ROTATE_270).tobytes()


def test_without_expand_the_size_stays_and_corners_are_filled(context: ToolContext) -> None:
    result = Rotate().call({"angle": 45, "expand": False, "fill": [1, 2, 3]}, context)
    assert result.pictures[0].image.size == (100, 60)
    assert result.pictures[0].image.getpixel((0, 0)) == (1, 2, 3)
    assert Rotate().call({"angle": 45}, context).pictures[0].image.width > 100


def test_the_published_tool_keeps_the_canvas(context: ToolContext) -> None:
    assert Rotate().call({"angle": 90}, context, alias="image_rotate_tool").pictures[0].image.size == (100, 60)


@pytest.mark.parametrize("angle", [361, -1e9, "90", None, float("inf")])
def test_wrong_angles(context: ToolContext, angle: object) -> None:
    result = Rotate().call({"angle": angle}, context)
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.ARGUMENT_FORMAT
