"""The weights that come with Saccade: small enough, and they do what the documentation says."""

from pathlib import Path

import pytest

from saccade.dialects.base import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.errors import RegistryError
from saccade.media.store import MediaStore
from saccade.models.registry import load_model
from saccade.plugins.worlds.cli import FAMILIES
from saccade.plugins.worlds.tiny import tiny_weights
from saccade.record.trajectory import Sampling
from saccade.sandbox.local import LocalSandbox
from saccade.tasks.worlds import load_world, make_task


def test_they_are_small_and_name_no_machine() -> None:
    folder = tiny_weights()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 20_000_000
    assert '"_name_or_path"' not in (folder / "config.json").read_text(encoding="utf-8")


def test_the_provider_takes_no_name() -> None:
    assert load_model("tiny").name == f"local:{tiny_weights()}"
    with pytest.raises(RegistryError, match="local:FOLDER"):
        load_model("tiny:other")


@pytest.mark.slow
async def test_they_count_crossings_by_a_program_of_their_own(tmp_path: Path) -> None:
    store, dialect, model = MediaStore(tmp_path), load_dialect("tiny"), load_model("tiny")
    world = load_world("line-crossings")
    right = 0
    async with LocalSandbox(limits=dialect.sandbox) as sandbox:
        for index in range(100, 104):
            task = make_task(world, "test", index, store)
            plan = Plan(task, dialect, sampling=Sampling(temperature=0.0, max_tokens=300))
            played = await run_episode(plan, model, sandbox, store)
            assert played.turns[0].execution is not None
            right += played.answer == task.answer
    await model.close()
    assert right >= 3


@pytest.mark.slow
async def test_they_find_a_sign_by_looking_closer(tmp_path: Path) -> None:
    store, dialect, model = MediaStore(tmp_path), load_dialect("tiny"), load_model("tiny")
    world = load_world("visual-search")
    knobs = world.knobs(**FAMILIES["visual search"][1])
    right = closer = 0
    async with LocalSandbox(limits=dialect.sandbox) as sandbox:
        for index in range(100, 108):
            task = make_task(world, "test", index, store, knobs)
            plan = Plan(task, dialect, sampling=Sampling(temperature=0.0, max_tokens=300))
            played = await run_episode(plan, model, sandbox, store)
            right += played.answer == task.answer
            closer += sum("seen = " in turn.text for turn in played.turns) > 3
    await model.close()
    assert closer >= 7
    assert right >= 5  # a guess is right in one of four
