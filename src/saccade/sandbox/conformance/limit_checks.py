"""Checks: every limit holds, and a call that will not end is ended from outside, on time."""

from __future__ import annotations

import asyncio
import time
from textwrap import dedent

from saccade.record.status import Status
from saccade.sandbox.base import Sandbox
from saccade.sandbox.conformance.check import (
    PATIENCE,
    CheckGroup,
    describe,
    expect,
    expect_output,
    expect_rolled_back,
    opened,
    run,
)

GROUP = CheckGroup("limits")


async def ends_on_time(sandbox: Sandbox, code: str) -> None:
    """`code` would run for minutes; it must time out, leave the host free and the session usable."""
    async with opened(sandbox) as session:
        started = time.monotonic()
        beats = asyncio.create_task(_longest_pause())
        await expect_rolled_back(session, code, Status.TIMEOUT, wall_seconds=0.6)
        beats.cancel()
        pause = await beats
        expect(time.monotonic() - started < PATIENCE, "the call was not ended on time")
        expect(pause < 5.0, f"the host's event loop stood still for {pause:.1f} s")


async def _longest_pause() -> float:
    longest, last = 0.0, time.monotonic()
    try:
        while True:
            await asyncio.sleep(0.05)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return longest


@GROUP.check
async def wall_time_of_a_sleep(sandbox: Sandbox) -> None:
    """A sleep is ended at the wall limit."""
    await ends_on_time(sandbox, "import time\ntime.sleep(600)")


@GROUP.check
async def wall_time_of_a_busy_loop(sandbox: Sandbox) -> None:
    """A busy loop that swallows every exception is ended at the wall limit."""
    await ends_on_time(sandbox, "while True:\n    try:\n        while True: pass\n    except BaseException: pass")


@GROUP.check
async def wall_time_of_a_regular_expression(sandbox: Sandbox) -> None:
    """A regular expression that backtracks for ever is ended."""
    await ends_on_time(sandbox, "import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')")


@GROUP.check
async def wall_time_of_numpy(sandbox: Sandbox) -> None:
    """A numpy call that takes minutes is ended."""
    await ends_on_time(sandbox, "import numpy as np\nnp.linalg.matrix_power(np.eye(1200), 10**1000)")


@GROUP.check
async def wall_time_with_signals_ignored(sandbox: Sandbox) -> None:
    """A call that ignores and blocks every signal it can is ended."""
    code = """
        import signal, time
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True: time.sleep(1)
    """
    await ends_on_time(sandbox, code)


@GROUP.check
async def wall_time_with_the_gil_held(sandbox: Sandbox) -> None:
    """A C call that holds the interpreter's lock is ended."""
    await ends_on_time(sandbox, "import ctypes\nctypes.PyDLL(None).sleep(600)")


@GROUP.check
async def wall_time_of_a_stopped_process(sandbox: Sandbox) -> None:
    """A call that stops itself is ended, unless it may not send itself signals at all."""
    async with opened(sandbox) as session:
        result = await session.run("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", wall_seconds=0.6)
        expect(result.status in (Status.TIMEOUT, Status.ERROR), f"a SIGSTOP to itself gave: {describe(result)}")
        await expect_output(session, "print(1)", "1")


@GROUP.check
async def wall_time_of_an_endless_finalizer(sandbox: Sandbox) -> None:
    """An object whose comparison or `repr` never ends cannot hold the call after the code is through."""
    code = "class Endless:\n    def __repr__(self):\n        while True: pass\nEndless()"
    async with opened(sandbox) as session:
        result = await session.run(code, wall_seconds=0.6)
        expect(result.status is Status.TIMEOUT, f"an endless `repr` gave: {describe(result)}")
        await expect_output(session, "print(1)", "1")


@GROUP.check
async def wall_seconds_only_shortens(sandbox: Sandbox) -> None:
    """`wall_seconds` of a call cannot lengthen the limit of the sandbox."""
    async with opened(sandbox) as session:
        code = f"import time\ntime.sleep({sandbox.limits.wall_seconds + 20})"
        await run(session, code, Status.TIMEOUT, wall_seconds=sandbox.limits.wall_seconds + 600)


@GROUP.check
async def cpu_time(sandbox: Sandbox) -> None:
    """A call that uses more CPU time than its limit ends as a time-out, even with the signal for it ignored."""
    async with opened(sandbox) as session:
        code = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
        await run(session, code, Status.TIMEOUT)
        await expect_output(session, "print(1)", "1")


@GROUP.check
async def memory(sandbox: Sandbox) -> None:
    """Memory over the limit is refused to Python, numpy and Pillow alike; catching it is allowed and harmless."""
    size = 2 * sandbox.limits.memory_bytes
    async with opened(sandbox) as session:
        for code in (
            f"a = b'x' * {size}",
            f"import numpy as np\na = np.ones({size}, np.uint8)",
            f"from PIL import Image\na = Image.new('L', ({size >> 14}, 1 << 14), 1)",
        ):
            await expect_rolled_back(session, code, Status.OUT_OF_MEMORY)
        caught = f"try:\n    a = b'x' * {size}\nexcept MemoryError:\n    print('caught')"
        await expect_output(session, caught, "caught")


@GROUP.check
async def memory_within_the_limit(sandbox: Sandbox) -> None:
    """Half of the memory limit can really be used."""
    async with opened(sandbox) as session:
        await expect_output(session, f"a = bytearray({sandbox.limits.memory_bytes // 2})\nprint(len(a) > 0)", "True")


@GROUP.check
async def open_files(sandbox: Sandbox) -> None:
    """More open files than the limit is an OSError, and closing them makes it good."""
    async with opened(sandbox) as session:
        code = f"""
            files = []
            try:
                for i in range({sandbox.limits.open_files + 10}):
                    files.append(open('/dev/null'))
                print('no limit')
            except OSError as error:
                print(error.errno)
            for f in files: f.close()
        """
        await expect_output(session, code, "24")


@GROUP.check
async def open_files_that_are_left(sandbox: Sandbox) -> None:
    """A call that leaves as many files open as it can is rolled back, and the next one has room."""
    async with opened(sandbox) as session:
        await expect_output(session, "kept = 1\nopen('kept.txt', 'w').close()\nprint(kept)", "1")
        code = """
            kept, files = 2, []
            try:
                while True: files.append(open('/dev/null'))
            except OSError as error:
                print(error.errno)
        """
        result = await session.run(dedent(code))
        expect(result.status is Status.REFUSED, f"files that were left open gave: {describe(result)}")
        expect(result.stdout == "24\n", f"one file too many gave: {describe(result)}")
        expect("left" in (result.traceback or ""), f"it is not said what was left: {describe(result)}")
        await expect_output(session, "with open('kept.txt') as file: print(kept, 'files' in globals())", "1 False")


@GROUP.check
async def file_size(sandbox: Sandbox) -> None:
    """A file over the size limit cannot be written; the call sees an OSError or is ended, and is rolled back."""
    async with opened(sandbox) as session:
        code = (
            f"with open('big.bin', 'wb') as f:\n"
            f"    for _ in range({2 * sandbox.limits.file_bytes >> 20}): f.write(bytes(1 << 20))"
        )
        result = await session.run(code)
        expect(
            result.status in (Status.ERROR, Status.KILLED, Status.REFUSED),
            f"a file over the limit gave: {describe(result)}",
        )
        await expect_output(session, "import os\nprint(os.path.exists('big.bin'))", "False")


@GROUP.check
async def workspace_size(sandbox: Sandbox) -> None:
    """All files together stay within the size of the workspace; a failed call gives the room back."""
    limits = sandbox.limits
    async with opened(sandbox) as session:
        count = 2 * limits.workspace_bytes // limits.file_bytes
        code = (
            f"for i in range({count}):\n"
            f"    with open(f'f{{i}}', 'wb') as f: f.write(bytes({limits.file_bytes // 2 * 2 - 4096}))"
        )
        result = await session.run(code)
        expect(
            result.status in (Status.ERROR, Status.KILLED, Status.REFUSED),
            f"too much in the workspace gave: {describe(result)}",
        )
        await expect_output(
            session, "import os\nopen('small.txt', 'w').write('x' * 100_000)\nprint(os.listdir('.'))", "['small.txt']"
        )


@GROUP.check
async def workspace_file_count(sandbox: Sandbox) -> None:
    """More files than the limit cannot stay in the workspace."""
    async with opened(sandbox) as session:
        code = f"for i in range({2 * sandbox.limits.workspace_files}):\n    open(f'f{{i}}', 'w').close()"
        result = await session.run(code)
        expect(
            result.status in (Status.ERROR, Status.KILLED, Status.REFUSED), f"too many files gave: {describe(result)}"
        )
        await expect_output(session, "import os\nprint(os.listdir('.'))", "[]")


@GROUP.check
async def processes(sandbox: Sandbox) -> None:
    """More processes than the limit (or any at all) cannot be had, and a call that leaves one is not `ok`."""
    async with opened(sandbox) as session:
        code = f"""
            import os, time
            made = 0
            try:
                for _ in range({sandbox.limits.processes + 10}):
                    if os.fork() == 0:
                        time.sleep(20)
                        os._exit(0)
                    made += 1
            except OSError:
                pass
            print(made < {sandbox.limits.processes + 1}, made)
        """
        result = await session.run(code)
        stray = not result.stdout.startswith("True 0")
        expect(result.ok is not stray, f"processes left behind gave: {describe(result)}")
        expect("False" not in result.stdout, f"the limit of {sandbox.limits.processes} processes does not hold")
        await expect_output(session, "print(1)", "1")


@GROUP.check
async def threads(sandbox: Sandbox) -> None:
    """More threads than the limit is an error of the program; threads that are joined are fine."""
    async with opened(sandbox) as session:
        code = f"""
            import threading
            gate = threading.Event()
            made = []
            try:
                for _ in range({sandbox.limits.processes + 50}):
                    t = threading.Thread(target=gate.wait)
                    t.start()
                    made.append(t)
                print('no limit')
            except RuntimeError:
                print('limit')
            finally:
                gate.set()
                for t in made: t.join()
        """
        await expect_output(session, code, "limit")


@GROUP.check
async def deep_recursion(sandbox: Sandbox) -> None:
    """Endless recursion is an error or a killed call, never the end of the session."""
    async with opened(sandbox) as session:
        await expect_rolled_back(session, "def f(): f()\nf()", Status.ERROR)
        result = await session.run("import sys\nsys.setrecursionlimit(10**8)\ndef g(x): return [g(x)]\ng(1)")
        expect(
            result.status is not Status.OK and result.status is not Status.LOST,
            f"endless recursion gave: {describe(result)}",
        )
        await expect_output(session, "print(1)", "1")
