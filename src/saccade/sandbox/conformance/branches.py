"""Checks: branches start from the state of their origin and are independent from then on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from saccade.record.status import Status
from saccade.sandbox.base import Sandbox, Session
from saccade.sandbox.conformance.check import CheckGroup, expect, expect_equal, expect_output, opened, run

GROUP = CheckGroup("branches")


@asynccontextmanager
async def branched(session: Session, n: int) -> AsyncIterator[tuple[Session, ...]]:
    """`n` branches of a session that are closed at the end of the block."""
    branches = tuple(await session.branch(n))
    try:
        expect_equal(len(branches), n, "number of branches")
        yield branches
    finally:
        for branch in branches:
            await branch.close()


@GROUP.check
async def branches_see_the_state(sandbox: Sandbox) -> None:
    """Eight branches see variables, functions, imports, random state and files of their origin."""
    async with opened(sandbox, {"given": [1, 2]}, files={"a.txt": b"a"}) as session:
        await run(
            session,
            "import random\nrandom.seed(3)\nx = 5\ndef double(v):\n    return 2 * v\nopen('b.txt','w').write('b')",
        )
        show = "print(double(x), given, open('a.txt').read(), open('b.txt').read(), random.random())"
        async with branched(session, 8) as branches:
            texts = {(await run(branch, show)).stdout for branch in branches}
        expect_equal(len(texts), 1, f"number of different answers of the branches {texts}")
        expect(texts.pop().startswith("10 [1, 2] a b 0.2379"), "the branches do not see the state of their origin")


@GROUP.check
async def branches_stand_where_their_origin_does(sandbox: Sandbox) -> None:
    """In the same folder, with the same positions in open files, and doubles of one opening are doubles there, too."""
    async with opened(sandbox, files={"a.txt": b"0123456789"}) as session:
        await run(
            session,
            "import os\nos.mkdir('d'); f = os.open('a.txt', os.O_RDWR); twin = os.dup(f); g = os.open('a.txt', 0)\n"
            "os.lseek(f, 3, 0); os.lseek(g, 3, 0); os.chdir('d'); os.dup2(g, 0)",
        )
        show = "print(os.path.basename(os.getcwd()), *[os.read(fd, 1) for fd in (f, twin, g, 0)])"
        async with branched(session, 2) as (one, two):
            await expect_output(one, show, "d b'3' b'4' b'3' b'4'")
            await expect_output(session, show, "d b'3' b'4' b'3' b'4'")
            await expect_output(two, show, "d b'3' b'4' b'3' b'4'")
        await run(session, "os.chdir('/usr')")
        async with branched(session, 1) as (one,):
            await expect_output(one, "print(os.getcwd())", "/usr")


@GROUP.check
async def memory_is_independent(sandbox: Sandbox) -> None:
    """What a branch or the origin changes in memory, nobody else sees."""
    async with opened(sandbox) as session:
        await run(session, "import numpy as np\nitems = [0]\na = np.zeros(1_000_000)")
        async with branched(session, 2) as (one, two):
            await run(one, "items.append(1)\na[:] = 1")
            await run(session, "items.append(9)\na[:] = 9")
            await expect_output(two, "print(items, a.sum())", "[0] 0.0")
            await expect_output(one, "print(items, a.sum())", "[0, 1] 1000000.0")
            await expect_output(session, "print(items, a.sum())", "[0, 9] 9000000.0")


@GROUP.check
async def files_are_independent(sandbox: Sandbox) -> None:
    """What a branch or the origin changes in the workspace, nobody else sees."""
    async with opened(sandbox, files={"a.txt": b"a"}) as session:
        async with branched(session, 2) as (one, two):
            await run(one, "open('a.txt', 'w').write('one')\nopen('new.txt', 'w').write('n')")
            await run(session, "import os\nos.remove('a.txt')")
            await expect_output(two, "import os\nprint(open('a.txt').read(), sorted(os.listdir('.')))", "a ['a.txt']")
            await expect_output(
                one, "import os\nprint(open('a.txt').read(), sorted(os.listdir('.')))", "one ['a.txt', 'new.txt']"
            )


@GROUP.check
async def branch_of_a_branch(sandbox: Sandbox) -> None:
    """A branch can be branched again, and each level keeps its own state."""
    async with opened(sandbox) as session:
        await run(session, "path = ['root']")
        async with branched(session, 1) as (child,):
            await run(child, "path.append('child')\nopen('child.txt', 'w').write('c')")
            async with branched(child, 2) as (left, right):
                await run(left, "path.append('left')")
                await expect_output(left, "print(path, open('child.txt').read())", "['root', 'child', 'left'] c")
                await expect_output(right, "print(path)", "['root', 'child']")
            await expect_output(child, "print(path)", "['root', 'child']")
        await expect_output(session, "import os\nprint(path, os.listdir('.'))", "['root'] []")


@GROUP.check
async def absolute_paths_keep_working(sandbox: Sandbox) -> None:
    """An absolute path into the workspace that was made before the branch names the branch's own file after it."""
    async with opened(sandbox) as session:
        await run(session, "import os\nplace = os.path.abspath('a.txt')\nopen(place, 'w').write('origin')")
        async with branched(session, 2) as (one, two):
            await run(one, "open(place, 'w').write('one')")
            await expect_output(one, "print(open(place).read(), open('a.txt').read())", "one one")
            await expect_output(two, "print(open(place).read())", "origin")
            await expect_output(session, "print(open(place).read())", "origin")


@GROUP.check
async def open_files_are_separate(sandbox: Sandbox) -> None:
    """A file that is open at the branch stays open for the origin; a branch finds it at its place or closed."""
    async with opened(sandbox, files={"data.txt": b"0123456789"}) as session:
        await run(session, "f = open('data.txt', 'r+b', buffering=0)\n_ = f.read(2)")
        async with branched(session, 2) as branches:
            for branch in branches:
                code = "try:\n    print(f.read(2))\n    f.write(b'x')\nexcept OSError:\n    print('closed')"
                text = (await run(branch, code)).stdout.strip()
                expect(text in ("b'23'", "closed"), f"a branch read {text} from the file that was open")
            await expect_output(session, "print(f.read(3), open('data.txt').read())", "b'234' 0123456789")


@GROUP.check
async def closing_leaves_the_others(sandbox: Sandbox) -> None:
    """Closing a branch leaves the others, and closing the origin leaves its branches."""
    session = await sandbox.open()
    await run(session, "x = 1")
    async with branched(session, 3) as (one, two, three):
        await one.close()
        await expect_output(two, "print(x)", "1")
        await expect_output(session, "print(x)", "1")
        await session.close()
        await expect_output(two, "x += 1\nprint(x)", "2")
        await run(three, "x = 5\n1 / 0", Status.ERROR)
        await expect_output(three, "print(x)", "1")


@GROUP.check
async def a_failing_branch_leaves_the_others(sandbox: Sandbox) -> None:
    """A branch that is killed is rolled back to the branch point and disturbs nobody."""
    async with opened(sandbox) as session:
        await run(session, "x = 1")
        async with branched(session, 2) as (one, two):
            await run(one, "x = 2\nimport os\nos._exit(1)", Status.KILLED)
            await run(two, "x = 3")
            await expect_output(one, "print(x)", "1")
            await expect_output(two, "print(x)", "3")
            await expect_output(session, "print(x)", "1")


@GROUP.check
async def branches_run_at_the_same_time(sandbox: Sandbox) -> None:
    """Branches run side by side: calls of four of them overlap in time."""
    async with opened(sandbox) as session:
        await run(session, "import time")
        async with branched(session, 4) as branches:
            # On a busy machine the last of them may begin when the first has slept enough.
            for seconds in (0.5, 2, 8):
                code = f"t0 = time.monotonic()\ntime.sleep({seconds})\nprint(t0, time.monotonic())"
                results = await asyncio.gather(*(run(branch, code) for branch in branches))
                spans = [tuple(map(float, result.stdout.split())) for result in results]
                if max(s[0] for s in spans) < min(s[1] for s in spans):
                    return
        expect(False, f"the calls did not overlap: {spans}")


@GROUP.check
async def branch_waits_for_the_running_call(sandbox: Sandbox) -> None:
    """A branch asked for while a call runs starts from the state after that call."""
    async with opened(sandbox) as session:
        await run(session, "x = 1")
        task = asyncio.create_task(session.run("import time\ntime.sleep(0.4)\nx = 2"))
        await asyncio.sleep(0.1)
        async with branched(session, 1) as (branch,):
            expect((await task).ok, "the call that was running did not end well")
            await expect_output(branch, "print(x)", "2")
