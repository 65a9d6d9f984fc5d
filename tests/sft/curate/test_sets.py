"""Filters that compare trajectories with each other, with other runs, or with test sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps
from pydantic import ValidationError
from tests.sft.curate.cases import Runs, blobs, ran, said

from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import write_lines
from saccade.record.score import Score
from saccade.record.trajectory import StopReason, Trajectory
from saccade.sft.curate.filters.mixture import Mixture, quotas
from saccade.sft.curate.fingerprint import fingerprint
from saccade.sft.curate.wording import normal_text


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
    with pytest.raises(SettingsError, match="no run folder"):
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
    for number, (more, counts) in enumerate(
        [({"size": 6}, [4, 2]), ({"caps": {"b": 1}}, [3, 1]), ({"seed": 1}, [9, 4])]
    ):
        runs.out = runs.root / f"out-{number}"
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


def test_mixture_refuses_what_cannot_be_meant() -> None:
    for wrong in ({"weights": {"a": 0}}, {"weights": {}}, {"weights": {"a": 1}, "caps": {"b": 1}}):
        with pytest.raises(ValidationError):
            Mixture.model_validate(wrong)


@given(
    st.dictionaries(
        st.sampled_from("abcde"),
        st.tuples(st.floats(0.01, 10), st.integers(0, 60)),
        min_size=1,
    ),
    st.none() | st.integers(1, 100),
)
def test_quotas_are_the_largest_that_fit(there: dict[str, tuple[float, int]], size: int | None) -> None:
    weights = {name: weight for name, (weight, _) in there.items()}
    room = {name: count for name, (_, count) in there.items()}
    given_ = quotas(weights, room, size)
    total = sum(given_.values())
    assert all(given_[name] <= room[name] for name in room)
    assert size is None or total <= size
    whole = sum(weights.values())
    assert all(abs(given_[name] - total * weights[name] / whole) < 1 + 1e-9 for name in weights)
    # One more would not fit: some share, rounded down at least, has no room, or it is the size itself.
    if total < (size if size is not None else 10**6):
        assert any((total + 1) * weights[name] / whole > room[name] - 1 - 1e-9 for name in weights)


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
    runs.out = runs.root / "other"
    more = runs.curate(table, runs=("more",)).kept
    assert [item.task.split for item in more[:10]] == [item.task.split for item in few]
    assert {item.task.split for item in more} == {"a", "b"}
