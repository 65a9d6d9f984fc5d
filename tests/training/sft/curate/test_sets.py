"""Filters that compare trajectories with each other, with other runs, or with test sets."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps
from pydantic import ValidationError
from tests.tasks.sources.files import jsonl
from tests.training.sft.curate.cases import Runs, blobs, ran, said

from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines, write_lines
from saccade.record.content import Message, VideoPart
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Score, StopReason, Trajectory
from saccade.training.sft.curate.filters.mixture import Mixture, quotas
from saccade.training.sft.curate.filters.overlap import Fingerprint, HeldOut, NearIndex, fingerprint
from saccade.training.sft.curate.pipeline import BatchStage, Drop, FilterContext, normal_text, parse_pipeline
from saccade.training.sft.curate.run import SourceRuns, curate


def weak(runs: Runs, **right: tuple[int, int]) -> dict[str, Any]:
    """A run of a weak model: trajectory id -> right ones of how many rollouts of its task."""
    rollouts = [
        runs.trajectory(f"{id_}{n}", task={"id": f"task-{id_}"}, correct=float(n < good))
        for id_, (good, count) in right.items()
        for n in range(count)
    ]
    return {"rollouts": str(runs.write(*rollouts, run="weak"))}


def test_pass_rate_leaves_out_above_nine_tenths_of_eight(runs: Runs) -> None:
    settings = weak(runs, easy=(8, 8), seven=(7, 8), never=(0, 8), few=(1, 4))
    runs.write(*(runs.trajectory(id_) for id_ in ("easy", "seven", "never", "few", "unknown")))
    result = runs.curate({"name": "pass-rate", **settings})
    assert result.ids == ["seven", "never"]
    assert result.reasons["easy"] == "pass rate above 0.9"
    assert result.undecided == ["few", "unknown"]


def test_pass_rate_counts_no_outage_and_nothing_unscored(runs: Runs) -> None:
    lost = runs.trajectory("lost", task={"id": "task-a"}, stop=StopReason.MODEL_LOST)
    unscored = runs.trajectory("unscored", task={"id": "task-a"}, scores=(Score(name="correct"),))
    rollout = runs.trajectory("right", task={"id": "task-a"}, correct=1.0)
    runs.write(lost, unscored, rollout, run="weak")
    runs.write(runs.trajectory("a"))
    table = {"name": "pass-rate", "rollouts": str(runs.root / "weak")}
    result = runs.curate({**table, "at_least": 2})
    assert (result.undecided, result.lines[0].detail) == (["a"], "1")


def test_pass_rate_of_no_run(runs: Runs) -> None:
    runs.write(runs.trajectory("a"))
    with pytest.raises(SettingsError, match=r"nothing is no run folder: it is not there"):
        runs.curate({"name": "pass-rate", "rollouts": str(runs.root / "nothing")})


def test_strata_want_easy_ones_direct_and_hard_ones_with_tools(runs: Runs) -> None:
    settings = weak(runs, e1=(7, 8), e2=(7, 8), h1=(1, 8), h2=(1, 8), m=(4, 8))
    runs.write(
        runs.trajectory("e1"),
        runs.trajectory("e2", ran(), said("5")),
        runs.trajectory("h1", ran(), said("5"), task={"tags": ("stratum:easy", "chart")}),
        runs.trajectory("h2"),
        runs.trajectory("m"),
    )
    result = runs.curate({"name": "strata", **settings})
    assert {item.id: item.task.tags for item in result.kept} == {
        "e1": ("stratum:easy",),
        "h1": ("chart", "stratum:hard"),
        "m": ("stratum:medium",),
    }
    assert result.kept[1].task.difficulty == pytest.approx(7 / 8)
    assert set(result.reasons.values()) == {"easy task answered with calls", "hard task answered without a call"}


def test_strata_of_tasks_that_nobody_played(runs: Runs) -> None:
    weak_run = weak(runs, easy=(8, 8), medium=(4, 8), hard=(0, 8))
    folder = runs.root / "tasks"
    folder.mkdir()
    names = ("easy", "medium", "hard")
    write_lines(folder / "tasks.jsonl", [Task(id=f"task-{n}", question=f"How many {n}?", answer="5") for n in names])

    def left(**settings: str) -> dict[str, str]:
        pipeline = parse_pipeline({"filter": [{"name": "strata", **weak_run, **settings}]})
        out = runs.root / "-".join(["out", *settings])
        curate([folder], pipeline, out, cache=runs.root / "cache")
        return {task.id: " ".join(task.tags) for task in read_lines(out / "tasks.jsonl", Task)}

    assert left() == {f"task-{name}": f"stratum:{name}" for name in names}
    assert left(hard="leave_out", medium="leave_out") == {"task-easy": "stratum:easy"}
    assert left(easy="leave_out") == {f"task-{name}": f"stratum:{name}" for name in names[1:]}


def put(runs: Runs, image: Image.Image, id_: str, **fields: Any) -> Trajectory:
    return runs.trajectory(id_, picture=runs.put(image), **fields)


def test_near_pictures_with_the_same_words_are_duplicates(runs: Runs) -> None:
    picture = blobs(1, (160, 120))
    same = {"question": "What is  IT?"}
    brighter = picture.point(lambda level: min(255, level + 3))
    runs.write(
        put(runs, picture, "first", task={"question": "<image>what is it"}),
        put(runs, picture.resize((400, 300)), "larger", task=same),
        put(runs, brighter, "brighter", task=same),
        put(runs, ImageOps.mirror(picture), "mirrored", task=same),
        put(runs, blobs(2, (160, 120)), "other picture", task=same),
        put(runs, picture, "other words", task={"question": "Where is it?"}),
    )
    result = runs.curate({"name": "duplicates"})
    assert result.ids == ["first", "mirrored", "other picture", "other words"]
    assert {line.detail for line in result.lines} == {"like first"}


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"match": "pictures"}, ["a", "c"]),
        ({"match": "question"}, ["a", "b"]),
        ({"match": "both", "keep": 2}, ["a", "b", "c", "a2"]),
    ],
)
def test_what_makes_a_duplicate(runs: Runs, settings: dict[str, Any], kept: list[str]) -> None:
    one, other = blobs(1), blobs(2)
    first, second = {"question": "Which?"}, {"question": "How many?"}
    runs.write(
        put(runs, one, "a", task=first),
        put(runs, one, "b", task=second),
        put(runs, other, "c", task=first),
        put(runs, one, "a2", task=first),
        put(runs, one, "a3", task=first),
    )
    assert runs.curate({"name": "duplicates", **settings}).ids == kept


def test_plain_pictures_of_other_colours_are_no_duplicates(runs: Runs) -> None:
    runs.write(*(put(runs, Image.new("RGB", (60, 60), name), name, task={"question": "q"}) for name in ("red", "blue")))
    assert runs.curate({"name": "duplicates"}).ids == ["red", "blue"]


def test_tasks_without_pictures_are_compared_by_words(runs: Runs) -> None:
    runs.write(*(runs.trajectory(str(n), task={"question": "1 + 1" if n else "1 - 1"}) for n in range(3)))
    assert runs.curate({"name": "duplicates", "match": "pictures"}).ids == ["0", "1"]


def test_fingerprint_bears_recompression(tmp_path: Path) -> None:
    picture = blobs(3, (200, 150))
    picture.save(tmp_path / "a.jpg", quality=60)
    assert fingerprint(picture).near(fingerprint(Image.open(tmp_path / "a.jpg").convert("RGB")), 10, 8.0)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Is it 3.5?", "is it  3.5", True),
        ("Is it 3.5?", "Is it 35?", False),
        ("a+b", "a - b", False),
        ("<image>\nWhat?", "what", True),
        ("wie heißt es", "WIE HEISST ES", True),
    ],
)
def test_normal_text(one: str, other: str, same: bool) -> None:
    assert (normal_text(one) == normal_text(other)) is same


def held_out_rows(runs: Runs, images: dict[str, Image.Image], question: str) -> dict[str, Any]:
    folder = runs.root / "bench" / "images"
    folder.mkdir(parents=True)
    for name, image in images.items():
        image.save(folder / name, quality=80)
    rows = [{"id": name, "image": name, "question": question} for name in images]
    file = runs.root / "bench" / "bench.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"name": "bench", "file": str(file), "images": str(folder)}


@pytest.mark.parametrize(
    ("match", "kept"),
    [("pictures", ["words", "clean"]), ("both", ["picture", "words", "clean"]), ("either", ["clean"])],
)
def test_contamination_with_rows_and_images(runs: Runs, match: str, kept: list[str]) -> None:
    held = held_out_rows(runs, {"a.jpg": blobs(1, (300, 200)), "b.jpg": blobs(2)}, "Which one?")
    runs.write(
        put(runs, blobs(1, (300, 200)), "copy", task={"question": "which one"}),
        put(runs, blobs(2), "picture", task={"question": "Where?"}),
        put(runs, blobs(3), "words", task={"question": "Which one?"}),
        put(runs, blobs(4), "clean"),
    )
    result = runs.curate({"name": "contamination", "match": match, "sets": [held]})
    assert result.ids == kept
    assert result.reasons["copy"] == "picture of bench"
    assert result.lines[0].detail == "bench/a.jpg"


def test_contamination_with_a_file_of_tasks(runs: Runs) -> None:
    folder = runs.root / "test"
    part = MediaStore(folder / "media").put_image(blobs(1))
    write_lines(folder / "tasks.jsonl", [runs.trajectory("x", picture=part).task])
    runs.write(put(runs, blobs(1), "copy"), put(runs, blobs(2), "clean"))
    held = {"name": "worlds", "file": str(folder / "tasks.jsonl")}
    assert runs.curate({"name": "contamination", "sets": [held]}).ids == ["clean"]


def test_contamination_with_any_source_of_tasks(runs: Runs) -> None:
    folder = runs.root / "bench"
    folder.mkdir()
    blobs(1).save(folder / "a.png")
    jsonl(folder / "rows.jsonl", [{"image": "a.png", "question": "?", "answer": "x"}])
    runs.write(put(runs, blobs(1), "copy"), put(runs, blobs(2), "clean"))
    table = {"name": "contamination", "sets": [{"name": "bench", "source": str(folder)}]}
    assert runs.curate(table).ids == ["clean"]
    shutil.rmtree(runs.root / "out")
    jsonl(folder / "rows.jsonl", [{"image": "a.png", "question": "?"}, {"image": "gone.png", "question": "?"}])
    with pytest.raises(SettingsError, match=r"test set bench cannot be read: 1 of its rows.*gone\.png"):
        runs.curate(table)
    with pytest.raises(SettingsError, match="either `source` or `file`"):
        runs.curate({"name": "contamination", "sets": [{"name": "bench"}]})


def test_pictures_of_a_test_set_lie_on_the_disk_one_task_at_a_time(
    runs: Runs, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, scratch = runs.root / "bench", tmp_path_factory.mktemp("scratch")
    folder.mkdir()
    for seed in range(3):
        blobs(seed).save(folder / f"{seed}.png")
    jsonl(folder / "rows.jsonl", [{"image": f"{seed}.png", "question": "?", "answer": "x"} for seed in range(3)])
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    held = HeldOut(name="bench", source=str(folder))
    assert [sum(path.is_file() for path in scratch.rglob("*")) for _ in held.items()] == [1, 1, 1]
    assert not list(scratch.iterdir())


def test_a_test_set_that_is_not_whole_protects_nothing(runs: Runs) -> None:
    held = held_out_rows(runs, {"a.jpg": blobs(1)}, "?")
    (runs.root / "bench" / "images" / "a.jpg").unlink()
    runs.write(put(runs, blobs(2), "a"))
    with pytest.raises(SettingsError, match="test set bench cannot be read"):
        runs.curate({"name": "contamination", "sets": [held]})


def test_mixture_meets_its_weights_and_caps(runs: Runs) -> None:
    runs.write(
        *(runs.trajectory(f"a{n}", task={"source": "a"}) for n in range(12)),
        *(runs.trajectory(f"b{n}", task={"source": "b"}) for n in range(4)),
        runs.trajectory("c", task={"source": "c"}),
    )
    table = {"name": "mixture", "weights": {"a": 2, "b": 1}}
    result = runs.curate(table)
    assert [sum(id_[0] == name for id_ in result.ids) for name in "ab"] == [9, 4]
    assert result.ids == [f"{name}{n}" for name in "ab" for n in range(12) if f"{name}{n}" in result.ids]
    assert result.reasons["c"] == "category has no weight"
    for more, counts in [({"size": 6}, [4, 2]), ({"caps": {"b": 1}}, [3, 1]), ({"seed": 1}, [9, 4])]:
        ids = runs.curate({**table, **more}).ids
        assert [sum(id_[0] == name for id_ in ids) for name in "ab"] == counts
    assert ids != result.ids


def test_mixture_by_tag_counts_the_first_with_a_weight(runs: Runs) -> None:
    runs.write(
        runs.trajectory("both", task={"tags": ("y", "x")}),
        runs.trajectory("y", task={"tags": ("y",)}),
        runs.trajectory("none"),
    )
    assert runs.curate({"name": "mixture", "by": "tag", "weights": {"x": 1, "y": 1}}).ids == ["both", "y"]


def test_mixture_of_nothing_is_an_error(runs: Runs) -> None:
    runs.write(runs.trajectory("a", task={"source": "a"}))
    with pytest.raises(SettingsError, match="nothing left"):
        runs.curate({"name": "mixture", "weights": {"a": 1, "b": 1}})
    assert runs.curate({"name": "mixture", "weights": {"a": 1, "b": 0}}).ids == ["a"]


def test_mixture_refuses_what_cannot_be_meant() -> None:
    for wrong in ({"weights": {"a": 0}}, {"weights": {}}, {"weights": {"a": 1}, "caps": {"b": 1}}):
        with pytest.raises(ValidationError):
            Mixture.model_validate(wrong)


@given(
    st.dictionaries(st.sampled_from("abcde"), st.tuples(st.floats(0.01, 10), st.integers(0, 60)), min_size=1),
    st.none() | st.integers(1, 100),
)
def test_quotas_are_the_largest_that_fit(there: dict[str, tuple[float, int]], size: int | None) -> None:
    weights = {name: weight for name, (weight, _) in there.items()}
    room = {name: count for name, (_, count) in there.items()}
    given_ = quotas(weights, room, size)
    total = sum(given_.values())
    assert all(given_[name] <= room[name] for name in room)
    assert size is None or total <= size
    weight_sum = sum(weights.values())
    assert all(abs(given_[name] - total * weights[name] / weight_sum) < 1 + 1e-9 for name in weights)
    # One more would not fit: some share, rounded down at least, has no room, or it is the size itself.
    if total < (size if size is not None else 10**6):
        assert any((total + 1) * weights[name] / weight_sum > room[name] - 1 - 1e-9 for name in weights)


def test_split_keeps_tasks_of_one_picture_together(runs: Runs) -> None:
    pictures = [runs.put(blobs(seed, (16, 12))) for seed in range(30)]
    runs.write(*(runs.trajectory(f"{n}", picture=pictures[n % 30]) for n in range(90)))
    kept = runs.curate({"name": "split", "shares": {"train": 2, "validation": 1}}).kept
    by_picture: dict[str, set[str]] = {}
    for item in kept:
        by_picture.setdefault(item.task.media[0].part.sha256, set()).add(item.task.split)
    assert len(kept) == 90
    assert all(len(splits) == 1 for splits in by_picture.values())
    held = sum("validation" in splits for splits in by_picture.values())
    assert 4 <= held <= 16


def test_split_of_tasks_does_not_move_when_tasks_are_added(runs: Runs) -> None:
    runs.write(*(runs.trajectory(str(n)) for n in range(10)), run="few")
    runs.write(*(runs.trajectory(str(n)) for n in range(20)), run="more")
    table = {"name": "split", "by": "task", "shares": {"a": 1, "b": 1}}
    few = runs.curate(table, runs=("few",)).kept
    more = runs.curate(table, runs=("more",)).kept
    assert [item.task.split for item in more[:10]] == [item.task.split for item in few]
    assert {item.task.split for item in more} == {"a", "b"}


def test_a_fingerprint_is_of_16_by_16_steps_of_brightness_and_8_by_8_colours() -> None:
    rising = Image.linear_gradient("L").rotate(90).convert("RGB")  # black on the left, white on the right
    assert fingerprint(rising).bits == 2**256 - 1
    assert fingerprint(ImageOps.mirror(rising)).bits == 0
    halves = Image.new("RGB", (64, 64), (200, 10, 20))
    halves.paste((0, 0, 250), (32, 0, 64, 64))
    row = bytes((200, 10, 20)) * 4 + bytes((0, 0, 250)) * 4
    assert fingerprint(halves).colours == row * 8
    clear = Image.new("RGBA", (64, 64), (9, 9, 9, 0))
    assert fingerprint(clear).colours == b"\xff" * 192


def test_slight_noise_in_a_plain_area_sets_no_bits() -> None:
    for step, bits in ((2, 0), (3, 2**256 - 1)):  # grey levels from cell to cell
        stairs = Image.new("L", (17, 16))
        stairs.putdata([10 + step * column for _ in range(16) for column in range(17)])
        assert fingerprint(stairs.convert("RGB")).bits == bits


@pytest.mark.parametrize(
    ("changed", "levels", "bits", "colour", "near"),
    [(3, 0, 3, 0.0, True), (4, 0, 3, 0.0, False), (0, 2, 0, 2.0, True), (0, 2, 0, 1.9, False), (1, 1, 1, 1.0, True)],
)
def test_near_is_within_both_bounds(changed: int, levels: int, bits: int, colour: float, near: bool) -> None:
    one = Fingerprint(bits=0, colours=bytes([100]) * 192)
    other = Fingerprint(bits=sum(1 << (40 * n) for n in range(changed)), colours=bytes([100 - levels]) * 192)
    index = NearIndex(bits, colour)
    index.add(Fingerprint(bits=2**256 - 1, colours=one.colours), "far")
    index.add(one, "one")
    assert list(index.near(other)) == (["one"] if near else [])
    assert one.near(other, bits, colour) is near
    assert other.near(one, bits, colour) is near


@given(st.sets(st.integers(0, 255), max_size=12), st.integers(0, 12))
def test_the_index_finds_what_is_near(changed: set[int], bits: int) -> None:
    one = Fingerprint(bits=0, colours=bytes(192))
    index = NearIndex(bits, 0.0)
    index.add(one, "one")
    other = Fingerprint(bits=sum(1 << bit for bit in changed), colours=bytes(192))
    assert list(index.near(other)) == (["one"] if len(changed) <= bits else [])


def test_pass_rates_at_their_bounds_stay(runs: Runs) -> None:
    settings = weak(runs, none=(0, 10), low=(2, 10), high=(9, 10), all=(10, 10))
    runs.write(*(runs.trajectory(id_) for id_ in ("none", "low", "high", "all")))
    result = runs.curate({"name": "pass-rate", "lowest": 0.2, **settings})
    assert result.ids == ["low", "high"]
    assert {line.id: (line.reason, line.detail) for line in result.lines} == {
        "none": ("pass rate below 0.2", "0 of 10"),
        "all": ("pass rate above 0.9", "10 of 10"),
    }
    assert runs.curate({"name": "pass-rate", "right_from": 0.0, **settings}).ids == []


def test_strata_at_their_bounds_and_in_every_style(runs: Runs) -> None:
    settings = weak(runs, e=(6, 8), m1=(5, 8), m2=(2, 8), h=(1, 8))
    runs.write(
        *(runs.trajectory(id_) for id_ in ("e", "m1", "m2", "h")),
        *(runs.trajectory(f"{id_}+", ran(), said("5"), task={"id": f"task-{id_}"}) for id_ in ("e", "m1", "m2", "h")),
    )
    table = {"name": "strata", **settings}
    for more, kept in [
        ({}, ["e", "m1", "m2", "m1+", "m2+", "h+"]),
        ({"easy": "any", "medium": "leave_out", "hard": "direct"}, ["e", "h", "e+"]),
        ({"easy_from": 0.25, "hard_below": 0.25}, ["e", "m1", "m2", "h+"]),
    ]:
        assert runs.curate({**table, **more}).ids == kept
    with pytest.raises(SettingsError, match="hard_below must not be above easy_from"):
        runs.curate({**table, "easy_from": 0.2})


def test_duplicates_of_several_pictures_and_of_videos(runs: Runs) -> None:
    one, other, third = (runs.put(blobs(seed)) for seed in range(3))
    pairs = {"first": (one, other), "same": (other, one), "half": (one, third), "alone": (one,)}
    clips = {"clip": "a" * 64, "clip again": "a" * 64, "another clip": "b" * 64}
    runs.write(
        *(
            runs.trajectory(
                id_,
                task={"question": "q", "media": tuple(NamedMedia(name=f"p{n}", part=p) for n, p in enumerate(parts))},
            )
            for id_, parts in pairs.items()
        ),
        *(
            runs.trajectory(
                id_,
                task={
                    "question": "q",
                    "media": (
                        NamedMedia(
                            name="v", part=VideoPart(sha256=sha, width=4, height=4, seconds=1.0, fps=4.0, frames=8)
                        ),
                    ),
                },
            )
            for id_, sha in clips.items()
        ),
    )
    pipeline = parse_pipeline({"filter": [{"name": "duplicates"}]})
    stage = pipeline.steps[0].settings.start(FilterContext(SourceRuns([runs.root / "run"]), runs.root))
    assert isinstance(stage, BatchStage)
    outcomes = stage.decide(list(SourceRuns([runs.root / "run"]).trajectories()))
    assert [outcome.detail if isinstance(outcome, Drop) else None for outcome in outcomes] == [
        None,
        "like first",
        None,
        None,
        None,
        "like clip",
        None,
    ]


def test_a_picture_of_the_prompt_counts_and_a_question_alone_may(runs: Runs) -> None:
    held = held_out_rows(runs, {"a.jpg": blobs(1, (300, 200))}, "Which one?")
    shown = Message(role="user", parts=(runs.put(blobs(1, (300, 200))),))
    runs.write(runs.trajectory("prompt", prompt=(shown,)), runs.trajectory("words", task={"question": "which ONE"}))
    for match, reasons in [
        ("pictures", {"prompt": "picture of bench"}),
        ("either", {"prompt": "picture of bench", "words": "question of bench"}),
        ("both", {}),
    ]:
        result = runs.curate({"name": "contamination", "match": match, "sets": [held]})
        assert result.reasons == reasons


@pytest.mark.parametrize(
    ("shares", "counts"), [({"a": 1}, (400, 0)), ({"a": 1, "b": 3}, (100, 300)), ({"b": 5, "a": 5}, (200, 200))]
)
def test_splits_have_their_shares(runs: Runs, shares: dict[str, float], counts: tuple[int, int]) -> None:
    runs.write(*(runs.trajectory(str(n)) for n in range(400)))
    splits = [item.task.split for item in runs.curate({"name": "split", "shares": shares}).kept]
    assert [splits.count(name) for name in "ab"] == pytest.approx(counts, abs=40)  # four standard deviations


@pytest.mark.parametrize(
    ("weights", "room", "size", "expected"),
    [
        ({"a": 1, "b": 1}, {"a": 5, "b": 3}, None, {"a": 4, "b": 3}),  # 7: the odd one goes to the first
        ({"b": 1, "a": 1}, {"a": 5, "b": 3}, None, {"b": 3, "a": 3}),
        ({"a": 2, "b": 1}, {"a": 9, "b": 9}, 4, {"a": 3, "b": 1}),
        ({"a": 1, "b": 0}, {"a": 2, "b": 9}, None, {"a": 2, "b": 0}),
        ({"a": 1, "b": 1}, {"a": 0, "b": 0}, None, {"a": 0, "b": 0}),
        ({"a": 3, "b": 1}, {"a": 100, "b": 1}, 100, {"a": 5, "b": 1}),  # 7 would want 5.25 and 1.75
    ],
)
def test_quotas_by_hand(
    weights: dict[str, float], room: dict[str, int], size: int | None, expected: dict[str, int]
) -> None:
    assert quotas(weights, room, size) == expected


def test_test_sets_in_every_layout(runs: Runs) -> None:
    folder = runs.root / "bench"
    folder.mkdir()
    for seed in (1, 2):
        blobs(seed).save(folder / f"{seed}.png")
    rows = [{"key": "k", "q": "Q?", "pics": ["1.png", "2.png"]}, {"pics": "1.png"}]
    (folder / "list.json").write_text(" " + json.dumps(rows), encoding="utf-8")
    (folder / "lines.jsonl").write_text("\n\n".join(map(json.dumps, rows)) + "\n \n", encoding="utf-8")
    for name in ("list.json", "lines.jsonl"):
        held = HeldOut(name="b", file=folder / name, images=folder, question="q", image="pics", id="key")
        assert [(item.name, item.question, len(item.pictures)) for item in held.items()] == [
            ("b/k", "Q?", 2),
            ("b/1", "", 1),
        ]
    held = HeldOut(name="b", file=folder / "lines.jsonl", images=folder)
    with pytest.raises(SettingsError, match="row 1 has no field 'image'"):
        list(held.items())
