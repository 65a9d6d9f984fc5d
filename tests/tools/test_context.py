"""Images by name and number, decoded once and late."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from saccade.errors import ToolError
from saccade.tools.context import CallProblem, Numbering, ProblemKind, ToolContext


def test_an_image_is_decoded_when_asked_for_and_once() -> None:
    made = []

    def load() -> Image.Image:
        made.append(1)
        return Image.new("L", (5, 4), 9)

    context = ToolContext({"a": load})
    assert made == []
    bigger = context.extended({"b": Image.new("RGB", (1, 1))})
    assert bigger.image("a").image.getpixel((0, 0)) == (9, 9, 9)
    assert context.image("a").size == (5, 4)
    assert made == [1]
    assert context.images == ("a",)


def test_transparency_lies_on_white() -> None:
    clear = Image.new("RGBA", (2, 2), (255, 0, 0, 0))
    assert ToolContext({"a": clear}).image(None).image.getpixel((0, 0)) == (255, 255, 255)


def test_images_by_name_number_and_default() -> None:
    context = ToolContext({name: Image.new("RGB", (1, 1)) for name in ("first", "second")})
    assert context.image(None).name == "first"
    assert context.image(2).name == "second"
    assert context.image("second").name == "second"


@pytest.mark.parametrize("wanted", ["frist", "x" * 1000, 0, 3, -1, pytest.param(10**5000, id="huge")])
def test_an_unknown_image_is_a_problem_with_a_hint(wanted: str | int) -> None:
    context = ToolContext({name: Image.new("RGB", (1, 1)) for name in ("first", "second")})
    with pytest.raises(CallProblem) as caught:
        context.image(wanted)
    assert caught.value.problem.kind is ProblemKind.UNKNOWN_IMAGE
    assert "first" in str(caught.value) or "from 1 to 2" in str(caught.value)
    assert len(str(caught.value)) < 200


def test_of_many_images_a_dozen_are_named() -> None:
    many = ToolContext({f"image_{number}": Image.new("RGB", (1, 1)) for number in range(17)})
    with pytest.raises(CallProblem, match=r"Known: image_0, .*, image_11, \.\.\.$"):
        many.image("zzzzzz")


def test_no_images_and_videos() -> None:
    with pytest.raises(CallProblem, match="has no image"):
        ToolContext({}).image(None)
    context = ToolContext({}, {"clip": Path("clip.mp4")})
    assert context.video(None) == ("clip", Path("clip.mp4"))
    assert context.videos == ("clip",)


def test_fresh_names_avoid_videos_and_each_other() -> None:
    context = ToolContext({"crop_1": Image.new("RGB", (1, 1))}, {"crop_3": Path("v")})
    assert context.fresh_names(["crop", "crop", "frame"]) == ("crop_2", "crop_4", "frame_1")


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        (0, "number 0:"),
        (2, "number 2:"),
        (-1, "number -1:"),
        (10**9 - 1, "number 999999999:"),
        (10**9, "number of that size:"),
        (-(10**5000), "number of that size:"),
        ("n" * 60, f"named {'n' * 60!r}"),
        ("n" * 61, f"named {'n' * 60 + '...'!r}"),
    ],
    ids=["zero", "two", "negative", "long", "too-long", "huge", "name", "long-name"],  # `huge` cannot be written
)
def test_what_was_wanted_is_said_shortly(wanted: str | int, shown: str) -> None:
    with pytest.raises(CallProblem, match=f"There is no image {re.escape(shown)}"):
        ToolContext({"a": Image.new("RGB", (2, 2))}).image(wanted)


def test_numbered_names_go_on_where_they_ended() -> None:
    context = ToolContext({}, numbering=Numbering("image_", 3))
    names = context.fresh_names(["crop", "crop"])
    assert names == ("image_3", "image_4")
    longer = context.extended({name: Image.new("RGB", (2, 2)) for name in names})
    assert (longer.images, longer.fresh_names(["x"])) == (names, ("image_5",))
    with pytest.raises(ToolError, match="already has image_4"):
        longer.extended({"image_4": Image.new("RGB", (2, 2))})


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L", "RGB"])
def test_what_is_transparent_lies_on_white(mode: str) -> None:
    """In each way in which a picture can say so: an alpha channel, or a colour that is none."""
    image = Image.new("LA" if mode == "LA" else "RGBA" if mode == "RGBA" else mode, (2, 1))
    if mode in ("RGBA", "LA"):
        image.putpixel((1, 0), (9, 9, 9, 255) if mode == "RGBA" else (9, 255))
    else:
        if mode == "P":
            image.putpalette([0, 0, 0, 9, 9, 9])
        image.putpixel((1, 0), {"P": 1, "L": 9, "RGB": (9, 9, 9)}[mode])
        image.info["transparency"] = {"P": 0, "L": 0, "RGB": (0, 0, 0)}[mode]
    shown = ToolContext({"a": image}).image(None).image
    white = 0 if mode == "RGB" else 255  # a picture that is RGB already stays as it is
    assert [shown.getpixel((x, 0)) for x in (0, 1)] == [(white,) * 3, (9, 9, 9)]
    image.info.pop("transparency", None)
    if mode in ("P", "L"):
        assert ToolContext({"a": image}).image(None).image.getpixel((0, 0)) == (0, 0, 0)
