"""Test what all worlds promise: reproducible samples, readable answers, knobs within bounds."""

from __future__ import annotations

import ast
import io
import re
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from tests.plugins.worlds.running import pixels_digest, printed_answer

from saccade.errors import RegistryError, SettingsError
from saccade.media.store import MediaStore
from saccade.plugins.worlds import reading
from saccade.plugins.worlds import reading as reading_video
from saccade.plugins.worlds.canvas import GRIDS, SEARCH, Face, ViewBox, font, holds_middle, parts
from saccade.plugins.worlds.program import compose
from saccade.plugins.worlds.reading import find_text, number, read_text, show, text_boxes
from saccade.record.content import VideoPart
from saccade.sandbox.base import Binding, VideoFile
from saccade.sandbox.local import LocalSandbox
from saccade.tasks.worlds import (
    SPLITS,
    WORLDS,
    Clip,
    Knobs,
    Rng,
    World,
    WorldSample,
    draw_sample,
    load_world,
    make_task,
    seed_of,
)


class SizeKnobs(Knobs):
    side: int = 8


def draw(rng: Rng, knobs: SizeKnobs) -> WorldSample:
    level = rng.integer(0, 255)
    picture = Image.new("L", (knobs.side, knobs.side), level)
    program = "print(image_0.getpixel((0, 0)))"
    return WorldSample("How bright?", {"image_0": picture}, str(level), program, tags=("level",))


WORLD = World("plain@3", "A test.", SizeKnobs, draw)


def test_rng_gives_the_same_on_every_machine() -> None:
    rng = Rng(2024)
    drawn = [rng.integer(0, 10**9), rng.integer(-5, 5), rng.choice("abcdef"), rng.sample(range(50), 4), rng.chance(50)]
    assert drawn == [266520260, 5, "d", [12, 30, 26, 17], False]
    assert rng.bytes_array(2, 3).tolist() == [[196, 226, 239], [233, 149, 209]]


def test_rng_reaches_both_ends_and_refuses_the_impossible() -> None:
    rng = Rng(1)
    assert {rng.integer(3, 5) for _ in range(200)} == {3, 4, 5}
    assert sorted(rng.shuffled(range(30))) == list(range(30))
    assert rng.chance(100)
    assert not rng.chance(0)
    values = rng.bytes_array(256 * 200)
    assert np.bincount(values, minlength=256).min() > 100
    with pytest.raises(ValueError, match="no whole number"):
        rng.integer(2, 1)
    with pytest.raises(ValueError, match="cannot take 3"):
        rng.sample("ab", 3)


def test_a_child_stream_leaves_its_parent_alone() -> None:
    first, second = Rng(5), Rng(5)
    first.child().bytes_array(1000)
    second.child()
    assert first.integer(0, 10**12) == second.integer(0, 10**12)


def test_seeds_name_their_split() -> None:
    knobs = SizeKnobs()
    seeds = {split: {seed_of("plain@3", split, index, knobs) for index in range(500)} for split in SPLITS}
    assert all(len(found) == 500 for found in seeds.values())
    assert [{seed & 3 for seed in seeds[split]} for split in SPLITS] == [{0}, {1}, {2}]
    assert seed_of("plain@3", "test", 0, knobs) != seed_of("plain@4", "test", 0, knobs)
    assert seed_of("plain@3", "test", 0, knobs) != seed_of("plain@3", "test", 0, SizeKnobs(side=9))
    # A knob set to its default is no turned knob.
    assert seed_of("plain@3", "test", 0, knobs) == seed_of("plain@3", "test", 0, SizeKnobs(side=8))


def test_a_task_holds_the_sample_and_its_media_lie_in_the_store(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    task = make_task(WORLD, "validation", 4, store, SizeKnobs(side=5))
    sample = draw_sample(WORLD, "validation", 4, SizeKnobs(side=5))
    assert (task.id, task.split, task.source) == ("plain@3/validation/4", "validation", "plain@3")
    assert (task.answer, task.program, task.tags) == (sample.answer, sample.program, ("level",))
    part = task.media[0].part
    assert not isinstance(part, VideoPart)
    assert store.open(part).decode().tobytes() == sample.media["image_0"].tobytes()  # type: ignore[union-attr]


def test_a_clip_becomes_a_video(tmp_path: Path) -> None:
    def film(rng: Rng, knobs: Knobs) -> WorldSample:
        return WorldSample("When?", {"video_clue_0": Clip(b"bytes", 32, 24, 50, 12.5, "video/webm")}, "1", "print(1)")

    store = MediaStore(tmp_path)
    part = make_task(World("film@1", "A test.", Knobs, film), "test", 0, store).media[0].part
    assert isinstance(part, VideoPart)
    assert (part.seconds, part.mime, store.get_bytes(part.sha256)) == (4.0, "video/webm", b"bytes")


@pytest.mark.parametrize("entry", WORLDS.ids())
def test_every_world_loads_under_its_id(entry: str) -> None:
    world = load_world(entry)
    assert world.id == entry
    assert world.description.endswith((".", "?"))
    assert isinstance(world.knobs(), Knobs)


def test_an_unknown_world_is_refused() -> None:
    with pytest.raises(RegistryError, match="visual-search"):
        load_world("visual-serch")


ECHO = load_world("echo")


def test_the_text_is_in_the_question_and_printed() -> None:
    answers = Counter[str]()
    for index in range(60):
        sample = draw_sample(ECHO, "train", index)
        if sample.choices:
            assert sample.choices["ABCDEFG".index(sample.question[-2])] == sample.answer
        elif '"' in sample.question:
            assert f'"{sample.answer}"' in sample.question
        else:
            assert set(sample.answer.split()) < set(re.findall(r"\w+", sample.question))
        assert printed_answer(sample) == sample.answer
        answers[sample.answer] += 1
    assert len(answers) > 50


def test_the_pixels_are_the_same_on_every_machine() -> None:
    assert pixels_digest(draw_sample(ECHO, "test", 0)) == "4eda34b4e078aa7d"


INKS = (((0, 0, 0), (255, 255, 255)), ((40, 40, 60), (250, 230, 235)), ((230, 230, 230), (30, 34, 44)))


def printed(text: str, size: int, face: Face, ink: int = 0) -> np.ndarray:
    colour, paper = INKS[ink]
    picture = Image.new("RGB", (240, 60), paper)
    ImageDraw.Draw(picture).text((11, 13), text, font=font(size, face), fill=colour)
    return np.asarray(picture.convert("L"))


def texts(rng: Rng) -> list[str]:
    return [
        f"${rng.integer(0, 99)}.{rng.integer(10, 99)}",
        f"{rng.integer(0, 99999):,}",
        f"{rng.integer(0, 180)}°",
        f"-{rng.integer(1, 999)}",
        f"{rng.integer(1, 99) / 10:g}",
        "x°",
        "x",
    ]


@pytest.mark.parametrize("size", range(14, 27))
@pytest.mark.few(3)
def test_reads_numbers_exactly(size: int) -> None:
    rng = Rng(size)
    for ink in range(len(INKS)):
        for face in ("sans", "sans-bold"):
            for text in texts(rng):
                assert read_text(printed(text, size, face, ink), (0, 0, 240, 60)) == text


@pytest.mark.parametrize("face", ["sans", "sans-bold"])
def test_finds_a_word_and_not_a_longer_one(face: Face) -> None:
    picture = Image.new("L", (400, 200), 255)
    pen = ImageDraw.Draw(picture)
    pen.text((20, 20), "Mondays", font=font(18, face), fill=0)
    pen.text((200, 120), "Monday", font=font(18, face), fill=0)
    x0, y0, x1, y1 = find_text(np.asarray(picture), "Monday")
    left, top, right, bottom = pen.textbbox((200, 120), "Monday", font=font(18, face))
    assert max(abs(x0 - left), abs(y0 - top), abs(x1 - right), abs(y1 - bottom)) <= 2


def test_a_word_that_is_not_there_is_not_found() -> None:
    with pytest.raises(ValueError, match="not printed"):
        find_text(np.full((60, 200), 255, np.uint8), "Monday")


def test_boxes_of_lines_of_text_leave_large_things_out() -> None:
    picture = Image.new("L", (300, 160), 255)
    pen = ImageDraw.Draw(picture)
    pen.text((20, 20), "two words", font=font(18), fill=0)
    pen.text((200, 100), "47", font=font(18), fill=0)
    pen.rectangle((20, 60, 120, 140), outline=0)
    boxes = text_boxes(np.asarray(picture) < 128, 12)
    assert len(boxes) == 2
    assert boxes[0][1] < 30 < boxes[0][3]
    assert boxes[1][0] < 210 < boxes[1][2]


def test_numbers_and_how_they_are_written() -> None:
    assert [number(text) for text in ("$1,250.50", "45%", "-3", "47°")] == [1250.5, 45, -3, 47]
    assert [show(value) for value in (3.0, 2.5, -0.0, 0.1 + 0.2, 1200)] == ["3", "2.5", "0", "0.3", "1200"]


def test_only_what_is_needed_comes_along() -> None:
    program = compose(reading, reading_video, last="print(show(boundary(0, 10, lambda frame: frame > 6)))")
    out = io.StringIO()
    with redirect_stdout(out):
        exec(program, {"__name__": "__main__"})
    assert out.getvalue() == "7\n"
    assert "cv2" not in program
    assert "blobs_of" not in program


def test_what_a_function_calls_comes_along() -> None:
    program = compose(reading, reading, last="print(bar_marks(rgb))")
    for name in ("bar_marks", "value_scale", "read_text", "typeset", "face_of"):
        assert f"def {name}(" in program
    assert "SIZES = range" in program
    assert "slice_shares" not in program


def test_programs_import_only_what_the_sandbox_has() -> None:
    modules = (reading, reading, reading, reading, reading_video)
    everything = "; ".join(name for module in modules for name in vars(module) if not name.startswith("_"))
    program = compose(*modules, last=everything)
    tree = ast.parse(program)
    names = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    names |= {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names == {
        "__future__", "collections", "cv2", "fractions", "functools", "math", "matplotlib", "numpy", "PIL", "typing",
    }  # fmt: skip
    assert "saccade" not in program


def test_the_same_parts_make_the_same_program() -> None:
    assert compose(reading, last="print(show(1))") == compose(reading, last="print(show(1))\n")


DRAWN = ("chart-bar", "chart-line", "chart-pie", "chart-scatter", "table-arithmetic", "geometry", "video-events",
          "form-page", "pictograph", "region-map", "solid-scene")  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
async def test_programs_find_the_answer_in_the_sandbox() -> None:
    pytest.importorskip("av")
    async with LocalSandbox() as box:
        for name in DRAWN:
            for index in range(4):
                sample = draw_sample(load_world(name), "test", index)
                bindings, files = _bound(sample.media)
                session = await box.open(bindings, files=files)
                result = await session.run(sample.program)
                await session.close()
                assert result.status == "ok", result
                assert result.stdout.strip().splitlines()[-1] == sample.answer


def _bound(media: Mapping[str, Image.Image | Clip]) -> tuple[dict[str, Binding], dict[str, bytes]]:
    bindings: dict[str, Binding] = {}
    files: dict[str, bytes] = {}
    for name, medium in media.items():
        if isinstance(medium, Clip):
            files[name] = medium.data
            bindings[name] = VideoFile(name)
        else:
            bindings[name] = medium
    return bindings, files


@given(st.integers(90, 2000), st.integers(90, 2000), st.data())
def test_what_is_no_larger_than_three_twentieths_is_whole_in_a_part(
    width: int, height: int, data: st.DataObject
) -> None:
    view: ViewBox = (7, 11, 7 + width, 11 + height)
    n = data.draw(st.sampled_from(GRIDS))
    w = data.draw(st.integers(1, 3 * width // 20 - 3))
    h = data.draw(st.integers(1, 3 * height // 20 - 3))
    x, y = data.draw(st.integers(7, 7 + width - w)), data.draw(st.integers(11, 11 + height - h))
    holding = [p for p in parts(view, n) if p[0] <= x and p[1] <= y and x + w <= p[2] and y + h <= p[3]]
    assert holding
    assert all(holds_middle(part, (x, y, x + w, y + h)) for part in holding)


@pytest.mark.parametrize("n", GRIDS)
def test_the_program_shows_the_same_parts(n: int) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (77, 131, 3), dtype=np.uint8)
    names: dict[str, object] = {}
    exec(SEARCH, names)
    shown = list(names["parts"](Image.fromarray(noise), n))  # type: ignore[operator]
    assert len(shown) == n * n
    for picture, (x0, y0, x1, y1) in zip(shown, parts((0, 0, 131, 77), n), strict=True):
        assert (np.asarray(picture) == noise[y0:y1, x0:x1]).all()


def _colours(picture: Image.Image) -> str:
    """Of the sign in a picture without anything else."""
    names = {(255, 0, 0): "red", (0, 0, 255): "blue"}
    found = {names[colour] for _, colour in picture.getcolors(100) or [] if colour in names}  # type: ignore[index]
    return ", ".join(sorted(found)) or "none"


@pytest.mark.parametrize("place", [(3, 3), (200, 100), (380, 180), (210, 8)])
def test_the_program_goes_closer_where_the_asked_sign_is(
    place: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Image.new("RGB", (400, 200))
    scene.paste((0, 0, 255), (100, 60, 108, 68))
    scene.paste((255, 0, 0), (*place, place[0] + 2, place[1] + 2))
    names: dict[str, object] = {}
    exec(SEARCH, names)
    search = names["search"](scene, "red")  # type: ignore[operator]
    view, looks = next(search), 1
    while not capsys.readouterr().out:
        seen = _colours(view)
        view, looks = search.send(seen), looks + 1
    assert "red" in _colours(view)
    assert view.size == (50, 25)
    assert looks <= sum(n * n for n in GRIDS) + 1


def test_the_program_looks_on_after_a_mistake_and_says_when_nothing_is_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scene = Image.new("RGB", (400, 400))
    names: dict[str, object] = {}
    exec(SEARCH, names)
    search = names["search"](scene, "red")  # type: ignore[operator]
    next(search)
    said = ["red, blue", *["none"] * 16, *["blue"] * 34, "red", *["none"] * 16]
    sizes = [search.send(seen).size for seen in said]
    assert sizes == [*[(50, 50)] * 16, *[(116, 116)] * 35, *[(50, 50)] * 16, (400, 400)]
    assert capsys.readouterr().out == "not found\n"


@pytest.mark.parametrize(("split", "index"), [("dev", 0), ("test", -1)])
def test_no_such_sample(split: str, index: int) -> None:
    with pytest.raises(SettingsError, match="train, validation, test"):
        draw_sample(WORLD, split, index)  # type: ignore[arg-type]
