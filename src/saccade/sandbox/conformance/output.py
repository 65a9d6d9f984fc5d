"""Checks: text comes back whole up to its cap, whatever the program writes, and a cut is stated."""

from __future__ import annotations

from saccade.record.status import Status
from saccade.sandbox.base import Sandbox, SessionOptions
from saccade.sandbox.conformance.captures import IMPORTS
from saccade.sandbox.conformance.check import CheckGroup, describe, expect, expect_equal, expect_output, opened, run

GROUP = CheckGroup("output")

SLACK = 512
"""Bytes by which a text may exceed its cap, for the sentence that states the cut."""


@GROUP.check
async def stdout_and_stderr(sandbox: Sandbox) -> None:
    """stdout and stderr come back apart, from print, from `sys.stdout.write` and from the file descriptors."""
    async with opened(sandbox) as session:
        code = (
            "import os, sys\n"
            "print('a')\n"
            "sys.stdout.write('b\\n"
            "')\n"
            "sys.stdout.flush()\n"
            "os.write(1, b'c\\n"
            "')\n"
            "print('d', file=sys.stderr)\n"
            "os.write(2, b'e\\n"
            "')"
        )
        result = await run(session, code)
        expect_equal(result.stdout.split(), ["a", "b", "c"], "stdout")
        expect_equal(result.stderr.split(), ["d", "e"], "stderr")


@GROUP.check
async def every_call_has_its_own_output(sandbox: Sandbox) -> None:
    """Output of one call (unflushed text included) is not seen in the next one, nor after a rollback."""
    async with opened(sandbox) as session:
        expect_equal((await run(session, "import sys\n_ = sys.stdout.write('one')")).stdout, "one", "stdout")
        await run(session, "_ = sys.stdout.write('lost')\n1 / 0", Status.ERROR)
        expect_equal((await run(session, "print('two')")).stdout.strip(), "two", "stdout of the next call")


@GROUP.check
async def partial_output_of_a_timeout(sandbox: Sandbox) -> None:
    """What a call printed before it ran out of time comes back, flushed or not."""
    async with opened(sandbox) as session:
        result = await run(session, "print('so far')\nwhile True: pass", Status.TIMEOUT, wall_seconds=0.5)
        expect("so far" in result.stdout, f"the text before the time-out is gone: {describe(result)}")


@GROUP.check
async def unicode_text(sandbox: Sandbox) -> None:
    """Text of any language comes back; lone surrogates and bytes that are no text cannot break the call."""
    async with opened(sandbox) as session:
        text = "ä € \u2603 \U0001f600 \u202e"
        expect_equal((await run(session, f"print({text!r})")).stdout.rstrip("\n"), text, "stdout")
        result = await run(session, r"print('a\ud800b')" + "\nimport os\nos.write(1, b'\\xff\\xfe\\x00z')\n'\\udfff'")
        expect("a" in result.stdout and "z" in result.stdout, f"odd text broke the output: {describe(result)}")
        (result.stdout + (result.value or "")).encode("utf-8")
        result = await run(session, "class Odd:\n    def __repr__(self): return 'odd \\ud800'\nOdd()")
        expect("odd" in (result.value or ""), f"half a letter lost a value: {describe(result)}")
        result = await run(session, r"raise ValueError('odd \ud800')", Status.ERROR)
        expect("odd" in (result.traceback or ""), f"half a letter lost an error: {describe(result)}")


@GROUP.check
async def text_is_capped(sandbox: Sandbox) -> None:
    """Text over the cap is cut, its beginning is kept, and a note says that it was cut."""
    cap = sandbox.limits.output_bytes
    async with opened(sandbox) as session:
        for stream in ("stdout", "stderr"):
            result = await run(session, f"import sys\nprint('start' + 'x' * {3 * cap}, file=sys.{stream})")
            text = getattr(result, stream)
            expect(text.startswith("start"), f"the beginning of {stream} is gone")
            expect(len(text.encode()) <= cap + SLACK, f"{len(text)} characters of {stream} came back, the cap is {cap}")
            expect(bool(result.notes), f"no note says that {stream} was cut")


@GROUP.check
async def value_is_capped(sandbox: Sandbox) -> None:
    """A huge last expression and a huge error message are cut as well."""
    cap = sandbox.limits.output_bytes
    async with opened(sandbox) as session:
        result = await run(session, f"'x' * {4 * cap}")
        expect(
            len((result.value or "").encode()) <= cap + SLACK,
            f"a value of {len(result.value or '')} characters came back",
        )
        result = await run(session, f"raise ValueError('y' * {4 * cap})", Status.ERROR)
        length = len((result.traceback or "").encode())
        expect(0 < length <= cap + SLACK, f"a traceback of {length} bytes came back, the cap is {cap}")


@GROUP.check
async def flood(sandbox: Sandbox) -> None:
    """A flood of a gigabyte is cut, harms nobody, and the session continues."""
    cap = sandbox.limits.output_bytes
    async with opened(sandbox) as session:
        code = "import os\nblock = b'x' * (1 << 20)\nfor _ in range(1024):\n    os.write(1, block)"
        result = await session.run(code)
        expect(result.status in (Status.OK, Status.ERROR, Status.KILLED, Status.TIMEOUT), describe(result)[:500])
        expect(len(result.stdout) <= cap + SLACK, f"{len(result.stdout)} characters came back, the cap is {cap}")
        await expect_output(session, "print(1)", "1")


@GROUP.check
async def picture_count_is_capped(sandbox: Sandbox) -> None:
    """Pictures over the cap are dropped, the first ones are kept, and a note says so."""
    cap = sandbox.limits.pictures
    async with opened(sandbox) as session:
        result = await run(session, IMPORTS + f"for i in range({cap + 5}):\n    flat((i, i, i)).show()")
        expect_equal([p.data[0] for p in result.pictures], list(range(cap)), "the pictures that were kept")
        expect(bool(result.notes), "no note says that pictures were dropped")


@GROUP.check
async def picture_size_is_capped(sandbox: Sandbox) -> None:
    """A picture with too many pixels is scaled down to the cap, its shape kept, and a note says so."""
    cap = sandbox.limits.picture_pixels
    async with opened(sandbox) as session:
        width = 2 * int(cap**0.5)
        result = await run(session, IMPORTS + f"Image.new('L', ({width}, {width})).show()")
        expect_equal(len(result.pictures), 1, f"number of pictures ({describe(result)})")
        picture = result.pictures[0]
        expect(
            picture.width * picture.height <= cap,
            f"{picture.width}x{picture.height} came back, the cap is {cap} pixels",
        )
        expect(abs(picture.width - picture.height) <= 2, "the shape was not kept")
        expect(bool(result.notes), "no note says that the picture was scaled")


@GROUP.check
async def total_pixels_are_capped(sandbox: Sandbox) -> None:
    """The pixels of all pictures of a call together stay within the cap."""
    limits = sandbox.limits
    async with opened(sandbox) as session:
        side = int(limits.picture_pixels**0.5)
        result = await run(
            session, IMPORTS + f"for i in range({limits.pictures}):\n    Image.new('L', ({side}, {side}), i).show()"
        )
        total = sum(p.width * p.height for p in result.pictures)
        expect(total <= limits.total_pixels, f"{total} pixels came back, the cap is {limits.total_pixels}")
        expect(len(result.pictures) >= 1, "no picture came back")


@GROUP.check
async def replaced_stdout(sandbox: Sandbox) -> None:
    """A program that closes or replaces stdout does not break the next call."""
    async with opened(sandbox) as session:
        await session.run("import sys, os\nsys.stdout.close()")
        await expect_output(session, "print(1)", "1")
        await session.run("import sys, io\nsys.stdout = io.StringIO()\nsys.stderr = None\nsys.displayhook = None")
        await expect_output(session, "print(2)", "2")
        await session.run("import os\nos.close(1)\nos.close(2)")
        await expect_output(session, "print(3)", "3")


@GROUP.check
async def standard_input_is_empty(sandbox: Sandbox) -> None:
    """`input()` does not wait for ever: it ends the call with an error."""
    async with opened(sandbox) as session:
        await run(session, "x = input('name? ')", Status.ERROR, wall_seconds=3)


@GROUP.check
async def last_expression_off(sandbox: Sandbox) -> None:
    """With `last_expression=False` no value is reported."""
    async with opened(sandbox, options=SessionOptions(last_expression=False)) as session:
        result = await run(session, "5")
        expect_equal(result.value, None, "value")
