from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.report.cases import Scene, answered, noise

from saccade.episode.regions import MOST, Region, StoredPixels, holds_at, only_place, packed, regions
from saccade.record.execution import Status
from saccade.report.picture_book import PictureBook

BOX = (50, 60, 150, 130)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def found(scene: Scene, *turns: object, dialect: str = "pyvision@1:repo") -> list[Region]:
    return list(regions(scene.episode(*turns, answered(), dialect=dialect), PictureBook(scene.store)))  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [(9, 8), (100, 70), (400, 30), (31, 300)])
def test_the_only_place_is_found(size: tuple[int, int]) -> None:
    large = noise()
    box = (400 - size[0], 300 - size[1], 400, 300)
    assert only_place(packed(large), packed(large.crop(box))) == box


def test_no_place_or_many_are_no_answer() -> None:
    large = packed(noise())
    assert only_place(large, packed(noise((20, 20), seed=9))) is None
    assert only_place(large, packed(noise((500, 20), seed=9))) is None
    assert only_place(large, large) is None, "the whole picture is no part"
    flat = packed(Image.new("RGB", (50, 50)))
    assert only_place(flat, flat[:20, :20]) is None
    twice = np.concatenate([large[:40, :40], large[:40, :40]])
    assert only_place(twice, large[:40, :40]) is None


def test_code_and_pixels_confirm_each_other(scene: Scene) -> None:
    turn = scene.ran(f"image_clue_0.crop({BOX}).show()", scene.picture.crop(BOX))
    assert found(scene, turn) == [Region(0, "photo", BOX, seen=True, said=True)]


def test_code_alone_and_pixels_alone(scene: Scene) -> None:
    zoomed = scene.picture.crop(BOX).resize((400, 280))
    by_code = scene.ran(f"image_clue_0.crop({BOX}).resize((400, 280)).show()", zoomed)
    by_pixels = scene.ran("show(cut(image_clue_0, find()))", scene.picture.crop((1, 2, 81, 92)))
    assert found(scene, by_code, by_pixels) == [
        Region(0, "photo", BOX, seen=False, said=True),
        Region(1, "photo", (1, 2, 81, 92), seen=True, said=False),
    ]


@pytest.mark.parametrize("status", [Status.ERROR, Status.TIMEOUT, Status.LOST])
def test_code_that_failed_looked_at_nothing(scene: Scene, status: Status) -> None:
    assert found(scene, scene.ran(f"image_clue_0.crop({BOX})", status=status, committed=False)) == []


def test_names_are_those_of_the_dialect(scene: Scene) -> None:
    assert found(scene, scene.ran(f"image_clue_0.crop({BOX})"), dialect="codev@1") == []
    assert len(found(scene, scene.ran(f"image.crop({BOX})"), dialect="codev@1")) == 1
    assert len(found(scene, scene.ran(f"Image.open(image_path).crop({BOX})"), dialect="codev@1")) == 1
    assert found(scene, scene.ran(f"image.crop({BOX})"), dialect="unknown@9") == []


@pytest.mark.parametrize(
    ("name", "arguments", "box"),
    [
        ("crop", {"box": list(BOX)}, BOX),
        ("image_zoom_in_tool", {"bbox_2d": list(BOX), "label": "x"}, BOX),
        ("zoom_in", {"bbox": list(BOX), "target_image": 1}, BOX),
        ("crop", {"box": [0.125, 0.2, 0.5, 0.5], "units": "normalized", "image": "image_0"}, (50, 60, 200, 150)),
        ("crop", {"box": list(BOX), "image": "image_7"}, None),
        ("crop", {"box": list(BOX), "image": 7}, None),
        ("crop", {"box": [1, 2, "x", 4]}, None),
        ("crop", {"box": "all"}, None),
        ("crop", {"box": {"a": 1}, "image": ["b"]}, None),
        ("ocr", {"image": 1}, None),
    ],
)
def test_calls_of_tools(scene: Scene, name: str, arguments: dict[str, object], box: tuple[float, ...] | None) -> None:
    places = [region.box for region in found(scene, scene.called(name, arguments), dialect="native@1")]
    assert places == ([] if box is None else [box])


def test_a_picture_that_came_back_can_be_cropped_again(scene: Scene) -> None:
    first = scene.called("crop", {"box": list(BOX)}, scene.picture.crop(BOX))
    second = scene.called("crop", {"box": [10, 10, 30, 40], "image": "image_1"})
    assert [region.box for region in found(scene, first, second, dialect="native@1")] == [BOX, (60, 70, 80, 100)]


def test_a_turn_that_looks_everywhere_is_cut(scene: Scene) -> None:
    turn = scene.ran("for x in range(60):\n    image_clue_0.crop((x, 0, x + 20, 20))")
    assert len(found(scene, turn, scene.ran(f"image_clue_0.crop({BOX})"))) == MOST + 1 == 41


def test_without_media_the_code_still_tells(scene: Scene) -> None:
    episode = scene.episode(scene.ran(f"image_clue_0.crop({BOX}).show()", scene.picture.crop(BOX)), answered())
    assert list(regions(episode, PictureBook(None))) == [Region(0, "photo", BOX, seen=False, said=True)]


@pytest.mark.parametrize(("size", "located"), [((8, 8), True), ((7, 9), False), ((64, 1), True), ((63, 1), False)])
def test_below_64_pixels_a_place_is_chance(size: tuple[int, int], located: bool) -> None:
    large = noise()
    box = (5, 6, 5 + size[0], 6 + size[1])
    assert only_place(packed(large), packed(large.crop(box))) == (box if located else None)


def test_a_picture_as_wide_or_as_high_as_the_large_one_has_a_place() -> None:
    large = packed(noise())  # 300 rows of 400
    assert only_place(large, large[:299]) == (0, 0, 400, 299)
    assert only_place(large, large[:, 1:]) == (1, 0, 400, 300)
    assert only_place(large[:50], large[:51]) is None


def test_one_pixel_decides_where_a_plain_picture_lies() -> None:
    plain = np.zeros((200, 200), np.uint32)
    plain[120, 70] = 5
    assert only_place(plain, plain[100:150, 50:110].copy()) == (50, 100, 110, 150)
    assert only_place(plain, plain[:50, :60].copy()) is None  # one colour alone
    plain[20, 20] = 5
    assert only_place(plain, plain[100:150, 50:110].copy()) is None or holds_at(plain, plain[100:150, 50:110], 50, 100)


def test_transparency_is_no_difference() -> None:
    large = noise()
    clear = large.crop(BOX).convert("RGBA")
    clear.putalpha(7)
    assert only_place(packed(large), packed(clear)) == BOX


def test_code_that_failed_and_kept_its_state_is_distrusted(scene: Scene) -> None:
    broken = scene.ran("image_clue_0 = image_clue_0.rotate(90)\n1 / 0", status=Status.ERROR, committed=True)
    assert found(scene, broken, scene.ran(f"image_clue_0.crop({BOX})")) == []
    undone = scene.ran("image_clue_0 = image_clue_0.rotate(90)\n1 / 0", status=Status.ERROR, committed=False)
    assert len(found(scene, undone, scene.ran(f"image_clue_0.crop({BOX})"))) == 1


def test_a_picture_that_came_back_is_known_to_later_code(scene: Scene) -> None:
    shown = scene.called("crop", {"box": list(BOX)}, scene.picture.crop(BOX))
    again = scene.called("crop", {"box": [10, 10, 30, 40], "image": 2})
    beyond = scene.called("crop", {"box": [10, 10, 30, 40], "image": 3})
    zeroth = scene.called("crop", {"box": [10, 10, 30, 40], "image": 0})
    truth = scene.called("crop", {"box": [10, 10, 30, 40], "image": True})
    regions_ = found(scene, shown, again, beyond, zeroth, truth, dialect="native@1")
    assert [(region.turn, region.box) for region in regions_] == [(0, BOX), (1, (60, 70, 80, 100))]
    assert regions_[0].seen
    assert regions_[0].picture
    assert not regions_[1].seen


def test_normalized_boxes_by_the_name_of_the_tool(scene: Scene) -> None:
    called = scene.called("crop_image_normalized", {"bbox_2d": [0.125, 0.2, 0.5, 0.5]})
    assert [region.box for region in found(scene, called, dialect="native@1")] == [(50, 60, 200, 150)]
    assert found(scene, scene.called("crop", {"box": [-9, -9, 0, 0]}), dialect="native@1") == []


def test_pixels_that_are_not_there_or_no_picture(scene: Scene) -> None:
    book = StoredPixels(scene.store)
    known = scene.store.put_image(scene.picture)
    assert book.pixels(known) is not None
    assert book.pixels(known.model_copy(update={"sha256": "a" * 64})) is None
    scene.store.path(known.sha256).write_bytes(b"no picture")
    assert book.pixels(known) is None
