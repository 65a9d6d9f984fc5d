"""Checks: a failed call leaves nothing behind, whatever it did and however it ended."""

from __future__ import annotations

from saccade.record.status import Status
from saccade.sandbox.base import Sandbox
from saccade.sandbox.conformance.check import (
    CheckGroup,
    describe,
    expect,
    expect_equal,
    expect_output,
    expect_rolled_back,
    opened,
    run,
)

GROUP = CheckGroup("rollback")


@GROUP.check
async def exception(sandbox: Sandbox) -> None:
    """An exception undoes new names, changed names, deleted names and changed lists."""
    async with opened(sandbox) as session:
        await run(session, "items = [1, 2]\ngone = 'still here'\nnested = {'a': [1]}")
        await run(
            session,
            "items.append(3)\ndel gone\nnested['a'].append(2)\nnew = 1\nraise ValueError('no')",
            Status.ERROR,
        )
        await expect_output(
            session, "print(items, gone, nested, 'new' in globals())", "[1, 2] still here {'a': [1]} False"
        )


@GROUP.check
async def random_state(sandbox: Sandbox) -> None:
    """The state of `random` and of `numpy.random` is as before."""
    async with opened(sandbox) as session:
        await run(session, "import random\nimport numpy as np\nrandom.seed(5)\nnp.random.seed(5)")
        draw = "print(random.random(), np.random.rand())"
        failed = await run(session, draw + "\n1 / 0", Status.ERROR)
        again = await run(session, draw)
        expect_equal(again.stdout, failed.stdout, "numbers drawn after the rollback")


@GROUP.check
async def array_contents(sandbox: Sandbox) -> None:
    """The contents of numpy arrays and of pictures are as before."""
    async with opened(sandbox) as session:
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


@GROUP.check
async def open_file_offset(sandbox: Sandbox) -> None:
    """A file that was open before the call still reads and writes at the place where it stood."""
    async with opened(sandbox, files={"data.txt": b"0123456789"}) as session:
        await run(session, "f = open('data.txt', 'rb', buffering=0)\nhead = f.read(3)")
        await run(session, "f.read(4)\n1 / 0", Status.ERROR)
        await expect_output(session, "print(head, f.tell(), f.read(2))", "b'012' 3 b'34'")


@GROUP.check
async def open_file_for_writing(sandbox: Sandbox) -> None:
    """What a failed call wrote to a file that was open before is gone, and writing continues where it stood."""
    async with opened(sandbox) as session:
        await run(session, "f = open('log.txt', 'w')\nf.write('one ')\n_ = f.flush()")
        await run(session, "f.write('bad ')\nf.flush()\n1 / 0", Status.ERROR)
        await run(session, "f.write('two')\nf.close()")
        await expect_output(session, "print(repr(open('log.txt').read()))", "'one two'")


@GROUP.check
async def modules_and_environment(sandbox: Sandbox) -> None:
    """`sys.modules`, patched modules, `os.environ` and the working folder are as before."""
    async with opened(sandbox) as session:
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


@GROUP.check
async def workspace_files(sandbox: Sandbox) -> None:
    """Files that a failed call created, changed, renamed or deleted are as before, folders and modes included."""
    async with opened(sandbox, files={"a.txt": b"a", "b.txt": b"b", "d/c.txt": b"c"}) as session:
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


@GROUP.check
async def same_size_change(sandbox: Sandbox) -> None:
    """A change that keeps a file's size and its modification time is undone too."""
    async with opened(sandbox, files={"a.bin": b"x" * 5000}) as session:
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


@GROUP.check
async def timeout(sandbox: Sandbox) -> None:
    """A call that ran out of time is rolled back."""
    async with opened(sandbox) as session:
        await expect_rolled_back(session, "while True: pass", Status.TIMEOUT, wall_seconds=0.5)


@GROUP.check
async def os_exit(sandbox: Sandbox) -> None:
    """`os._exit`, with any code, is a killed call and is rolled back."""
    async with opened(sandbox) as session:
        await expect_rolled_back(session, "import os\nos._exit(0)", Status.KILLED)
        await expect_rolled_back(session, "import os\nos._exit(3)", Status.KILLED)


@GROUP.check
async def segmentation_fault(sandbox: Sandbox) -> None:
    """A segmentation fault is a killed call and is rolled back."""
    async with opened(sandbox) as session:
        await expect_rolled_back(session, "import ctypes\nctypes.string_at(0)", Status.KILLED)


@GROUP.check
async def abort_and_signals(sandbox: Sandbox) -> None:
    """`os.abort` is a killed call; a SIGKILL to itself kills the call or is denied; both are rolled back."""
    async with opened(sandbox) as session:
        await expect_rolled_back(session, "import os\nos.abort()", Status.KILLED)
        await run(session, "marker = 'before'")
        result = await session.run("marker = 'after'\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
        expect(result.status in (Status.KILLED, Status.ERROR), f"a SIGKILL to itself gave: {describe(result)}")
        await expect_output(session, "print(marker)", "before")


@GROUP.check
async def memory_error(sandbox: Sandbox) -> None:
    """More memory than the limit is `out_of_memory` and is rolled back."""
    async with opened(sandbox) as session:
        code = f"hoard = [bytearray(b'x') * (1 << 24) for _ in range({4 * sandbox.limits.memory_bytes >> 24})]"
        await expect_rolled_back(session, code, Status.OUT_OF_MEMORY)


@GROUP.check
async def exit_and_base_exceptions(sandbox: Sandbox) -> None:
    """`sys.exit`, `KeyboardInterrupt` and odd exceptions end the call, not the session."""
    async with opened(sandbox) as session:
        for code in ("import sys; sys.exit(1)", "raise KeyboardInterrupt", "raise GeneratorExit('x')"):
            await run(session, "marker = 'before'")
            result = await session.run("marker = 'after'\n" + code)
            expect(result.status in (Status.ERROR, Status.KILLED), f"{code!r} gave: {describe(result)}")
            await expect_output(session, "print(marker)", "before")


@GROUP.check
async def unprintable_exception(sandbox: Sandbox) -> None:
    """An exception whose own text raises is reported all the same."""
    async with opened(sandbox) as session:
        code = """
            class Bad(Exception):
                def __str__(self): raise RuntimeError('no text')
                __repr__ = __str__
            raise Bad()
        """
        await expect_rolled_back(session, code, Status.ERROR)


@GROUP.check
async def thread_left_running(sandbox: Sandbox) -> None:
    """A thread that still runs at the end of the call is refused, and the call rolled back; a joined one is fine."""
    async with opened(sandbox) as session:
        code = "import threading, time\nt = threading.Thread(target=time.sleep, args=(60,), daemon=True)\nt.start()"
        await expect_rolled_back(session, code, Status.REFUSED)
        await run(session, "import threading\nt = threading.Thread(target=lambda: None)\nt.start()\nt.join()")


@GROUP.check
async def process_left_running(sandbox: Sandbox) -> None:
    """A process that still runs at the end of the call is refused (or ended with it); its state does not stay."""
    async with opened(sandbox) as session:
        await run(session, "marker = 'before'")
        result = await session.run(
            "import os, time\nmarker = 'after'\nif os.fork() == 0:\n    time.sleep(60)\n    os._exit(0)"
        )
        expect(result.status in (Status.REFUSED, Status.ERROR), f"a stray process gave: {describe(result)}")
        await expect_output(session, "print(marker)", "before")


@GROUP.check
async def many_failures_in_a_row(sandbox: Sandbox) -> None:
    """Twenty failed calls leave a session that works, with its state."""
    async with opened(sandbox) as session:
        await run(session, "x = 0")
        for number in range(20):
            await run(session, f"x = {number}\nopen('f{number}.txt', 'w').write('x')\n1 / 0", Status.ERROR)
        await expect_output(session, "import os\nprint(x, os.listdir('.'))", "0 []")
