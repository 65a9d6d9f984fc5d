"""Checks: every limit holds, and a call that will not end is ended from outside, on time."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from textwrap import dedent

from saccade.errors import SandboxClosedError
from saccade.plugins.audit.conformance.check import (
    PATIENCE,
    CheckGroup,
    describe,
    expect,
    expect_equal,
    expect_output,
    expect_rolled_back,
    opened,
    run,
)
from saccade.record.execution import Status
from saccade.sandbox.base import Sandbox, Session, SessionOptions
from saccade.sandbox.result import RunResult

LIMITS_GROUP = CheckGroup("limits")


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


_ENDLESS = {
    "wall_time_of_a_sleep": ("A sleep is ended at the wall limit.", "import time\ntime.sleep(600)"),
    "wall_time_of_a_busy_loop": (
        "A busy loop that swallows every exception is ended at the wall limit.",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    ),
    "wall_time_of_a_regular_expression": (
        "A regular expression that backtracks for ever is ended.",
        "import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')",
    ),
    "wall_time_of_numpy": (
        "A numpy call that takes minutes is ended.",
        "import numpy as np\nnp.linalg.matrix_power(np.eye(1200), 10**1000)",
    ),
    "wall_time_with_signals_ignored": (
        "A call that ignores and blocks every signal it can is ended.",
        """
        import signal, time
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True: time.sleep(1)
        """,
    ),
    "wall_time_with_the_gil_held": (
        "A C call that holds the interpreter's lock is ended.",
        "import ctypes\nctypes.PyDLL(None).sleep(600)",
    ),
}
for _name, (_about, _code) in _ENDLESS.items():
    LIMITS_GROUP.add(_name, _about, partial(ends_on_time, code=_code))


@LIMITS_GROUP.session()
async def wall_time_of_a_stopped_process(session: Session) -> None:
    """A call that stops itself is ended, unless it may not send itself signals at all."""
    result = await session.run("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", wall_seconds=0.6)
    expect(result.status in (Status.TIMEOUT, Status.ERROR), f"a SIGSTOP to itself gave: {describe(result)}")
    await expect_output(session, "print(1)", "1")


@LIMITS_GROUP.check
async def wall_time_of_an_endless_finalizer(sandbox: Sandbox) -> None:
    """An object whose comparison or `repr` never ends cannot hold the call after the code is through."""
    code = "class Endless:\n    def __repr__(self):\n        while True: pass\nEndless()"
    async with opened(sandbox) as session:
        result = await session.run(code, wall_seconds=0.6)
        expect(result.status is Status.TIMEOUT, f"an endless `repr` gave: {describe(result)}")
        await expect_output(session, "print(1)", "1")


@LIMITS_GROUP.check
async def wall_seconds_only_shortens(sandbox: Sandbox) -> None:
    """`wall_seconds` of a call cannot lengthen the limit of the sandbox."""
    async with opened(sandbox) as session:
        code = f"import time\ntime.sleep({sandbox.limits.wall_seconds + 20})"
        await run(session, code, Status.TIMEOUT, wall_seconds=sandbox.limits.wall_seconds + 600)


@LIMITS_GROUP.session()
async def cpu_time(session: Session) -> None:
    """A call that uses more CPU time than its limit ends as a time-out, even with the signal for it ignored."""
    code = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    await run(session, code, Status.TIMEOUT)
    await expect_output(session, "print(1)", "1")


@LIMITS_GROUP.check
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


@LIMITS_GROUP.check
async def memory_within_the_limit(sandbox: Sandbox) -> None:
    """Half of the memory limit can really be used."""
    async with opened(sandbox) as session:
        await expect_output(session, f"a = bytearray({sandbox.limits.memory_bytes // 2})\nprint(len(a) > 0)", "True")


@LIMITS_GROUP.check
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


@LIMITS_GROUP.session()
async def open_files_that_are_left(session: Session) -> None:
    """A call that leaves as many files open as it can is rolled back, and the next one has room."""
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


async def _is_too_much(sandbox: Sandbox, code: str, what: str, look: str, shown: str) -> None:
    """`code` passes a limit of the workspace: it must not end well, and `look` must print `shown` after it."""
    async with opened(sandbox) as session:
        result = await session.run(code)
        expect(result.status in (Status.ERROR, Status.KILLED, Status.REFUSED), f"{what} gave: {describe(result)}")
        await expect_output(session, "import os\n" + look, shown)


@LIMITS_GROUP.check
async def file_size(sandbox: Sandbox) -> None:
    """A file over the size limit cannot be written; the call sees an OSError or is ended, and is rolled back."""
    megabytes = 2 * sandbox.limits.file_bytes >> 20
    code = f"with open('big.bin', 'wb') as f:\n    for _ in range({megabytes}): f.write(bytes(1 << 20))"
    await _is_too_much(sandbox, code, "a file over the limit", "print(os.path.exists('big.bin'))", "False")


@LIMITS_GROUP.check
async def workspace_size(sandbox: Sandbox) -> None:
    """All files together stay within the size of the workspace; a failed call gives the room back."""
    limits = sandbox.limits
    count, size = 2 * limits.workspace_bytes // limits.file_bytes, limits.file_bytes // 2 * 2 - 4096
    code = f"for i in range({count}):\n    with open(f'f{{i}}', 'wb') as f: f.write(bytes({size}))"
    look = "open('small.txt', 'w').write('x' * 100_000)\nprint(os.listdir('.'))"
    await _is_too_much(sandbox, code, "too much in the workspace", look, "['small.txt']")


@LIMITS_GROUP.check
async def workspace_file_count(sandbox: Sandbox) -> None:
    """More files than the limit cannot stay in the workspace."""
    code = f"for i in range({2 * sandbox.limits.workspace_files}):\n    open(f'f{{i}}', 'w').close()"
    await _is_too_much(sandbox, code, "too many files", "print(os.listdir('.'))", "[]")


@LIMITS_GROUP.check
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


@LIMITS_GROUP.check
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


@LIMITS_GROUP.session()
async def deep_recursion(session: Session) -> None:
    """Endless recursion is an error or a killed call, never the end of the session."""
    await expect_rolled_back(session, "def f(): f()\nf()", Status.ERROR)
    result = await session.run("import sys\nsys.setrecursionlimit(10**8)\ndef g(x): return [g(x)]\ng(1)")
    expect(
        result.status is not Status.OK and result.status is not Status.LOST,
        f"endless recursion gave: {describe(result)}",
    )
    await expect_output(session, "print(1)", "1")


# Sessions run side by side, calls of one session one after the other, and closing is orderly.
CONCURRENCY = CheckGroup("concurrency")

SPAN = "import time\nt0 = time.monotonic()\ntime.sleep(0.3)\nprint(t0, time.monotonic())"


@CONCURRENCY.check
async def sessions_run_at_the_same_time(sandbox: Sandbox) -> None:
    """Calls of two sessions overlap in time."""
    async with opened(sandbox) as one, opened(sandbox) as two:
        await asyncio.gather(run(one, "1"), run(two, "1"))
        results = await asyncio.gather(run(one, SPAN), run(two, SPAN))
        (a0, a1), (b0, b1) = (map(float, result.stdout.split()) for result in results)
        expect(a0 < b1 and b0 < a1, "the calls of two sessions ran one after the other")


@CONCURRENCY.session()
async def calls_of_a_session_are_serial(session: Session) -> None:
    """Calls started together on one session run one after the other, in order, each on the state of the last."""
    await run(session, "import time\nseen = []")
    await asyncio.gather(
        *(
            run(session, f"n = len(seen)\ntime.sleep(0.02)\nseen.append({i})\nassert len(seen) == n + 1")
            for i in range(8)
        )
    )
    await expect_output(session, "print(seen)", str(list(range(8))))


@CONCURRENCY.check
async def many_sessions(sandbox: Sandbox) -> None:
    """Twelve sessions opened together each keep their own number."""
    sessions = await asyncio.gather(*(sandbox.open({"n": i}) for i in range(12)))
    try:
        results = await asyncio.gather(*(run(session, "print(n)") for session in sessions))
        expect_equal([int(result.stdout) for result in results], list(range(12)), "numbers printed")
    finally:
        await asyncio.gather(*(session.close() for session in sessions))


@CONCURRENCY.check
async def a_stuck_neighbour_does_not_matter(sandbox: Sandbox) -> None:
    """While one session is stuck, others are opened, run and closed."""
    async with opened(sandbox) as stuck:
        task = asyncio.create_task(stuck.run("while True: pass", wall_seconds=2.0))
        async with opened(sandbox) as other:
            await expect_output(other, "print(1)", "1")
        expect_equal((await task).status, Status.TIMEOUT, "status of the stuck call")


@CONCURRENCY.session()
async def cancelled_run(session: Session) -> None:
    """Cancelling the task of a call ends the call, rolls it back, and leaves the session usable."""
    await run(session, "x = 'before'")
    task = asyncio.create_task(session.run("x = 'after'\nimport time\ntime.sleep(600)"))
    await asyncio.sleep(0.3)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    else:
        expect(False, "a cancelled task did not end as cancelled")
    await expect_output(session, "print(x)", "before")


@CONCURRENCY.session()
async def cancelled_while_waiting(session: Session) -> None:
    """Cancelling a call that still waits for its turn means that it never runs; the one before it continues."""
    first = asyncio.create_task(session.run("import time\nx = 1\ntime.sleep(0.5)"))
    await asyncio.sleep(0.1)
    second = asyncio.create_task(session.run("x = 2"))
    await asyncio.sleep(0.1)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    result = await first
    expect(result.ok, f"the first call was harmed: {describe(result)}")
    await expect_output(session, "print(x)", "1")


async def _ends(call: asyncio.Task[RunResult]) -> None:
    """A call whose session was closed ends soon: with a result that is not `ok`, or with SandboxClosedError."""
    try:
        result = await asyncio.wait_for(call, PATIENCE)
    except SandboxClosedError:
        return
    except TimeoutError:
        expect(False, "a call did not end when its session was closed")
        return
    expect(not result.ok, f"a call that was closed away ended well: {describe(result)}")


async def _is_closed(session: Session) -> None:
    try:
        await session.run("1")
    except SandboxClosedError:
        return
    expect(False, "a call on a closed session did not raise SandboxClosedError")


@CONCURRENCY.check
async def closing_a_session_during_a_call(sandbox: Sandbox) -> None:
    """Closing a session ends its running call soon, is idempotent, and later calls raise SandboxClosedError."""
    session = await sandbox.open()
    task = asyncio.create_task(session.run("import time\ntime.sleep(600)"))
    await asyncio.sleep(0.2)
    started = time.monotonic()
    await asyncio.wait_for(session.close(), PATIENCE)
    await _ends(task)
    expect(time.monotonic() - started < PATIENCE, "closing took too long")
    await session.close()
    await _is_closed(session)


@CONCURRENCY.closing_check
async def closing_the_sandbox(sandbox: Sandbox) -> None:
    """Closing the sandbox closes its sessions, is idempotent, and a later `open` raises SandboxClosedError."""
    session = await sandbox.open()
    await run(session, "x = 1")
    branch = (await session.branch(1))[0]
    await sandbox.close()
    await sandbox.close()
    await _is_closed(session)
    await _is_closed(branch)
    await session.close()
    try:
        await sandbox.open()
    except SandboxClosedError:
        return
    expect(False, "`open` on a closed sandbox did not raise SandboxClosedError")


@CONCURRENCY.closing_check
async def closing_the_sandbox_during_a_call(sandbox: Sandbox) -> None:
    """Closing the sandbox ends calls that are running."""
    sessions = [await sandbox.open() for _ in range(2)]
    tasks = [asyncio.create_task(session.run("import time\ntime.sleep(600)")) for session in sessions]
    await asyncio.sleep(0.2)
    await asyncio.wait_for(sandbox.close(), PATIENCE)
    for task in tasks:
        await _ends(task)


# What a result says about itself: status, commit, timings, layers, repairs and options.
STATUSES = CheckGroup("statuses")

ENDINGS = (
    ("x = 1", Status.OK),
    ("1 / 0", Status.ERROR),
    ("def", Status.ERROR),
    ("raise TimeoutError('the program says so')", Status.ERROR),
    ("print('Killed. Segmentation fault. timed out')", Status.OK),
    ("while True: pass", Status.TIMEOUT),
    ("import os; os.abort()", Status.KILLED),
    ("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()", Status.REFUSED),
)


@STATUSES.session()
async def each_ending_has_its_status(session: Session) -> None:
    """The status tells how the call ended, not what its text says; only what ended well is `ok`."""
    for code, status in ENDINGS:
        result = await run(session, code, status, wall_seconds=0.6)
        expect_equal(result.ok, status is Status.OK, f"ok after {code!r}")
        expect_equal(result.traceback is None, status is Status.OK, f"whether {code!r} left no traceback")


@STATUSES.check
async def a_memory_error_of_the_program(sandbox: Sandbox) -> None:
    """Asking for more memory than there is gives `out_of_memory` with a reason a model can act on."""
    async with opened(sandbox) as session:
        result = await run(session, f"x = bytearray({4 * sandbox.limits.memory_bytes})", Status.OUT_OF_MEMORY)
        expect("emory" in (result.traceback or ""), f"the reason does not speak of memory: {describe(result)}")


@STATUSES.session()
async def timings_are_measured(session: Session) -> None:
    """Timings are seconds, never negative, and the parts fit into the whole."""
    timings = (await run(session, "import time\ntime.sleep(0.2)")).timings
    expect(timings.wall >= 0.2 and timings.run >= 0.19, f"a sleep of 0.2 s was measured as {timings}")
    expect(timings.wall >= timings.run and min(timings.cpu, timings.capture) >= 0, f"parts exceed the whole: {timings}")
    expect(timings.cpu < 0.19, f"a sleep used CPU: {timings}")
    busy = (await run(session, "t = time.process_time()\nwhile time.process_time() < t + 0.2: pass")).timings
    expect(busy.cpu >= 0.15, f"0.2 s of CPU were measured as {busy}")


@STATUSES.check
async def layers_are_reported(sandbox: Sandbox) -> None:
    """The report of the isolation names every layer, and each result carries those that are on."""
    isolation = await sandbox.isolation()
    expect_equal(len({state.layer for state in isolation.layers}), len(isolation.layers), "number of different layers")
    expect(all(state.on or state.detail for state in isolation.layers), f"a layer is off without a reason: {isolation}")
    async with opened(sandbox) as session:
        result = await run(session, "1")
        expect_equal(set(result.layers), set(isolation.names), "layers of a result")
        failed = await run(session, "1 / 0", Status.ERROR)
        expect_equal(set(failed.layers), set(isolation.names), "layers of a failed result")


@STATUSES.session()
async def empty_and_long_code(session: Session) -> None:
    """Empty code, comments only, half a megabyte of code and Windows line ends are fine."""
    for code in ("", "   \n\n", "# nothing", "x = 1\r\ny = 2\r\n"):
        await run(session, code)
    await expect_output(session, "\n".join(f"v{i} = {i}" for i in range(30_000)) + "\nprint(v29999)", "29999")


@STATUSES.check
async def preload(sandbox: Sandbox) -> None:
    """Names of `preload` are there from the start, others are not."""
    names = ("np", "plt", "Image", "cv2", "math", "os", "json", "re", "io", "random")
    async with opened(sandbox, options=SessionOptions(preload=names)) as session:
        await expect_output(session, "print(np.zeros(2).sum(), Image.new('L', (2, 2)).size)", "0.0 (2, 2)")
        await expect_output(
            session, "print(json.dumps([math.floor(1.5)]), cv2.__name__, plt.__name__)", "[1] cv2 matplotlib.pyplot"
        )
        await run(session, "print(os.sep, re.escape('a'), io.StringIO, random.random())")
    async with opened(sandbox) as session:
        await run(session, "np.zeros(2)", Status.ERROR)


@STATUSES.session()
async def repairs_are_off_unless_named(session: Session) -> None:
    """Without repairs, code that needs one fails, and no repair is recorded."""
    for code in ("print(np.zeros(2))", "    x = 1\ny = 2", "import numpy as np\ncv.resize(1)"):
        result = await run(session, code, Status.ERROR)
        expect_equal(result.repairs, (), f"repairs of {code!r}")


@STATUSES.check
async def repair_of_a_path(sandbox: Sandbox) -> None:
    """With the repair `path_alias`, a path that the model writes is the given file, and the repair is recorded."""
    options = SessionOptions(repairs=("path_alias",), path_aliases={"/mnt/data/clue.txt": "clue.txt"})
    async with opened(sandbox, files={"clue.txt": b"found"}, options=options) as session:
        result = await run(session, "print(open('/mnt/data/clue.txt').read())")
        expect_equal(result.stdout.strip(), "found", "text of the file")
        expect_equal([repair.name for repair in result.repairs], ["path_alias"], "repairs")
        expect_equal((await run(session, "x = 1")).repairs, (), "repairs of code that needs none")


@STATUSES.check
async def unknown_options_are_refused(sandbox: Sandbox) -> None:
    """An unknown repair or an unknown name in `preload` is an error of the caller, with the known names."""
    from saccade.errors import SaccadeError

    for options in (SessionOptions(repairs=("no_such_repair",)), SessionOptions(preload=("no_such_name",))):
        try:
            session = await sandbox.open(options=options)
        except SaccadeError:
            continue
        await session.close()
        expect(False, f"unknown names were taken without a word: {options}")
