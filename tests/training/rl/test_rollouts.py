from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.fake_sandboxes import TOKEN, FakeSandbox, Wire, serving
from tests.tiny import tiny_folder
from tests.training.rl.policies import Noise, TinyPolicy, full_logprobs, policy

from saccade.core.retry import RetryPolicy
from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.flow import Plan
from saccade.errors import SandboxClosedError, SandboxLostError, SettingsError, TrainingError
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart
from saccade.record.execution import Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import EpisodeLimits, Sampling, StopReason
from saccade.sandbox.base import Binding, Sandbox, Session, SessionOptions
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.pool import SandboxPool
from saccade.sandbox.remote import RemoteSandbox
from saccade.tokens.batch import PromptDelta, TokenStream
from saccade.tokens.decoder import TransformersEngine
from saccade.tokens.segments import SegmentKind
from saccade.tokens.turn import TurnRequest
from saccade.training.rl.recipe import Recipe
from saccade.training.rl.rollout import Rollout
from saccade.training.rl.rollouts import (
    GroupSandbox,
    RolloutResources,
    RolloutTiming,
    SlotModel,
    WatchedPlay,
    checked_tokens,
    generate_rollouts,
    group_plans,
)
from saccade.training.rl.settings import GenerationSettings


@pytest.fixture(scope="module")
def made() -> TinyPolicy:
    return policy(tiny_folder())


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "media")


@pytest.fixture
async def sandbox() -> AsyncIterator[LocalSandbox]:
    async with LocalSandbox() as made:
        yield made


def task(store: MediaStore, number: int) -> Task:
    part = store.put_image(Image.new("RGB", (56 + 28 * number, 84), ("red", "green", "blue")[number % 3]))
    return Task(id=f"t{number}", question="Which colour?", media=(NamedMedia(name="image", part=part),), answer="red")


def plans(
    store: MediaStore, tasks: int, group: int, dialect: Dialect, limits: EpisodeLimits | None = None
) -> list[Plan]:
    sampling = Sampling(temperature=1.0, max_tokens=6)
    return [
        Plan(task(store, n), dialect, sampling, EpisodeLimits(turns=3), f"t{n}", rollout)
        for n in range(tasks)
        for rollout in range(group)
    ]


async def played(
    made: TinyPolicy, store: MediaStore, sandbox: Sandbox | None, wanted: list[Plan], **more: int
) -> tuple[list[Rollout], RolloutTiming]:
    engine = TransformersEngine(made, store)
    try:
        async with asyncio.timeout(120):
            return await generate_rollouts(
                wanted, RolloutResources(engine, made.encoder, sandbox, store), GenerationSettings(**more), 7
            )
    finally:
        await engine.close()


@pytest.mark.parametrize("role", ["user", pytest.param("assistant", marks=pytest.mark.slow)])
async def test_groups_of_episodes_with_pictures_in_later_turns(
    made: TinyPolicy, store: MediaStore, sandbox: LocalSandbox, role: str
) -> None:
    done, timing = await played(made, store, sandbox, plans(store, 2, 2, Noise(role=role)))
    assert [item.trajectory.id for item in done] == [f"t{n}#{k}" for n in range(2) for k in range(2)]
    for item in done:
        assert item.trajectory.stop is StopReason.TURN_LIMIT
        assert item.tokens is not None
        kinds = [segment.kind for segment in item.tokens.segments]
        assert kinds == [
            SegmentKind.PROMPT,
            SegmentKind.SAMPLED,
            SegmentKind.OBSERVATION,
            SegmentKind.SAMPLED,
            SegmentKind.OBSERVATION,
            SegmentKind.SAMPLED,
        ]
        assert len(item.tokens.pictures) == 3
        recorded = item.tokens.logprobs()[item.tokens.loss_mask()]
        np.testing.assert_allclose(recorded, full_logprobs(made, item.tokens, store), atol=1e-5)
    assert 0 < timing.decoding < timing.wall
    again, _ = await played(made, store, sandbox, plans(store, 2, 2, Noise(role=role)), decoding_batches=2)
    for one, other in zip(again, done, strict=True):
        assert one.trajectory.turns[-1].token_ids == other.trajectory.turns[-1].token_ids
        np.testing.assert_allclose(one.trajectory.turns[-1].logprobs, other.trajectory.turns[-1].logprobs, atol=1e-5)


async def test_a_broken_rollout_harms_no_other(made: TinyPolicy, store: MediaStore, sandbox: LocalSandbox) -> None:
    wanted = plans(store, 2, 1, Noise())
    wanted[0] = Plan(wanted[0].task, Noise(code="import os; os._exit(3)"), wanted[0].sampling, wanted[0].limits, "t0")
    broken, fine = (await played(made, store, sandbox, wanted))[0]
    assert broken.trajectory.turns[0].execution is not None
    assert broken.trajectory.turns[0].execution.status is Status.KILLED
    assert fine.trajectory.turns[0].execution is not None
    assert fine.trajectory.turns[0].execution.status is Status.OK
    assert broken.tokens is not None


async def test_variables_of_one_rollout_are_not_seen_by_its_group(
    made: TinyPolicy, store: MediaStore, sandbox: LocalSandbox
) -> None:
    counting = Noise(code="seen = globals().get('seen', 0) + 1\nprint(seen)")
    done, _ = await played(made, store, sandbox, plans(store, 1, 3, counting))
    for item in done:
        runs = [turn.execution for turn in item.trajectory.turns if turn.execution is not None]
        assert [run.stdout.strip() for run in runs] == ["1", "2"]


class Failing:
    """Opens sessions of another sandbox, but the first `failures` times its processes are gone."""

    def __init__(self, sandbox: Sandbox, failures: int) -> None:
        self._sandbox = sandbox
        self._left = failures

    def __getattr__(self, name: str) -> object:
        return getattr(self._sandbox, name)

    async def open(
        self,
        bindings: Mapping[str, Binding] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        options: SessionOptions | None = None,
    ) -> Session:
        self._left -= 1
        if self._left >= 0:
            raise SandboxLostError("gone")
        return await self._sandbox.open(bindings, files=files, options=options)


async def test_lost_rollouts_are_played_again_a_bounded_number_of_times(
    made: TinyPolicy, store: MediaStore, sandbox: LocalSandbox
) -> None:
    failing: Callable[[int], Sandbox] = lambda times: Failing(sandbox, times)  # type: ignore[assignment,return-value]  # noqa: E731
    done, timing = await played(made, store, failing(1), plans(store, 1, 2, Noise()), replays=2)
    assert not any(item.trajectory.lost for item in done)
    assert timing.replayed == 1
    done, timing = await played(made, store, failing(100), plans(store, 1, 2, Noise()), replays=1)
    assert all(item.trajectory.stop is StopReason.SANDBOX_LOST and item.tokens is None for item in done)
    assert timing.replayed == 2


async def test_a_sandbox_host_that_dies_in_between_costs_no_rollout(made: TinyPolicy, store: MediaStore) -> None:
    dies, stays = FakeSandbox(), FakeSandbox()
    async with serving(dies) as first, serving(stays) as second:
        boxes = [
            RemoteSandbox(url, token=TOKEN, retry=RetryPolicy(tries=2, first_seconds=0.01), transport=Wire(calls))
            for url, calls in ((first, 3), (second, None))
        ]
        async with SandboxPool(boxes) as pool:
            done, timing = await played(made, store, pool, plans(store, 4, 2, Noise(code="print(1)")), replays=1)
        assert len(dies.runs) == 3  # it was played on, and gone in the middle
    assert 0 < timing.replayed < 8
    for item in done:
        assert [turn.execution.status for turn in item.trajectory.turns[:-1] if turn.execution] == [Status.OK] * 2
        assert item.tokens is not None
        assert not item.lost
    assert len(stays.runs) >= 2 * timing.replayed  # whole episodes, from their first call


async def test_what_does_not_fit_is_not_committed(made: TinyPolicy, store: MediaStore, sandbox: LocalSandbox) -> None:
    flooding = Flooding(code="print('x ' * 2000)")
    (item,) = (await played(made, store, sandbox, plans(store, 1, 1, flooding)))[0]
    assert item.trajectory.stop is StopReason.CONTEXT_LIMIT
    assert not item.trajectory.lost
    assert item.tokens is not None
    assert [segment.kind for segment in item.tokens.segments] == [SegmentKind.PROMPT, SegmentKind.SAMPLED]


class Faulty(Noise):
    """Is of no use after the first turn."""

    def parse(self, text, finish):  # type: ignore[no-untyped-def]
        raise SettingsError("of no use")


async def test_what_ends_one_episode_of_many_ends_them_all_under_its_own_name(
    made: TinyPolicy, store: MediaStore
) -> None:
    with pytest.raises(SettingsError, match="of no use"):
        await played(made, store, None, plans(store, 2, 1, Faulty()))


class Flooding(Noise):
    """Shows all that was printed."""

    def observe(self, execution, pictures):  # type: ignore[no-untyped-def]
        made = super().observe(execution, pictures)
        text = made.message.parts[0].model_copy(update={"text": execution.stdout})
        return type(made)(made.message.model_copy(update={"parts": (text,)}), {}, pictures)


async def test_a_gate_that_is_violated_ends_the_run(made: TinyPolicy, store: MediaStore, sandbox: LocalSandbox) -> None:
    (item,) = (await played(made, store, sandbox, plans(store, 1, 1, Noise())))[0]
    assert item.tokens is not None
    ids = tuple(item.tokens.ids().tolist())
    checked_tokens(item.trajectory, made.encoder, ids)
    with pytest.raises(TrainingError, match="were played"):
        checked_tokens(item.trajectory, made.encoder, (*ids[:-1], ids[-1] + 1))
    silent = item.trajectory.turns[0].model_copy(update={"logprobs": None})
    without = item.trajectory.model_copy(update={"turns": (silent, *item.trajectory.turns[1:])})
    with pytest.raises(TrainingError, match="no log-probability"):
        checked_tokens(without, made.encoder, ids)


async def test_cut_distributions_are_refused(made: TinyPolicy, store: MediaStore) -> None:
    wanted = plans(store, 1, 1, Noise())
    cut = Plan(wanted[0].task, wanted[0].dialect, Sampling(top_p=0.9), group="t0")
    with pytest.raises(SettingsError, match="top_p"):
        await played(made, store, None, [cut])


async def test_a_model_that_was_closed_left_its_slot(made: TinyPolicy, store: MediaStore) -> None:
    engine = TransformersEngine(made, store)
    (slot,) = engine.slots([1])
    await SlotModel(engine.name, slot, TokenStream(made.encoder, "e")).close()
    try:
        with pytest.raises(RuntimeError, match="was released"):
            await slot.generate(TurnRequest(PromptDelta(made.encoder.text("Say it.")), max_tokens=1))
    finally:
        await engine.close()


async def test_the_session_of_a_group_ends_with_its_block(sandbox: LocalSandbox) -> None:
    async with GroupSandbox(sandbox) as group:
        session = await group.open({"n": 1})
        root = group._root
        assert (await group.isolation(), group.limits) == (await sandbox.isolation(), sandbox.limits)
    assert (await session.run("print(n)")).stdout == "1\n", "a branch lives on"
    await session.close()
    assert root is not None
    with pytest.raises(SandboxClosedError):
        await root.branch(1)
    with pytest.raises(SandboxClosedError, match="of this group was closed"):
        await group.open({"n": 1})


def test_groups_show_large_pictures_smaller_and_held_out_tasks_have_limits_of_their_own(store: MediaStore) -> None:
    part = store.put_image(Image.new("RGB", (200, 100), "red"))
    large = Task(id="t", question="Which?", media=(NamedMedia(name="image_0", part=part),), answer="red")
    given: dict[str, Any] = {
        "dialect": "pyvision-rl-image@1",
        "reward": {"preset": "pyvision-rl@1:paper"},
        "rollout": {"sampling": {"temperature": 0.7}, "limits": {"turns": 3, "images": 9}},
        "media": {"shown_pixels": 5_000},
    }
    recipe = Recipe.model_validate(given)
    dialect = load_dialect(recipe.dialect)
    two = group_plans(recipe, dialect, large, range(4, 6), "t@2", store)
    assert [(plan.rollout, plan.group, plan.limits.turns, plan.sampling.temperature) for plan in two] == [
        (4, "t@2", 3, 0.7),
        (5, "t@2", 3, 0.7),
    ]
    (shown,) = (part for message in two[0].opening.messages for part in message.media if isinstance(part, ImagePart))
    assert (shown.width, shown.height) == (100, 50)
    assert "shown scaled down to 100x50" in "".join(message.text for message in two[0].opening.messages)
    assert two[0].task.media[0].part == part, "code has it as it is"

    watched = WatchedPlay(0.0, EpisodeLimits(turns=30))
    (held_out,) = group_plans(recipe, dialect, large, range(1), "t", store, watched)
    assert (held_out.limits.turns, held_out.limits.images, held_out.sampling.temperature) == (30, 9, 0.0)
    whole = Recipe.model_validate({**given, "media": {}})
    (full,) = group_plans(whole, dialect, large, range(1), "t", store)
    assert full.shown == {}
