"""What Gymnasium itself asks of an environment: its checker, its registry, its wrappers, its vector environments."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_differing_spaces, batch_space, concatenate, create_empty_array, iterate
from gymnasium.wrappers import RecordEpisodeStatistics
from hypothesis import given
from hypothesis import strategies as st
from tests.training.env.support import ANSWER, CODE, environment, result, tasks, tasks_for, tools_for

from saccade.dialects.base import load_dialect
from saccade.media.store import MediaStore
from saccade.record.trajectory import EpisodeLimits
from saccade.sandbox.scripted import ScriptedSandbox
from saccade.training.env import LookAgainEnv, PicturesSpace, TextSpace, register_envs
from saccade.training.env.spaces import DIALECT_OF

ROOT = Path(__file__).resolve().parents[3]
scripted = partial(ScriptedSandbox, result)


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "media")


@pytest.mark.parametrize("name", DIALECT_OF)
def test_the_checker_finds_nothing(store: MediaStore, name: str) -> None:
    dialect = DIALECT_OF[name]
    env = gymnasium.make(
        name,
        tasks=tasks_for(dialect, store),
        store=store,
        sandbox=scripted,
        tools=tools_for(dialect),
        render_mode="ansi",
    )
    assert env.unwrapped.dialect.id.startswith(dialect)  # type: ignore[attr-defined]
    check_env(env.unwrapped)
    env.close()
    env.close()


def test_the_same_actions_give_the_same_steps(store: MediaStore) -> None:
    def play(env: LookAgainEnv) -> list[Any]:
        env.action_space.seed(5)
        steps: list[Any] = [env.reset(seed=5)]
        while len(steps) < 40:
            step = env.step(env.action_space.sample())
            step[-1].pop("trajectory", None)
            steps.append(step)
            if step[2] or step[3]:
                steps.append(env.reset())
        return steps

    with environment(store) as one, environment(store) as other:
        assert data_equivalence(play(one), play(other), exact=True)


def test_the_checker_finds_nothing_with_real_processes(store: MediaStore) -> None:
    env = gymnasium.make("saccade/CodeV-v0", tasks=tasks(store), store=store)
    check_env(env.unwrapped, skip_close_check=True)
    env.close()


def test_one_string_registers_and_makes() -> None:
    code = (
        "import gymnasium, sys; env = gymnasium.make('saccade.training.env:saccade/CodeDance-v0', "
        "tasks='nested-squares');"
        "seen, info = env.reset(seed=3); env.close();"
        "assert len(seen['pictures']) == 1; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=ROOT, timeout=60)


def test_registering_again_changes_nothing(recwarn: pytest.WarningsRecorder) -> None:
    before = dict(gymnasium.registry)
    register_envs()
    assert gymnasium.registry == before
    assert not recwarn.list
    for dialect in DIALECT_OF.values():
        assert load_dialect(dialect)


def test_wrappers(store: MediaStore) -> None:
    env = RecordEpisodeStatistics(
        gymnasium.make("saccade/LookAgain-v0", max_episode_steps=2, tasks=tasks(store), store=store, sandbox=scripted)
    )
    env.reset(seed=0)
    env.step(CODE)
    _, _, terminated, truncated, info = env.step(ANSWER)
    assert (terminated, truncated, info["episode"]["r"], info["episode"]["l"]) == (True, True, 1.0, 2)
    env.reset()
    env.step(CODE)
    _, _, terminated, truncated, info = env.step(CODE)
    assert (terminated, truncated) == (False, True)
    assert "trajectory" not in info
    env.reset()
    assert not env.step(CODE)[3]
    env.close()


@pytest.mark.parametrize("mode", AutoresetMode)
def test_sync_vectors(store: MediaStore, mode: AutoresetMode) -> None:
    make = partial(LookAgainEnv, tasks(store), store=store, sandbox=scripted)
    with_vectors(SyncVectorEnv([make, make], autoreset_mode=mode), mode)


@pytest.mark.parametrize(
    ("context", "mode"),
    [
        pytest.param("forkserver", AutoresetMode.NEXT_STEP, marks=pytest.mark.slow),
        pytest.param("spawn", AutoresetMode.SAME_STEP, marks=pytest.mark.slow),
        pytest.param("fork", AutoresetMode.DISABLED, marks=pytest.mark.slow),
    ],
)
def test_async_vectors_with_real_processes(store: MediaStore, context: str, mode: AutoresetMode) -> None:
    make = partial(LookAgainEnv, tasks(store), store=store)
    with_vectors(AsyncVectorEnv([make, make], shared_memory=False, context=context, autoreset_mode=mode), mode)


def with_vectors(envs: VectorEnv, mode: AutoresetMode) -> None:
    """Two episodes side by side, the first over after two steps, and what follows."""
    try:
        seen, infos = envs.reset(seed=7)
        assert seen in envs.observation_space
        assert list(infos["turns"]) == [0, 0]
        seen, rewards, ended, cut, infos = envs.step(np.array([CODE, CODE]))
        assert seen in envs.observation_space
        assert not (ended | cut).any()
        assert list(infos["status"]) == ["ok", "ok"]
        seen, rewards, ended, cut, infos = envs.step((ANSWER, CODE))
        assert list(rewards) == [1.0, 0.0]
        assert list(ended) == [True, False]
        final = infos["final_info"] if mode is AutoresetMode.SAME_STEP else infos
        assert final["trajectory"][0].answer == "red"
        assert list(final["_trajectory"]) == [True, False]
        if mode is AutoresetMode.DISABLED:
            seen, infos = envs.reset(options={"reset_mask": np.array([True, False])})
        elif mode is AutoresetMode.NEXT_STEP:
            seen, rewards, ended, cut, infos = envs.step((ANSWER, CODE))
        assert "Which colour?" in seen["text"][0]
        assert "Which colour?" not in seen["text"][1]
        assert len(seen["pictures"][0]) == 1
        *_, infos = envs.step((ANSWER, ANSWER))
    finally:
        envs.close()


def test_dialects_may_differ_in_one_vector(store: MediaStore) -> None:
    make: Any = partial(LookAgainEnv, tasks(store), store=store, sandbox=scripted, limits=EpisodeLimits(turns=2))
    both = [partial(make, dialect=name) for name in ("codev", "pyvision")]
    envs = SyncVectorEnv(both, observation_mode="different")
    seen, _ = envs.reset(seed=0)
    assert seen in envs.observation_space
    assert seen["text"][0] != seen["text"][1]
    envs.action_space.seed(0)
    for _ in range(5):
        envs.step(envs.action_space.sample())
    envs.close()


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
