"""What is the local sandbox's own: layers required and left out, its interpreter, what its sessions share."""

import asyncio
import gc
import hashlib
import logging
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.sandbox.providers import NAMESPACES, linux_only

from saccade.errors import IsolationError, SandboxClosedError, SandboxError
from saccade.media.decode import decode
from saccade.media.store import MediaStore, StoredImage
from saccade.plugins.audit.attacks.runner import descendants
from saccade.record.execution import Status
from saccade.sandbox.base import SessionOptions
from saccade.sandbox.isolation import Isolation, Layer, LayerState
from saccade.sandbox.local import LocalSandbox

pytestmark = [linux_only, pytest.mark.timeout(240)]

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('a $x^2$')\nplt.show()"


async def test_a_required_layer_that_is_missing_stops_the_start() -> None:
    sandbox = LocalSandbox(require_isolation=[Layer.SECCOMP], without=[Layer.SECCOMP])
    with pytest.raises(IsolationError, match=r"seccomp: left out on purpose[\s\S]*saccade doctor"):
        await sandbox.open()
    await sandbox.close()


def test_files_must_be_confined_by_one_layer_at_least() -> None:
    def on(*layers: Layer) -> Isolation:
        return Isolation(platform="linux", layers=tuple(LayerState(layer=each, on=each in layers) for each in Layer))

    for confines in (Layer.MOUNT_NAMESPACE, Layer.LANDLOCK):
        on(Layer.SECCOMP, confines).require([Layer.SECCOMP])
    with pytest.raises(IsolationError, match="files of this machine would be open"):
        on(Layer.SECCOMP).require([Layer.SECCOMP])


@pytest.mark.slow
async def test_nothing_required_starts_with_whatever_there_is() -> None:
    async with LocalSandbox(require_isolation=(), without=[*NAMESPACES, Layer.LANDLOCK, Layer.CGROUP]) as sandbox:
        isolation = await sandbox.isolation()
        assert not isolation.is_on(Layer.LANDLOCK)
        result = await (await sandbox.open()).run("print(1)")
        assert (result.stdout, result.layers) == ("1\n", isolation.names)
        assert "landlock" not in result.layers


async def test_an_interpreter_that_is_not_there() -> None:
    async with LocalSandbox(python="/no/such/python") as sandbox:
        with pytest.raises(SandboxError, match="could not be started"):
            await sandbox.open()


async def test_a_home_that_cannot_be_written_is_said_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    async with LocalSandbox() as box:
        with pytest.raises(SandboxError, match=r"list of fonts, cannot be made: Not a directory\. Set XDG_CACHE_HOME"):
            await box.open()


async def test_an_interpreter_without_the_libraries_says_which(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    async with LocalSandbox(python=str(tmp_path / "bare" / "bin" / "python")) as sandbox:
        with pytest.raises(SandboxError, match=r"did not start[\s\S]*No module named"):
            await sandbox.open()


@pytest.mark.slow
async def test_modules_are_imported_once_for_all() -> None:
    async with LocalSandbox(modules=["fractions"]) as sandbox:
        result = await (await sandbox.open()).run(
            "import sys\nprint('fractions' in sys.modules, 'saccade' in sys.modules)"
        )
        assert result.stdout == "True False\n"
    async with LocalSandbox(modules=["no_such_module"]) as sandbox:
        with pytest.raises(SandboxError, match="no_such_module"):
            await sandbox.open()


@pytest.mark.asyncio(loop_scope="session")
async def test_the_project_itself_cannot_be_imported(box: LocalSandbox) -> None:
    result = await (await box.open()).run("import saccade")
    assert result.status is Status.ERROR


@pytest.mark.asyncio(loop_scope="session")
async def test_two_sessions_begin_alike_and_go_on_apart(box: LocalSandbox) -> None:
    code = "import random\nimport numpy as np\nprint(random.random(), np.random.rand(), hash('text'))"
    one, two = await asyncio.gather(box.open(), box.open())
    first = (await one.run(code)).stdout
    assert (await two.run(code)).stdout == first
    assert (await one.run(code)).stdout != first


@pytest.mark.asyncio(loop_scope="session")
async def test_no_font_file_is_open_across_sessions(box: LocalSandbox) -> None:
    sessions = [await box.open() for _ in range(4)]
    for process in descendants(os.getpid()):
        folder = f"/proc/{process}/fd"
        targets = [os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)]
        assert not [target for target in targets if target.endswith(".ttf")], targets
    results = await asyncio.gather(*(session.run(PLOT) for session in sessions * 2))
    assert len({result.pictures[0].data for result in results}) == 1


@pytest.mark.asyncio(loop_scope="session")
async def test_a_rehearsal_leaves_no_trace(box: LocalSandbox) -> None:
    """The empty cell that a waiting session runs changes nothing that a program can see."""
    look = (
        "import gc, random, sys, os, threading\n"
        "print(plt.get_fignums(), plt.gcf().number, plt.rcParams['figure.figsize'], random.random(),\n"
        "      np.random.rand(), sorted(n for n in globals() if n[0] != '_'), os.listdir('.'), os.getcwd(), sys.argv,\n"
        "      threading.active_count(), len(sys.stdout.name))"
    )
    begin = "plt.figure(5)\nplt.figure(3)\nf = plt.figure()\nf.show()\nopen('f', 'w').write('x')"
    options = SessionOptions(preload=("np", "plt"))
    rested, hurried = await box.open(options=options), await box.open(options=options)
    rehearsed = asyncio.Event()
    send = rested._link._channel.send

    def watched(message: dict[str, object], fds: Sequence[int] = ()) -> None:
        send(message, fds)
        if message["op"] == "rehearse":
            rehearsed.set()

    rested._link._channel.send = watched  # type: ignore[method-assign]
    assert len((await hurried.run(begin)).pictures) == 1
    at_once = await hurried.run(look)
    assert len((await rested.run(begin)).pictures) == 1  # last: there is no rehearsal while another session works
    async with asyncio.timeout(100):
        while not rehearsed.is_set():  # its one moment of its own may have been one in which something else went on
            link = rested._link
            link._rehearse(link._leaf)
            await asyncio.sleep(0.05)
    later = await rested.run(look)
    assert (later.stdout, later.pictures, later.files) == (at_once.stdout, at_once.pictures, at_once.files)
    assert later.ok


@pytest.mark.asyncio(loop_scope="session")
async def test_a_lazy_picture_that_cannot_be_decoded_is_an_error_of_the_call(box: LocalSandbox) -> None:
    class Broken:
        sha256 = "cd" * 32
        mode = "RGB"
        width = height = 10

        def decode(self) -> Image.Image:
            return Image.new("RGB", (5, 5))

    session = await box.open({"im": Broken()})
    assert (await session.run("print(im.size)")).stdout == "(10, 10)\n"
    result = await session.run("im.load()")
    assert result.status is Status.ERROR
    assert "bound as" in (result.traceback or "")
    assert (await session.run("print(im.size)")).stdout == "(10, 10)\n"


@pytest.mark.asyncio(loop_scope="session")
async def test_the_time_that_a_picture_takes_is_not_the_programs(
    box: LocalSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "saccade.sandbox")

    class Slow:
        sha256 = "ce" * 32
        mode = "RGB"
        width = height = 10

        def decode(self) -> Image.Image:
            time.sleep(1.5)
            return Image.new("RGB", (10, 10), "red")

    session = await box.open({"im": Slow()})
    shown = await session.run("print(im.getpixel((0, 0)))", wall_seconds=1)
    assert (shown.status, shown.stdout) == (Status.OK, "(255, 0, 0)\n")
    assert not [line for line in caplog.messages if "reached a limit" in line]
    assert (await session.run("while True: pass", wall_seconds=0.2)).status is Status.TIMEOUT
    assert [line for line in caplog.messages if line.startswith("A call reached a limit: timeout after ")]


async def test_a_closed_sandbox_and_an_unknown_option() -> None:
    sandbox = LocalSandbox()
    with pytest.raises(SandboxError, match="Did you mean 'missing_import'"):
        await sandbox.open(options=SessionOptions(repairs=("missing_imports",)))
    await sandbox.close()
    with pytest.raises(SandboxClosedError):
        await sandbox.open()


@pytest.mark.asyncio(loop_scope="session")
async def test_a_call_that_waits_while_its_session_goes_ends_without_an_exception(box: LocalSandbox) -> None:
    session = await box.open()
    await session.run("x = 1")
    link = session._link
    link._prepared = asyncio.create_task(asyncio.sleep(60))
    waiting = asyncio.create_task(session.run("x"))
    await asyncio.sleep(0.01)
    await box.drop(link)
    assert (await asyncio.wait_for(waiting, 100)).status is Status.LOST


@pytest.mark.asyncio(loop_scope="session")
async def test_closing_a_session_ends_its_call(box: LocalSandbox) -> None:
    codes = ("while True: pass", "import time\ntime.sleep(3000)", "import os\nos.kill(0, 19)")
    sessions = [await box.open() for _ in codes]
    calls = [asyncio.create_task(session.run("1\n" + code)) for session, code in zip(sessions, codes, strict=True)]
    await asyncio.sleep(0.3)
    for session in sessions:
        await session.close()
    for result in await asyncio.gather(*calls):
        assert (result.status, result.traceback) == (Status.KILLED, "the session was closed while the code ran")


@pytest.mark.parametrize("moments", [10, pytest.param(240, marks=pytest.mark.slow)])
@pytest.mark.asyncio(loop_scope="session")
async def test_a_session_may_be_closed_at_any_moment_of_a_call(moments: int, box: LocalSandbox) -> None:
    for moment in range(moments):
        session = await box.open()
        await session.run("x = 1")
        call = asyncio.create_task(session.run("print('x' * 100)"))
        await asyncio.sleep(moment / moments / 200)
        await session.close()
        assert (await call).status in (Status.OK, Status.KILLED, Status.LOST)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_closed_session_is_forgotten(box: LocalSandbox) -> None:
    session = await box.open()
    known = weakref.ref(session)
    await session.close()
    del session
    gc.collect()
    assert known() is None


@pytest.mark.asyncio(loop_scope="session")
async def test_many_branches(box: LocalSandbox) -> None:
    """They make one another, and each is what the origin was: memory, files, mappings, positions."""
    session = await box.open()
    await session.run(
        "import os, numpy as np\nx = [1]\nos.mkdir('inner')\nos.chdir('inner')\nopen('f', 'w').write('here')\n"
        "handle = open('f')\nhandle.read(2)\nmapped = np.memmap('m', np.uint8, 'w+', shape=4)"
    )
    branches = await session.branch(12)
    assert len({*branches}) == 12
    look = "print(x, open('f').read(), handle.read(), os.getcwd(), mapped.sum(), sorted(os.listdir()))"
    own = "x.append({0})\nmapped[:] = {0}\nopen('f', 'a').write('{0}')\n" + look
    results = await asyncio.gather(*(branch.run(own.format(i)) for i, branch in enumerate(branches)))
    seen = [f"[1, {i}] here{i} re{i} /workspace/inner {4 * i} ['f', 'm']\n" for i in range(12)]
    assert [result.stdout for result in results] == seen
    for result in await asyncio.gather(*(branch.run(own.format(99) + "\n1 / 0") for branch in branches)):
        assert result.status is Status.ERROR
    results = await asyncio.gather(*(branch.run(f"handle.seek(2)\n{look}") for branch in branches))
    assert [result.stdout for result in results] == seen
    assert (await session.run(look)).stdout == "[1] here re /workspace/inner 0 ['f', 'm']\n"


async def test_a_system_that_is_not_linux_is_told_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(os, "sched_getaffinity")
    sandbox = LocalSandbox()
    with pytest.raises(IsolationError, match=r"needs Linux; this is darwin[\s\S]*RemoteSandbox"):
        await sandbox.open()
    await sandbox.close()


@pytest.mark.asyncio(loop_scope="session")
async def test_pictures_of_the_media_store_are_decoded_once_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, box: LocalSandbox
) -> None:
    store = MediaStore(tmp_path)
    photo = Path(__file__).parents[3] / "shared/data/photos/signicade.JPG"
    original = decode(photo.read_bytes()) if photo.exists() else Image.radial_gradient("L").convert("RGB")
    decoded: list[str] = []
    decode_stored = StoredImage.decode

    def counted(self: StoredImage) -> Image.Image:
        decoded.append(self.sha256)
        return decode_stored(self)

    monkeypatch.setattr(StoredImage, "decode", counted)
    picture = store.open(store.put_image(original))
    code = "from hashlib import sha256\nim = image_clue_0\nprint(im.mode, im.size, sha256(im.tobytes()).hexdigest())"
    session = await box.open({"image_clue_0": picture})
    assert (await session.run("print(image_clue_0.size)")).text == f"{original.size}\n"
    assert not decoded
    sessions = [session, *await session.branch(7), await box.open({"image_clue_0": picture})]
    results = await asyncio.gather(*(each.run(code) for each in sessions))
    digest = hashlib.sha256(original.tobytes()).hexdigest()
    assert {result.text for result in results} == {f"{original.mode} {original.size} {digest}\n"}
    assert decoded == [picture.sha256]


@pytest.mark.asyncio(loop_scope="session")
async def test_pictures_that_are_looked_at_leave_no_note(box: LocalSandbox) -> None:
    session = await box.open({"image": Image.new("RGB", (4, 3)), "array": np.zeros((2, 2), np.uint8)})
    assert (await session.run("image.rotate(90).size, array.sum()")).notes == ()
    (branch,) = await session.branch(1)
    branch.bind({"more": Image.new("L", (4, 3))})
    assert (await branch.run("more.size, image.getpixel((0, 0))")).notes == ()
