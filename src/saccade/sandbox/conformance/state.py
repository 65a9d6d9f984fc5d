"""Checks: a session is one persistent Python interpreter, and its state policy is kept."""

from __future__ import annotations

from saccade.record.status import Status
from saccade.sandbox.base import Sandbox, SessionOptions, StatePolicy
from saccade.sandbox.conformance.check import CheckGroup, expect, expect_output, opened, run

GROUP = CheckGroup("state")


@GROUP.check
async def variables_persist(sandbox: Sandbox) -> None:
    """A variable of one call is there in the next."""
    async with opened(sandbox) as session:
        await run(session, "x = 41")
        await run(session, "x += 1")
        await expect_output(session, "print(x)", "42")


@GROUP.check
async def imports_persist(sandbox: Sandbox) -> None:
    """An import of one call is there in the next."""
    async with opened(sandbox) as session:
        await run(session, "import math\nfrom collections import Counter as C")
        await expect_output(session, "print(math.factorial(5), C('aab')['a'])", "120 2")


@GROUP.check
async def functions_and_classes_persist(sandbox: Sandbox) -> None:
    """Functions (recursive ones too) and classes work across calls and see later globals."""
    async with opened(sandbox) as session:
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


@GROUP.check
async def comprehensions_see_names(sandbox: Sandbox) -> None:
    """Comprehensions, lambdas and nested functions see the names of the cell, as in a module."""
    async with opened(sandbox) as session:
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


@GROUP.check
async def files_persist(sandbox: Sandbox) -> None:
    """The working folder is the workspace, is writable, keeps files, and holds the files given at the start."""
    async with opened(sandbox, files={"given.txt": b"given", "sub/deep.bin": b"\x00\x01"}) as session:
        await run(session, "import os\nos.makedirs('d/e')\nwith open('d/e/a.txt', 'w') as f:\n    f.write('kept')")
        await expect_output(session, "print(open('d/e/a.txt').read(), open('given.txt').read())", "kept given")
        await expect_output(session, "print(open('sub/deep.bin', 'rb').read())", "b'\\x00\\x01'")


@GROUP.check
async def name_is_main(sandbox: Sandbox) -> None:
    """`if __name__ == '__main__'` runs, since models write it."""
    async with opened(sandbox) as session:
        await expect_output(session, "if __name__ == '__main__':\n    print('runs')", "runs")


@GROUP.check
async def pickles_and_dataclasses(sandbox: Sandbox) -> None:
    """Classes of a cell can be pickled, and dataclasses and type hints resolve, as in a script."""
    async with opened(sandbox) as session:
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


@GROUP.check
async def sessions_are_separate(sandbox: Sandbox) -> None:
    """Two sessions of one sandbox share neither variables nor files nor modules."""
    async with opened(sandbox) as one, opened(sandbox) as two:
        await run(one, "import math\nx = 1\nmath.pi = 3\nopen('mine.txt', 'w').write('1')")
        await expect_output(
            two,
            "import math, os\nprint('x' in globals(), math.pi > 3.1, os.path.exists('mine.txt'))",
            "False True False",
        )


@GROUP.check
async def policy_keep(sandbox: Sandbox) -> None:
    """With the policy `keep`, what ran before an exception stays."""
    async with opened(sandbox, options=SessionOptions(state=StatePolicy.KEEP)) as session:
        await run(session, "x = 1\nitems = []")
        result = await run(session, "x = 2\nitems.append(1)\n1 / 0\nx = 3", Status.ERROR)
        expect(result.committed, "with the policy `keep` the state after an exception is the session's state")
        await expect_output(session, "print(x, items)", "2 [1]")


@GROUP.check
async def policy_keep_kill_is_rolled_back(sandbox: Sandbox) -> None:
    """With the policy `keep`, a call that was killed is rolled back all the same."""
    async with opened(sandbox, options=SessionOptions(state=StatePolicy.KEEP)) as session:
        await run(session, "x = 1")
        await run(session, "x = 2\nwhile True: pass", Status.TIMEOUT, wall_seconds=0.5)
        await run(session, "x = 3\nimport os\nos._exit(0)", Status.KILLED)
        await expect_output(session, "print(x)", "1")


@GROUP.check
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


@GROUP.check
async def traceback_is_short(sandbox: Sandbox) -> None:
    """A traceback names the user's line and function and shows none of the sandbox's own frames."""
    async with opened(sandbox) as session:
        await run(session, "def inner(v):\n    return 1 / v")
        result = await run(session, "a = 1\nb = inner(0)", Status.ERROR)
        text = result.traceback or ""
        expect("ZeroDivisionError" in text and "inner" in text and "line 2" in text, f"traceback lacks facts: {text}")
        expect("guest" not in text and "saccade" not in text, f"frames of the sandbox are shown: {text}")


@GROUP.check
async def syntax_error_is_an_error(sandbox: Sandbox) -> None:
    """Code that does not compile is an error of the program, with the line named, and nothing of it runs."""
    async with opened(sandbox) as session:
        result = await run(session, "x = 1\nif True print(1)", Status.ERROR)
        expect("SyntaxError" in (result.traceback or ""), f"no SyntaxError in {result.traceback!r}")
        await expect_output(session, "print('x' in globals())", "False")
        await run(session, "x = 'a\0b'", Status.ERROR)
        await expect_output(session, "print(1)", "1")
