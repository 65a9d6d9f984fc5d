"""Whatever programs do, a session holds what a model that never shares and always restores says."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.sandbox.providers import PROVIDERS, linux_only

from saccade.plugins.audit.conformance import LIMITS, ConformanceError
from saccade.plugins.audit.conformance.model import (
    ENDINGS,
    MOST_SESSIONS,
    OPERATIONS,
    ModelOperation,
    ModelStep,
    ModelWorld,
    draw,
    play,
)
from saccade.sandbox.local import LocalSandbox

pytestmark = [linux_only, pytest.mark.timeout(3600)]

PATIENT = LIMITS.model_copy(update={"wall_seconds": 120.0})
"""On a machine under load a call that crashes may take long; one that hangs has a limit of its own."""
OPERATION = st.builds(ModelOperation, st.sampled_from(sorted(OPERATIONS)), st.integers(0, 999))
STEP = st.builds(
    ModelStep,
    session=st.integers(0, MOST_SESSIONS - 1),
    operations=st.lists(OPERATION, min_size=1, max_size=6).map(tuple),
    ending=st.sampled_from([ending for ending in ENDINGS if ending != "hang"]),
    branch=st.sampled_from([False] * 9 + [True]),
)


def many(provider: str, examples: int, steps: int, phases: tuple[Phase, ...] = tuple(Phase)) -> None:
    """Let hypothesis draw programs; one sandbox for all of them."""
    drawing = settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    sandbox = PROVIDERS[provider](PATIENT)
    with asyncio.Runner() as runner:

        def holds(drawn: list[ModelStep]) -> None:
            runner.run(play(sandbox, drawn))

        try:
            drawing(given(st.lists(STEP, min_size=steps, max_size=steps))(holds))()
        finally:
            runner.run(sandbox.close())


@pytest.mark.slow  # the conformance check `model.any_program` plays as many
def test_dozens_of_steps() -> None:
    many("local", examples=2, steps=20)


@pytest.mark.slow
def test_hundreds_of_steps() -> None:
    many("local", examples=4, steps=50)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("provider", ["local", "without_namespaces"])
def test_ten_thousand_steps(provider: str) -> None:
    """Not shrunk, which would take hours: the error tells the last steps that led to a difference."""
    many(provider, examples=50, steps=200, phases=(Phase.generate,))


@pytest.mark.slow
async def test_thousands_of_steps_with_calls_that_hang() -> None:
    async with PROVIDERS["local"](PATIENT) as sandbox:
        for seed in range(10):
            await play(sandbox, draw(random.Random(seed), 100))


@pytest.mark.asyncio(loop_scope="session")
async def test_a_difference_is_found_and_told(monkeypatch: pytest.MonkeyPatch, box: LocalSandbox) -> None:
    """The model can fail: one that forgets to roll back disagrees with a sandbox that does not."""
    monkeypatch.setattr(ModelWorld, "copied", lambda self: self)
    steps = [ModelStep(0, (ModelOperation("number", 5),), "raise")]
    with pytest.raises(ConformanceError, match=r"numbers: expected \[5\], got \[\]"):
        await play(box, steps)


@pytest.mark.parametrize("provider", ["local", pytest.param("without_namespaces", marks=pytest.mark.slow)])
async def test_a_branch_reads_a_folder_again_that_its_origin_had_read_to_its_end(provider: str) -> None:
    steps = [
        ModelStep(0, (ModelOperation("read_on", 366),), "keep"),
        ModelStep(0, (), "keep", branch=True),
        ModelStep(1, (ModelOperation("read_on", 220),), "keep"),
        ModelStep(1, (), "crash"),
    ]
    async with PROVIDERS[provider](LIMITS) as box:
        await play(box, steps)
