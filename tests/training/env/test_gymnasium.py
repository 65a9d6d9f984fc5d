"""What Gymnasium itself asks of an environment: its checker, its registry, its wrappers, its vector environments."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit
from tests.training.env.support import ANSWER, CODE, EVERY_DIALECT, environment, result, tasks, tasks_for, tools_for

from saccade.dialects.registry import load_dialect
from saccade.media.store import MediaStore
from saccade.record.trajectory import EpisodeLimits
from saccade.sandbox.scripted import ScriptedSandbox
from saccade.training.env import LookAgainEnv, register_envs
from saccade.training.env.registration import DIALECT_OF

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


@pytest.mark.parametrize("dialect", EVERY_DIALECT)
@pytest.mark.few(3)
def test_the_checker_finds_nothing_by_hand_either(store: MediaStore, dialect: str) -> None:
    with environment(store, dialect, sandbox=scripted) as env:
        check_env(env)


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


def test_a_time_limit_by_hand(store: MediaStore) -> None:
    with environment(store) as inner:
        env = TimeLimit(inner, max_episode_steps=1)
        env.reset()
        assert env.step(CODE)[3]


Maker = Callable[..., VectorEnv]


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


def test_make_vec(store: MediaStore) -> None:
    envs = gymnasium.make_vec(
        "saccade/CodeV-v0", num_envs=2, vectorization_mode="sync", tasks=tasks(store), store=store, sandbox=scripted
    )
    envs.reset(seed=[1, 2])
    assert list(envs.step((CODE, ANSWER))[4]["action"]) == ["code", "answer"]
    envs.close()
