"""Videos in the jail: real codecs, the libraries that programs reach for, files that are large, broken or lie."""

from __future__ import annotations

from collections.abc import AsyncIterator
from textwrap import dedent

import pytest
import pytest_asyncio
from tests.media import clips
from tests.sandbox.providers import PROVIDERS, SUITES, linux_only

from saccade.errors import SandboxError
from saccade.record.execution import Status
from saccade.sandbox.base import MIB, Limits, Sandbox, Session, SessionOptions, VideoFile
from saccade.sandbox.result import RunResult

pytest.importorskip("av", reason="the extra `video` is not installed")
pytestmark = [linux_only, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

LIMITS = Limits(memory_bytes=512 * MIB, file_bytes=128 * MIB, workspace_bytes=160 * MIB)
TIMES = (0, 40, 47, 300, 310, 320, 1000)
FILES = {"in/a.mp4": clips.h264(60), "b.webm": clips.vp9(40), "c.mkv": clips.variable_rate(TIMES)}
VIDEOS = {"video_clue_0": VideoFile("in/a.mp4"), "webm": VideoFile("b.webm"), "mkv": VideoFile("c.mkv")}
OPTIONS = SessionOptions(preload=("VideoReader", "cpu", "np"))


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SUITES)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    async with PROVIDERS[request.param](LIMITS) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def session(sandbox: Sandbox) -> AsyncIterator[Session]:
    opened = await sandbox.open(VIDEOS, files=FILES, options=OPTIONS)
    await ok(opened, clips.READ)
    yield opened
    await opened.close()


async def ok(session: Session, code: str) -> str:
    result = await session.run(dedent(code))
    assert result.status is Status.OK, result.traceback
    assert result.committed
    return result.stdout.strip()


async def fails(session: Session, code: str, status: Status = Status.ERROR) -> RunResult:
    result = await session.run(dedent(code))
    assert result.status is status, result
    assert not result.committed
    return result


@pytest.mark.slow
async def test_every_frame_of_every_codec(session: Session) -> None:
    for name, count in (("video_clue_0", 60), ("webm", 40), ("mkv", len(TIMES))):
        numbers = list(range(count))
        assert await ok(session, f"print([number_of(frame) for frame in {name}])") == str(numbers)
        backwards = f"print([number_of({name}[-1 - i].asnumpy()) for i in range(len({name}))])"
        assert await ok(session, backwards) == str(numbers[::-1])
    times = "print(np.round(mkv.get_frame_timestamp(range(len(mkv)))[:, 0] * 1000).astype(int).tolist())"
    assert await ok(session, times) == str(list(TIMES))


async def test_an_open_reader_lives_through_calls_and_branches(session: Session) -> None:
    assert await ok(session, "video_clue_0.seek(20)\nprint(number_of(video_clue_0.next()))") == "20"
    await fails(session, "video_clue_0[55]\nvideo_clue_0.seek(0)\nopen('in/a.mp4', 'w').write('x')\n1 / 0")
    assert await ok(session, "print(number_of(video_clue_0.next()), number_of(video_clue_0[3]))") == "21 3"
    one, two = await session.branch(2)
    await ok(one, "import os\nos.remove('in/a.mp4')")
    assert await ok(two, "print([number_of(f) for f in video_clue_0[22:58:7]])") == "[22, 29, 36, 43, 50, 57]"
    await fails(one, "del video_clue_0\nVideoReader('in/a.mp4')")
    for branch in (one, two):
        await branch.close()


async def test_opencv_and_pyav_leave_no_thread(session: Session) -> None:
    """Both would start a thread for each core, and a call with a thread cannot be kept."""
    capture = """
        import cv2
        capture = cv2.VideoCapture('in/a.mp4')
        capture.set(cv2.CAP_PROP_POS_FRAMES, 33)
        found, frame = capture.read()
        print(int(capture.get(cv2.CAP_PROP_FRAME_COUNT)), found, number_of(frame))
    """
    assert await ok(session, capture) == "60 True 33"
    assert await ok(session, "print(number_of(capture.read()[1]))") == "34"
    direct = """
        import av
        container = av.open('b.webm')
        frames = container.decode(video=0)
        print([number_of(next(frames).to_ndarray(format='rgb24')) for _ in range(3)])
    """
    assert await ok(session, direct) == "[0, 1, 2]"
    assert await ok(session, "print(number_of(next(frames).to_ndarray(format='rgb24')))") == "3"


async def test_the_names_that_a_program_of_decord_uses(session: Session) -> None:
    code = """
        import decord
        from decord import VideoReader, cpu, gpu
        decord.bridge.set_bridge('native')
        v = decord.VideoReader('/workspace/in/a.mp4' if __import__('os').path.exists('/workspace') else 'in/a.mp4',
                               ctx=cpu(0), num_threads=4, width=64, height=32)
        print(v.get_batch(np.linspace(0, len(v) - 1, 4).astype(int)).asnumpy().shape, v.get_avg_fps())
    """
    assert await ok(session, code) == "(4, 32, 64, 3) 25.0"


async def test_frames_are_shown_and_drawn(session: Session) -> None:
    code = "import matplotlib.pyplot as plt\nplt.imshow(video_clue_0[7])\nplt.show()\nfrom PIL import Image\n"
    result = await session.run(code + "Image.fromarray(video_clue_0[9].asnumpy()).show()")
    assert result.ok, result.traceback
    assert [picture.source for picture in result.pictures] == ["figure", "show"]
    assert clips.number_of(result.pictures[1].image()) == 9


async def test_broken_videos_are_errors_that_can_be_read(session: Session) -> None:
    missing = await fails(session, "VideoReader('missing.mp4')")
    assert "missing.mp4" in (missing.traceback or "")
    await ok(session, "data = open('in/a.mp4', 'rb').read()")
    broken = await fails(session, "open('x.mp4', 'wb').write(b'x' * 5000)\nVideoReader('x.mp4')")
    assert (broken.traceback or "").endswith("cannot be read as a video: Invalid data found when processing input")
    await fails(session, "open('x.mp4', 'wb').write(data[:400])\nVideoReader('x.mp4')")
    assert await ok(session, "print(len(webm), number_of(video_clue_0[8]))") == "40 8"


async def test_a_frame_of_absurd_size(session: Session) -> None:
    """The reader refuses it; a program that decodes it itself meets the memory limit, and the session stands."""
    await ok(session, f"open('bomb.ivf', 'wb').write({clips.huge()!r})")
    refused = await fails(session, "VideoReader('bomb.ivf')")
    assert "16000x16000 pixels is over the limit" in (refused.traceback or "")
    hoard = "import av\nhoard = []\nfor _ in range(9):\n    hoard.append(av.open('bomb.ivf'))\n"
    result = await session.run(hoard + "    list(hoard[-1].decode(video=0))")
    assert result.status in (Status.ERROR, Status.OUT_OF_MEMORY, Status.KILLED), result
    assert await ok(session, "print(number_of(video_clue_0[8]))") == "8"


async def test_pyav_is_imported_when_it_is_needed(session: Session) -> None:
    look = "import sys\nprint('av' in sys.modules, 'decord' in sys.modules)"
    assert await ok(session, look) == "False True"
    assert await ok(session, "print(len(webm))\n" + look) == "40\nTrue True"


@pytest.mark.slow
async def test_a_large_file() -> None:
    large = clips.h264(30)
    large += (100 * MIB).to_bytes(4, "big") + b"free" + bytes(100 * MIB - 8)
    async with PROVIDERS["remote"](LIMITS) as sandbox:
        session = await sandbox.open({"v": VideoFile("v.mp4")}, files={"v.mp4": large})
        await ok(session, clips.READ)
        assert await ok(session, "print(len(v), number_of(v[17]), number_of(v[29]))") == "30 17 29"
        await fails(session, "v[3]\n1 / 0")
        assert await ok(session, "print(number_of(v[3]))") == "3"
        with pytest.raises(SandboxError, match="workspace_bytes"):
            await sandbox.open({"v": VideoFile("v.mp4")}, files={"v.mp4": large, "w.mp4": large})
