"""Checks: a failed call leaves nothing behind, whatever it did and however it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from saccade.plugins.audit.conformance.check import (
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
from saccade.sandbox.base import Sandbox, Session, SessionOptions, StatePolicy

ROLLBACK = CheckGroup("rollback")


@ROLLBACK.session()
async def exception(session: Session) -> None:
    """An exception undoes new names, changed names, deleted names and changed lists."""
    await run(session, "items = [1, 2]\ngone = 'still here'\nnested = {'a': [1]}")
    await run(
        session,
        "items.append(3)\ndel gone\nnested['a'].append(2)\nnew = 1\nraise ValueError('no')",
        Status.ERROR,
    )
    await expect_output(session, "print(items, gone, nested, 'new' in globals())", "[1, 2] still here {'a': [1]} False")


@ROLLBACK.session()
async def random_state(session: Session) -> None:
    """The state of `random` and of `numpy.random` is as before."""
    await run(session, "import random\nimport numpy as np\nrandom.seed(5)\nnp.random.seed(5)")
    draw = "print(random.random(), np.random.rand())"
    failed = await run(session, draw + "\n1 / 0", Status.ERROR)
    again = await run(session, draw)
    expect_equal(again.stdout, failed.stdout, "numbers drawn after the rollback")


@ROLLBACK.session()
async def array_contents(session: Session) -> None:
    """The contents of numpy arrays and of pictures are as before."""
    await run(
        session,
        (
            "import numpy as np\n"
            "from PIL import Image\n"
            "a = np.arange(1_000_000)\n"
            "im = Image.new('RGB', (64, 64), (1, 2, 3))"
        ),
    )
    await run(session, "a[:] = 0\nim.putpixel((0, 0), (9, 9, 9))\n1 / 0", Status.ERROR)
    await expect_output(session, "print(a.sum(), im.getpixel((0, 0)))", "499999500000 (1, 2, 3)")


@ROLLBACK.session(files={"data.txt": b"0123456789"})
async def open_file_offset(session: Session) -> None:
    """A file that was open before the call still reads and writes at the place where it stood."""
    await run(session, "f = open('data.txt', 'rb', buffering=0)\nhead = f.read(3)")
    await run(session, "f.read(4)\n1 / 0", Status.ERROR)
    await expect_output(session, "print(head, f.tell(), f.read(2))", "b'012' 3 b'34'")


@ROLLBACK.session()
async def open_file_for_writing(session: Session) -> None:
    """Data that a failed call wrote to a file opened before is gone, and writing continues at the old position."""
    await run(session, "f = open('log.txt', 'w')\nf.write('one ')\n_ = f.flush()")
    await run(session, "f.write('bad ')\nf.flush()\n1 / 0", Status.ERROR)
    await run(session, "f.write('two')\nf.close()")
    await expect_output(session, "print(repr(open('log.txt').read()))", "'one two'")


@ROLLBACK.session()
async def modules_and_environment(session: Session) -> None:
    """`sys.modules`, patched modules, `os.environ` and the working folder are as before."""
    await run(session, "import os, sys, math\nhome = os.getcwd()\nloaded = set(sys.modules)")
    await run(
        session,
        """
        import colorsys
        sys.modules['invented'] = colorsys
        math.pi = 3
        os.environ['X_LEFT'] = '1'
        os.makedirs('sub')
        os.chdir('sub')
        1 / 0
        """,
        Status.ERROR,
    )
    await expect_output(
        session,
        "print(set(sys.modules) - loaded, math.pi > 3.1, 'X_LEFT' in os.environ, os.getcwd() == home)",
        "set() True False True",
    )


@ROLLBACK.session(files={"a.txt": b"a", "b.txt": b"b", "d/c.txt": b"c"})
async def workspace_files(session: Session) -> None:
    """Files that a failed call created, changed, renamed or deleted are as before, folders and modes included."""
    survey = """
        import os
        found = []
        for root, folders, names in sorted(os.walk('.')):
            for name in sorted(folders):
                found.append((root, name))
            for name in sorted(names):
                path = os.path.join(root, name)
                found.append((path, open(path, 'rb').read(), oct(os.stat(path).st_mode)))
        print(found)
    """
    before = await run(session, survey)
    await run(
        session,
        """
        import os, shutil
        open('new.txt', 'w').write('n')
        open('a.txt', 'w').write('changed')
        os.remove('b.txt')
        shutil.rmtree('d')
        os.makedirs('x/y')
        os.symlink('a.txt', 'link')
        os.rename('a.txt', 'moved.txt')
        1 / 0
        """,
        Status.ERROR,
    )
    after = await run(session, survey)
    expect_equal(after.stdout, before.stdout, "the workspace after the rollback")


@ROLLBACK.session(files={"a.bin": b"x" * 5000})
async def same_size_change(session: Session) -> None:
    """A change that keeps a file's size and its modification time is undone too."""
    await run(session, "open('b.bin', 'wb').write(b'y' * 5000)")
    await run(
        session,
        """
        import os
        for name in ('a.bin', 'b.bin'):
            old = os.stat(name)
            with open(name, 'r+b') as f:
                f.write(b'z' * 5000)
            os.utime(name, ns=(old.st_atime_ns, old.st_mtime_ns))
        1 / 0
        """,
        Status.ERROR,
    )
    await expect_output(
        session,
        "print(open('a.bin','rb').read() == b'x' * 5000, open('b.bin','rb').read() == b'y' * 5000)",
        "True True",
    )


@ROLLBACK.session()
async def timeout(session: Session) -> None:
    """A call that ran out of time is rolled back."""
    await expect_rolled_back(session, "while True: pass", Status.TIMEOUT, wall_seconds=0.5)


@ROLLBACK.session()
async def os_exit(session: Session) -> None:
    """`os._exit`, with any code, is a killed call and is rolled back."""
    await expect_rolled_back(session, "import os\nos._exit(0)", Status.KILLED)
    await expect_rolled_back(session, "import os\nos._exit(3)", Status.KILLED)


@ROLLBACK.session()
async def segmentation_fault(session: Session) -> None:
    """A segmentation fault is a killed call and is rolled back."""
    await expect_rolled_back(session, "import ctypes\nctypes.string_at(0)", Status.KILLED)


@ROLLBACK.session()
async def abort_and_signals(session: Session) -> None:
    """`os.abort` is a killed call; a SIGKILL to itself kills the call or is denied; both are rolled back."""
    await expect_rolled_back(session, "import os\nos.abort()", Status.KILLED)
    await run(session, "marker = 'before'")
    result = await session.run("marker = 'after'\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    expect(result.status in (Status.KILLED, Status.ERROR), f"a SIGKILL to itself gave: {describe(result)}")
    await expect_output(session, "print(marker)", "before")


@ROLLBACK.check
async def memory_error(sandbox: Sandbox) -> None:
    """More memory than the limit is `out_of_memory` and is rolled back."""
    async with opened(sandbox) as session:
        code = f"hoard = [bytearray(b'x') * (1 << 24) for _ in range({4 * sandbox.limits.memory_bytes >> 24})]"
        await expect_rolled_back(session, code, Status.OUT_OF_MEMORY)


@ROLLBACK.session()
async def exit_and_base_exceptions(session: Session) -> None:
    """`sys.exit`, `KeyboardInterrupt` and odd exceptions end the call, not the session."""
    for code in ("import sys; sys.exit(1)", "raise KeyboardInterrupt", "raise GeneratorExit('x')"):
        await run(session, "marker = 'before'")
        result = await session.run("marker = 'after'\n" + code)
        expect(result.status in (Status.ERROR, Status.KILLED), f"{code!r} gave: {describe(result)}")
        await expect_output(session, "print(marker)", "before")


@ROLLBACK.session()
async def unprintable_exception(session: Session) -> None:
    """An exception whose own text raises is reported all the same."""
    code = """
        class Bad(Exception):
            def __str__(self): raise RuntimeError('no text')
            __repr__ = __str__
        raise Bad()
    """
    await expect_rolled_back(session, code, Status.ERROR)


@ROLLBACK.session()
async def thread_left_running(session: Session) -> None:
    """A thread that still runs at the end of the call is refused, and the call rolled back; a joined one is fine."""
    code = "import threading, time\nt = threading.Thread(target=time.sleep, args=(60,), daemon=True)\nt.start()"
    await expect_rolled_back(session, code, Status.REFUSED)
    await run(session, "import threading\nt = threading.Thread(target=lambda: None)\nt.start()\nt.join()")


@ROLLBACK.session()
async def process_left_running(session: Session) -> None:
    """A process that still runs at the end of the call is refused (or ended with it); its state does not stay."""
    await run(session, "marker = 'before'")
    result = await session.run(
        "import os, time\nmarker = 'after'\nif os.fork() == 0:\n    time.sleep(60)\n    os._exit(0)"
    )
    expect(result.status in (Status.REFUSED, Status.ERROR), f"a stray process gave: {describe(result)}")
    await expect_output(session, "print(marker)", "before")


@ROLLBACK.session()
async def many_failures_in_a_row(session: Session) -> None:
    """Twenty failed calls leave a session that works, with its state."""
    await run(session, "x = 0")
    for number in range(20):
        await run(session, f"x = {number}\nopen('f{number}.txt', 'w').write('x')\n1 / 0", Status.ERROR)
    await expect_output(session, "import os\nprint(x, os.listdir('.'))", "0 []")


# A session is one persistent Python interpreter, and its state policy is kept.
STATE = CheckGroup("state")


@STATE.session()
async def variables_persist(session: Session) -> None:
    """A variable of one call is there in the next."""
    await run(session, "x = 41")
    await run(session, "x += 1")
    await expect_output(session, "print(x)", "42")


@STATE.session()
async def imports_persist(session: Session) -> None:
    """An import of one call is there in the next."""
    await run(session, "import math\nfrom collections import Counter as C")
    await expect_output(session, "print(math.factorial(5), C('aab')['a'])", "120 2")


@STATE.session()
async def functions_and_classes_persist(session: Session) -> None:
    """Functions (recursive ones too) and classes work across calls and see later globals."""
    await run(
        session,
        """
        def fib(n):
            return n if n < 2 else fib(n - 1) + fib(n - 2)

        class Box:
            sides = 4
            def area(self, a):
                return a * scale

        def count():
            global calls
            calls = calls + 1 if 'calls' in globals() else 1
        """,
    )
    await run(session, "scale = 3\ncount()\ncount()")
    await expect_output(session, "print(fib(10), Box().area(2), Box.sides, calls)", "55 6 4 2")


@STATE.session()
async def comprehensions_see_names(session: Session) -> None:
    """Comprehensions, lambdas and nested functions see the names of the cell, as in a module."""
    await expect_output(
        session,
        """
        base = 10
        rows = [[base + i + j for j in range(2)] for i in range(2)]
        pick = lambda k: rows[k]
        def outer():
            return [pick(k)[0] for k in range(len(rows))]
        print(rows, outer(), {k: base for k in 'ab'}, sum(base for _ in range(3)))
        """,
        "[[10, 11], [11, 12]] [10, 11] {'a': 10, 'b': 10} 30",
    )


@STATE.session(files={"given.txt": b"given", "sub/deep.bin": b"\x00\x01"})
async def files_persist(session: Session) -> None:
    """The working folder is the workspace, is writable, keeps files, and holds the files given at the start."""
    await run(session, "import os\nos.makedirs('d/e')\nwith open('d/e/a.txt', 'w') as f:\n    f.write('kept')")
    await expect_output(session, "print(open('d/e/a.txt').read(), open('given.txt').read())", "kept given")
    await expect_output(session, "print(open('sub/deep.bin', 'rb').read())", "b'\\x00\\x01'")


@STATE.session()
async def name_is_main(session: Session) -> None:
    """`if __name__ == '__main__'` runs, since models write it."""
    await expect_output(session, "if __name__ == '__main__':\n    print('runs')", "runs")


@STATE.session()
async def pickles_and_dataclasses(session: Session) -> None:
    """Classes of a cell can be pickled, and dataclasses and type hints resolve, as in a script."""
    await run(
        session,
        """
        import pickle, typing
        from dataclasses import dataclass

        @dataclass
        class Point:
            x: int
            y: "int" = 2
        """,
    )
    await expect_output(
        session,
        "print(pickle.loads(pickle.dumps(Point(1))), typing.get_type_hints(Point)['y'].__name__)",
        "Point(x=1, y=2) int",
    )


@STATE.check
async def sessions_are_separate(sandbox: Sandbox) -> None:
    """Two sessions of one sandbox share neither variables nor files nor modules."""
    async with opened(sandbox) as one, opened(sandbox) as two:
        await run(one, "import math\nx = 1\nmath.pi = 3\nopen('mine.txt', 'w').write('1')")
        await expect_output(
            two,
            "import math, os\nprint('x' in globals(), math.pi > 3.1, os.path.exists('mine.txt'))",
            "False True False",
        )


@STATE.session(options=SessionOptions(state=StatePolicy.KEEP))
async def policy_keep(session: Session) -> None:
    """With the policy `keep`, what ran before an exception stays."""
    await run(session, "x = 1\nitems = []")
    result = await run(session, "x = 2\nitems.append(1)\n1 / 0\nx = 3", Status.ERROR)
    expect(result.committed, "with the policy `keep` the state after an exception is the session's state")
    await expect_output(session, "print(x, items)", "2 [1]")


@STATE.session(options=SessionOptions(state=StatePolicy.KEEP))
async def policy_keep_kill_is_rolled_back(session: Session) -> None:
    """With the policy `keep`, a call that was killed is rolled back all the same."""
    await run(session, "x = 1")
    await run(session, "x = 2\nwhile True: pass", Status.TIMEOUT, wall_seconds=0.5)
    await run(session, "x = 3\nimport os\nos._exit(0)", Status.KILLED)
    await expect_output(session, "print(x)", "1")


@STATE.check
async def policy_clear(sandbox: Sandbox) -> None:
    """With the policy `clear`, an exception leaves nothing but the first bindings and files."""
    options = SessionOptions(state=StatePolicy.CLEAR)
    async with opened(sandbox, {"given": 7}, files={"a.txt": b"first"}, options=options) as session:
        await run(session, "x = 1\ngiven = 8\nopen('a.txt', 'w').write('second')\nopen('b.txt', 'w').write('b')")
        await run(session, "1 / 0", Status.ERROR)
        await expect_output(
            session,
            "import os\nprint('x' in globals(), given, open('a.txt').read(), os.path.exists('b.txt'))",
            "False 7 first False",
        )


@STATE.session()
async def traceback_is_short(session: Session) -> None:
    """A traceback names the user's line and function and shows none of the sandbox's own frames."""
    await run(session, "def inner(v):\n    return 1 / v")
    result = await run(session, "a = 1\nb = inner(0)", Status.ERROR)
    text = result.traceback or ""
    expect("ZeroDivisionError" in text and "inner" in text and "line 2" in text, f"traceback lacks facts: {text}")
    expect("guest" not in text and "saccade" not in text, f"frames of the sandbox are shown: {text}")


@STATE.session()
async def syntax_error_is_an_error(session: Session) -> None:
    """Code that does not compile is an error of the program, with the line named, and nothing of it runs."""
    result = await run(session, "x = 1\nif True print(1)", Status.ERROR)
    expect("SyntaxError" in (result.traceback or ""), f"no SyntaxError in {result.traceback!r}")
    await expect_output(session, "print('x' in globals())", "False")
    await run(session, "x = 'a\0b'", Status.ERROR)
    await expect_output(session, "print(1)", "1")


# Branches start from the state of their origin and are independent from then on.
BRANCHES = CheckGroup("branches")


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


@BRANCHES.session({"given": [1, 2]}, files={"a.txt": b"a"})
async def branches_see_the_state(session: Session) -> None:
    """Eight branches see variables, functions, imports, random state and files of their origin."""
    await run(
        session,
        "import random\nrandom.seed(3)\nx = 5\ndef double(v):\n    return 2 * v\nopen('b.txt','w').write('b')",
    )
    show = "print(double(x), given, open('a.txt').read(), open('b.txt').read(), random.random())"
    async with branched(session, 8) as branches:
        texts = {(await run(branch, show)).stdout for branch in branches}
    expect_equal(len(texts), 1, f"number of different answers of the branches {texts}")
    expect(texts.pop().startswith("10 [1, 2] a b 0.2379"), "the branches do not see the state of their origin")


@BRANCHES.session(files={"a.txt": b"0123456789"})
async def branches_stand_where_their_origin_does(session: Session) -> None:
    """In the same folder, with the same positions in open files, and doubles of one opening are doubles there, too."""
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


@BRANCHES.session()
async def memory_is_independent(session: Session) -> None:
    """Changes of a branch or the origin in memory are seen by no other."""
    await run(session, "import numpy as np\nitems = [0]\na = np.zeros(1_000_000)")
    async with branched(session, 2) as (one, two):
        await run(one, "items.append(1)\na[:] = 1")
        await run(session, "items.append(9)\na[:] = 9")
        await expect_output(two, "print(items, a.sum())", "[0] 0.0")
        await expect_output(one, "print(items, a.sum())", "[0, 1] 1000000.0")
        await expect_output(session, "print(items, a.sum())", "[0, 9] 9000000.0")


@BRANCHES.session(files={"a.txt": b"a"})
async def files_are_independent(session: Session) -> None:
    """Changes of a branch or the origin in the workspace are seen by no other."""
    async with branched(session, 2) as (one, two):
        await run(one, "open('a.txt', 'w').write('one')\nopen('new.txt', 'w').write('n')")
        await run(session, "import os\nos.remove('a.txt')")
        await expect_output(two, "import os\nprint(open('a.txt').read(), sorted(os.listdir('.')))", "a ['a.txt']")
        await expect_output(
            one, "import os\nprint(open('a.txt').read(), sorted(os.listdir('.')))", "one ['a.txt', 'new.txt']"
        )


@BRANCHES.session()
async def branch_of_a_branch(session: Session) -> None:
    """A branch can be branched again, and each level keeps its own state."""
    await run(session, "path = ['root']")
    async with branched(session, 1) as (child,):
        await run(child, "path.append('child')\nopen('child.txt', 'w').write('c')")
        async with branched(child, 2) as (left, right):
            await run(left, "path.append('left')")
            await expect_output(left, "print(path, open('child.txt').read())", "['root', 'child', 'left'] c")
            await expect_output(right, "print(path)", "['root', 'child']")
        await expect_output(child, "print(path)", "['root', 'child']")
    await expect_output(session, "import os\nprint(path, os.listdir('.'))", "['root'] []")


@BRANCHES.session()
async def absolute_paths_keep_working(session: Session) -> None:
    """An absolute path into the workspace that was made before the branch names the branch's own file after it."""
    await run(session, "import os\nplace = os.path.abspath('a.txt')\nopen(place, 'w').write('origin')")
    async with branched(session, 2) as (one, two):
        await run(one, "open(place, 'w').write('one')")
        await expect_output(one, "print(open(place).read(), open('a.txt').read())", "one one")
        await expect_output(two, "print(open(place).read())", "origin")
        await expect_output(session, "print(open(place).read())", "origin")


@BRANCHES.session(files={"data.txt": b"0123456789"})
async def open_files_are_separate(session: Session) -> None:
    """A file that is open at the branch stays open for the origin; a branch finds it at its place or closed."""
    await run(session, "f = open('data.txt', 'r+b', buffering=0)\n_ = f.read(2)")
    async with branched(session, 2) as branches:
        for branch in branches:
            code = "try:\n    print(f.read(2))\n    f.write(b'x')\nexcept OSError:\n    print('closed')"
            text = (await run(branch, code)).stdout.strip()
            expect(text in ("b'23'", "closed"), f"a branch read {text} from the file that was open")
        await expect_output(session, "print(f.read(3), open('data.txt').read())", "b'234' 0123456789")


@BRANCHES.check
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


@BRANCHES.session()
async def a_failing_branch_leaves_the_others(session: Session) -> None:
    """A branch that is killed is rolled back to the branch point and disturbs nobody."""
    await run(session, "x = 1")
    async with branched(session, 2) as (one, two):
        await run(one, "x = 2\nimport os\nos._exit(1)", Status.KILLED)
        await run(two, "x = 3")
        await expect_output(one, "print(x)", "1")
        await expect_output(two, "print(x)", "3")
        await expect_output(session, "print(x)", "1")


@BRANCHES.session()
async def branches_run_at_the_same_time(session: Session) -> None:
    """Branches run side by side: calls of four of them overlap in time."""
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


@BRANCHES.session()
async def branch_waits_for_the_running_call(session: Session) -> None:
    """A branch asked for while a call runs starts from the state after that call."""
    await run(session, "x = 1")
    task = asyncio.create_task(session.run("import time\ntime.sleep(0.4)\nx = 2"))
    await asyncio.sleep(0.1)
    async with branched(session, 1) as (branch,):
        expect((await task).ok, "the call that was running did not end well")
        await expect_output(branch, "print(x)", "2")
