"""The local sandbox works wherever a program starts it: threads, several loops, several hosts, busy parents."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.sandbox.providers import linux_only

from saccade.record.execution import Status
from saccade.sandbox.base import MIB, Limits
from saccade.sandbox.local import LocalSandbox

pytestmark = linux_only

LIMITS = Limits(wall_seconds=20, memory_bytes=256 * MIB)


async def hello(number: int) -> str:
    async with LocalSandbox(limits=LIMITS) as box:
        session = await box.open({"n": number})
        await session.run("x = n * 2")
        (branch,) = await session.branch(1)
        result = await branch.run("print('number', x)")
        assert result.status is Status.OK, result
        return result.stdout.strip()


@pytest.mark.slow
def test_each_thread_with_its_own_loop() -> None:
    with ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(lambda n: asyncio.run(hello(n)), range(2)))
    assert texts == ["number 0", "number 2"]


@pytest.mark.slow  # as every two tests of this file do that run a loop of their own
def test_one_loop_after_another() -> None:
    assert asyncio.run(hello(1)) == "number 2"
    assert asyncio.run(hello(2)) == "number 4"


@pytest.mark.slow
def test_processes_outlive_the_thread_that_started_them() -> None:
    """The zygote must not die with the thread that started it: the loop goes on in another thread."""
    loop = asyncio.new_event_loop()
    made: list[LocalSandbox] = []

    async def start() -> None:
        box = LocalSandbox(limits=LIMITS)
        await box.open()
        made.append(box)

    starter = threading.Thread(target=loop.run_until_complete, args=(start(),))
    starter.start()
    starter.join()

    async def use() -> str:
        async with made[0] as box:
            session = await box.open()
            return (await session.run("print('still here')")).stdout.strip()

    try:
        assert loop.run_until_complete(use()) == "still here"
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


@pytest.mark.slow
async def test_parent_with_many_threads() -> None:
    """A parent in which other threads run, as any big library starts them."""
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(30)]
    for thread in threads:
        thread.start()
    try:
        assert await hello(4) == "number 8"
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.slow
async def test_parent_with_many_open_files(tmp_path: Path) -> None:
    files = [open(tmp_path / f"f{i}", "w") for i in range(200)]  # noqa: SIM115 - held open on purpose
    try:
        async with LocalSandbox(limits=LIMITS) as box:
            session = await box.open()
            result = await session.run(
                "import os\nprint(len([f for f in range(3, 600) if os.path.exists(f'/dev/fd/{f}')]))"
            )
            assert result.status is Status.OK
            assert await hello(1) == "number 2"
    finally:
        for file in files:
            file.close()


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.slow
def test_after_torch_was_imported() -> None:
    run_program("import torch\ntorch.ones(100, 100) @ torch.ones(100, 100)")


def run_program(first: str) -> None:
    """A program of its own that does `first` and then uses a sandbox."""
    code = (
        f"{first}\nimport asyncio\nfrom saccade.sandbox.local import LocalSandbox\n"
        "async def main():\n"
        "    async with LocalSandbox() as box:\n"
        "        session = await box.open()\n"
        "        print((await session.run('print(6 * 7)')).stdout)\n"
        "asyncio.run(main())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert run.stdout.strip() == "42", run.stderr


async def test_forgotten_sandbox_can_be_collected() -> None:
    """A sandbox that was never used costs nothing and needs no close."""
    box = LocalSandbox(limits=LIMITS)
    assert box.limits is LIMITS
    await box.close()
    await box.close()
