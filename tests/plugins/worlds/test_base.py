from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from saccade.errors import RegistryError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.content import VideoPart
from saccade.tasks.worlds.base import (
    SPLITS,
    WORLDS,
    Clip,
    Knobs,
    World,
    WorldSample,
    draw_sample,
    load_world,
    make_task,
    seed_of,
)
from saccade.tasks.worlds.rng import Rng


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


@pytest.mark.parametrize(("split", "index"), [("dev", 0), ("test", -1)])
def test_no_such_sample(split: str, index: int) -> None:
    with pytest.raises(SettingsError, match="train, validation, test"):
        draw_sample(WORLD, split, index)  # type: ignore[arg-type]


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
