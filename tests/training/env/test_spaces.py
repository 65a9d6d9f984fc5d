"""The spaces: what is in them, samples, JSON and batches."""

import json
import pickle

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_differing_spaces, batch_space, concatenate, create_empty_array, iterate
from hypothesis import given
from hypothesis import strategies as st

from saccade.training.env import PicturesSpace, TextSpace


@given(text=st.text())
def test_every_text_is_in_and_comes_back_from_json(text: str) -> None:
    space = TextSpace()
    assert text in space
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable([text])))) == [text]


def test_what_is_no_text_is_not_in() -> None:
    for thing in (None, 1, b"a", ["a"], np.array("a")):
        assert thing not in TextSpace()
    assert "\ud800" in TextSpace()


def test_samples_are_seeded_and_hold_phrases_and_code() -> None:
    space = TextSpace(["print(1)", "<answer>4</answer>"], seed=5)
    drawn = [space.sample() for _ in range(200)]
    assert drawn == [
        sample for again in [TextSpace(space.phrases, seed=5)] for sample in (again.sample() for _ in drawn)
    ]
    assert set(space.phrases) < set(drawn)
    assert "" in {TextSpace(seed=seed).sample() for seed in range(200)}
    assert any("```python" in text for text in (TextSpace(seed=seed).sample() for seed in range(200)))
    assert all(text in space for text in drawn)


def test_masks_are_refused() -> None:
    for space in (TextSpace(), PicturesSpace()):
        with pytest.raises(ValueError, match="masked"):
            space.sample(mask=np.ones(3))  # type: ignore[arg-type]


def picture(height: int, width: int) -> np.ndarray:
    return np.zeros((height, width, 3), np.uint8)


def test_pictures_of_any_size_are_in() -> None:
    space = PicturesSpace(pixels=12)
    assert () in space
    assert (picture(3, 4), picture(1, 12)) in space
    for wrong in (
        [picture(3, 4)],
        (picture(3, 5),),
        (picture(0, 5),),
        (picture(3, 4).astype(np.int16),),
        (picture(3, 4)[:, :, :2],),
        (picture(3, 4)[:, :, 0],),
        ("a",),
    ):
        assert wrong not in space
    assert (picture(300, 400),) in PicturesSpace()
    with pytest.raises(ValueError, match="at least 1"):
        PicturesSpace(0)


@given(seed=st.integers(0, 2**31), pixels=st.none() | st.integers(1, 2000))
def test_sampled_pictures_are_in_and_come_back_from_json(seed: int, pixels: int | None) -> None:
    space = PicturesSpace(pixels, seed=seed)
    drawn = space.sample()
    assert drawn in space
    (back,) = space.from_jsonable(json.loads(json.dumps(space.to_jsonable([drawn]))))
    assert back in space
    assert len(back) == len(drawn)
    assert all(np.array_equal(one, other) for one, other in zip(back, drawn, strict=True))


def test_equality_repr_and_pickling() -> None:
    assert TextSpace() == TextSpace(["a"]) != PicturesSpace()
    assert PicturesSpace(5) == PicturesSpace(5) != PicturesSpace()
    assert len({TextSpace(), TextSpace(["a"]), PicturesSpace(5), PicturesSpace(5), PicturesSpace()}) == 3
    assert repr(TextSpace()) == "TextSpace()"
    assert repr(PicturesSpace(5)) == "PicturesSpace(pixels=5)"
    assert not TextSpace().is_np_flattenable
    assert not PicturesSpace().is_np_flattenable
    for space in (TextSpace(["a"], seed=3), PicturesSpace(9, seed=3)):
        copy = pickle.loads(pickle.dumps(space))
        assert copy == space
        assert repr(copy.sample()) == repr(space.sample())


@pytest.mark.parametrize("space", [TextSpace(["a", "b", "c"], seed=1), PicturesSpace(99, seed=1)])
def test_batches_are_tuples(space: spaces.Space) -> None:
    batch = batch_space(space, 3)
    assert batch == spaces.Tuple([space] * 3)
    drawn = batch.sample()
    assert drawn in batch
    assert list(iterate(batch, drawn)) == list(drawn)
    assert concatenate(space, drawn, create_empty_array(space, 3)) == drawn
    assert create_empty_array(space, 3) in batch
    assert batch_differing_spaces([space, space]) == spaces.Tuple([space] * 2)
    samples = [repr(one) for one in batch_space(TextSpace([str(n) for n in range(999)], seed=1), 3).sample()]
    assert len(set(samples)) == 3


def test_a_dict_of_both_batches() -> None:
    space = spaces.Dict(text=TextSpace(), pictures=PicturesSpace())
    batch = batch_space(space, 2)
    items = [space.sample() for _ in range(2)]
    together = concatenate(space, items, create_empty_array(space, 2))
    assert together in batch
    assert [one["text"] for one in iterate(batch, together)] == [item["text"] for item in items]
