"""Checks: what a result says about itself: status, commit, timings, layers, repairs and options."""

from __future__ import annotations

from saccade.record.status import Status
from saccade.sandbox.base import Sandbox, SessionOptions
from saccade.sandbox.conformance.check import CheckGroup, describe, expect, expect_equal, expect_output, opened, run

GROUP = CheckGroup("statuses")

ENDINGS = (
    ("x = 1", Status.OK),
    ("1 / 0", Status.ERROR),
    ("def", Status.ERROR),
    ("raise TimeoutError('the program says so')", Status.ERROR),
    ("print('Killed. Segmentation fault. timed out')", Status.OK),
    ("while True: pass", Status.TIMEOUT),
    ("import os; os.abort()", Status.KILLED),
    ("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()", Status.REFUSED),
)


@GROUP.check
async def each_ending_has_its_status(sandbox: Sandbox) -> None:
    """The status tells how the call ended, not what its text says; only what ended well is `ok`."""
    async with opened(sandbox) as session:
        for code, status in ENDINGS:
            result = await run(session, code, status, wall_seconds=0.6)
            expect_equal(result.ok, status is Status.OK, f"ok after {code!r}")
            expect_equal(result.traceback is None, status is Status.OK, f"whether {code!r} left no traceback")


@GROUP.check
async def a_memory_error_of_the_program(sandbox: Sandbox) -> None:
    """Asking for more memory than there is gives `out_of_memory` with a reason a model can act on."""
    async with opened(sandbox) as session:
        result = await run(session, f"x = bytearray({4 * sandbox.limits.memory_bytes})", Status.OUT_OF_MEMORY)
        expect("emory" in (result.traceback or ""), f"the reason does not speak of memory: {describe(result)}")


@GROUP.check
async def timings_are_measured(sandbox: Sandbox) -> None:
    """Timings are seconds, never negative, and the parts fit into the whole."""
    async with opened(sandbox) as session:
        timings = (await run(session, "import time\ntime.sleep(0.2)")).timings
        expect(timings.wall >= 0.2 and timings.run >= 0.19, f"a sleep of 0.2 s was measured as {timings}")
        expect(
            timings.wall >= timings.run and min(timings.cpu, timings.capture) >= 0, f"parts exceed the whole: {timings}"
        )
        expect(timings.cpu < 0.19, f"a sleep used CPU: {timings}")
        busy = (await run(session, "t = time.process_time()\nwhile time.process_time() < t + 0.2: pass")).timings
        expect(busy.cpu >= 0.15, f"0.2 s of CPU were measured as {busy}")


@GROUP.check
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


@GROUP.check
async def empty_and_long_code(sandbox: Sandbox) -> None:
    """Empty code, comments only, half a megabyte of code and Windows line ends are fine."""
    async with opened(sandbox) as session:
        for code in ("", "   \n\n", "# nothing", "x = 1\r\ny = 2\r\n"):
            await run(session, code)
        await expect_output(session, "\n".join(f"v{i} = {i}" for i in range(30_000)) + "\nprint(v29999)", "29999")


@GROUP.check
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


@GROUP.check
async def repairs_are_off_unless_named(sandbox: Sandbox) -> None:
    """Without repairs, code that needs one fails, and no repair is recorded."""
    async with opened(sandbox) as session:
        for code in ("print(np.zeros(2))", "    x = 1\ny = 2", "import numpy as np\ncv.resize(1)"):
            result = await run(session, code, Status.ERROR)
            expect_equal(result.repairs, (), f"repairs of {code!r}")


@GROUP.check
async def repair_of_a_path(sandbox: Sandbox) -> None:
    """With the repair `path_alias`, a path that the model writes is the given file, and the repair is recorded."""
    options = SessionOptions(repairs=("path_alias",), path_aliases={"/mnt/data/clue.txt": "clue.txt"})
    async with opened(sandbox, files={"clue.txt": b"found"}, options=options) as session:
        result = await run(session, "print(open('/mnt/data/clue.txt').read())")
        expect_equal(result.stdout.strip(), "found", "text of the file")
        expect_equal([repair.name for repair in result.repairs], ["path_alias"], "repairs")
        expect_equal((await run(session, "x = 1")).repairs, (), "repairs of code that needs none")


@GROUP.check
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
