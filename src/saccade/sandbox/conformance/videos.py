"""Checks: a video bound by name is a reader of its frames, exact, lazy, and at home in calls that fail and branches.

The videos are animated GIFs, which a provider can decode without PyAV.
"""

from __future__ import annotations

import io

from PIL import Image

from saccade.record.status import Status
from saccade.sandbox.base import Sandbox, SessionOptions, VideoFile
from saccade.sandbox.conformance.branches import branched
from saccade.sandbox.conformance.check import CheckGroup, expect, expect_output, opened, run

GROUP = CheckGroup("videos")

LEVELS = tuple(range(0, 240, 20))
"""Grey level of each frame."""
_ALL = str(list(LEVELS))
_READ = "print([int(v[i][3, 5, 1]) for i in range(len(v))])"


def animation() -> bytes:
    """A GIF of one grey level after the other, 10 a second."""
    target = io.BytesIO()
    first, *rest = (Image.new("L", (24, 16), level) for level in LEVELS)
    first.save(target, "GIF", save_all=True, append_images=rest, duration=100)
    return target.getvalue()


@GROUP.check
async def frames_by_number(sandbox: Sandbox) -> None:
    """A bound video has a length, a rate and exact frames, which are numpy arrays with `asnumpy`."""
    async with opened(sandbox, {"v": VideoFile("in/v.gif")}, files={"in/v.gif": animation()}) as session:
        await expect_output(session, _READ, _ALL)
        code = (
            "print(len(v), v.get_avg_fps(), v[-1].asnumpy().shape, v.get_batch([3, 0]).asnumpy()[:, 0, 0, 0].tolist())"
        )
        await expect_output(session, code, f"{len(LEVELS)} 10.0 (16, 24, 3) [60, 0]")


@GROUP.check
async def the_library_that_programs_know(sandbox: Sandbox) -> None:
    """`decord` can be imported, and its reader opens the file by its path."""
    files = {"v.gif": animation()}
    async with opened(sandbox, files=files, options=SessionOptions(preload=("VideoReader", "cpu"))) as session:
        await expect_output(session, "v = VideoReader('v.gif', ctx=cpu(0))\n" + _READ, _ALL)
        code = "import decord\nfrom decord import VideoReader, cpu, gpu\nv = decord.VideoReader('v.gif')\n"
        await expect_output(session, code + _READ, _ALL)


@GROUP.check
async def survives_a_failed_call(sandbox: Sandbox) -> None:
    """A reader that was used, and whose file was overwritten, in a call that failed works on."""
    async with opened(sandbox, {"v": VideoFile("v.gif")}, files={"v.gif": animation()}) as session:
        await run(session, "first = v[0]\nopen('v.gif', 'w').write('x')\n1 / 0", Status.ERROR)
        await expect_output(session, _READ, _ALL)
        await run(session, "x = v[4]\nopen('v.gif', 'w').write('x')\n1 / 0", Status.ERROR)
        await expect_output(session, "print(v[11][0, 0].tolist(), v[1][0, 0].tolist())", "[220, 220, 220] [20, 20, 20]")


@GROUP.check
async def works_in_branches(sandbox: Sandbox) -> None:
    """Branches of a session that has used the reader read on by themselves, each its own file."""
    async with opened(sandbox, {"v": VideoFile("v.gif")}, files={"v.gif": animation()}) as session:
        await run(session, "x = v[4]")
        async with branched(session, 2) as (one, two):
            await run(one, "import os\nos.remove('v.gif')")
            await expect_output(two, _READ, _ALL)
        await expect_output(session, _READ, _ALL)


@GROUP.check
async def broken_video(sandbox: Sandbox) -> None:
    """A file that is no video is an error that says so, when it is used and not before."""
    async with opened(sandbox, {"v": VideoFile("v.gif")}, files={"v.gif": b"GIF89a and no more"}) as session:
        await expect_output(session, "print('v' in globals())", "True")
        result = await run(session, "v[0]", Status.ERROR)
        expect("broken" in (result.traceback or ""), f"the error does not say what is wrong: {result.traceback!r}")
