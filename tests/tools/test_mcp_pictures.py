"""Pictures in the arguments and results of MCP tools: in which form, by the name and schema of an argument."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from saccade.tools import mcp
from saccade.tools.context import ToolContext
from saccade.tools.mcp import filled, taken, wants_text

RED = Image.new("RGB", (3, 2), "red")
SCENE = ToolContext({"image_0": RED})


def read(encoded: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(encoded)))


@pytest.mark.parametrize(
    ("name", "schema", "form"),
    [
        ("image_base64", {}, "base64"), ("DATA", {}, "base64"), ("bytes", {}, "base64"), ("data_of", {}, "url"),
        ("image", {"contentEncoding": "base64"}, "base64"), ("image", {"contentEncoding": "hex"}, "url"),
        ("image", {}, "url"), ("file", {}, "path"), ("image_Path", {}, "path"), ("paths", {}, "url"),
        ("file", {"contentEncoding": "base64"}, "path"),
    ],
)  # fmt: skip
def test_the_name_of_a_picture_becomes_the_picture(
    name: str, schema: dict[str, str], form: str, tmp_path: Path
) -> None:
    given = filled({name: "image_0", "more": "text", "count": 3}, {"properties": {name: schema}}, SCENE, tmp_path)
    assert (given["more"], given["count"]) == ("text", 3)
    said = given[name]
    if form == "path":
        assert said == str(tmp_path / "image_0.png")
        assert Image.open(said).tobytes() == RED.tobytes()
        without = filled({name: "image_0"}, {}, SCENE, None)[name]  # of another machine
        assert read(without.removeprefix("data:image/png;base64,")).tobytes() == RED.tobytes()
    else:
        assert said.startswith("data:image/png;base64,") is (form == "url")
        picture = read(said.removeprefix("data:image/png;base64,"))
        assert (picture.format, picture.tobytes()) == ("PNG", RED.tobytes())


@pytest.mark.parametrize(
    ("given", "wants"),
    [
        ({"type": "string"}, True),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"type": "integer"}, False),
        ({}, False),
    ],
)
def test_which_tools_may_take_a_picture(given: dict[str, Any], wants: bool) -> None:
    assert wants_text({"properties": {"a": {"type": "integer"}, "b": given}}) is wants
    assert not wants_text({})


def png(image: Image.Image) -> str:
    out = io.BytesIO()
    image.save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


@pytest.mark.parametrize(
    ("mode", "becomes"), [("L", "L"), ("RGB", "RGB"), ("RGBA", "RGBA"), ("P", "RGB"), ("1", "RGB")]
)
def test_a_picture_of_a_server_is_taken_in_a_plain_mode(mode: str, becomes: str) -> None:
    image = taken(png(RED.convert(mode)))
    assert isinstance(image, Image.Image)
    assert (image.mode, image.size) == (becomes, (3, 2))


def test_a_picture_of_no_use_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert taken("AAAA") == "(A picture was left out: it cannot be read, UnidentifiedImageError.)"
    assert taken(png(RED)[:-40]).startswith("(A picture was left out: it cannot be read, ")  # type: ignore[union-attr]
    monkeypatch.setattr(mcp, "MOST_PIXELS", 6)
    assert isinstance(taken(png(RED)), Image.Image)
    monkeypatch.setattr(mcp, "MOST_PIXELS", 5)
    assert taken(png(RED)) == "(A picture of 3 × 2 pixels was left out: it is too large.)"
