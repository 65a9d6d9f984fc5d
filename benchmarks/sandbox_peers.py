"""The contenders of `python -m benchmarks sandbox`: our sandbox and the other ways to run a model's code.

Each starts a session, runs a cell, gives back text and pictures, and ends. Where a peer does not hand out what a cell
drew, its class adds the least that a user would have to write himself (saving the open figures after the cell), because
the others do that work too. The scale of a run and the form of a measurement come first.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import queue
import statistics
import subprocess
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from saccade.errors import SandboxError, UnavailableError
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.sync import SyncSandbox, SyncSession

if TYPE_CHECKING:
    from PIL.Image import Image

PHOTO_NAME = "image_clue_0"
"""The variable under which a session finds the photo."""


@dataclass(frozen=True, slots=True)
class Output:
    """What one cell gave back."""

    text: str
    """Standard output."""
    pictures: int
    """Number of pictures that arrived."""
    failed: bool = False
    """Whether the cell raised."""


class PeerSession(Protocol):
    """One started session."""

    def run(self, code: str) -> Output:
        """Run one cell to its end."""

    def close(self) -> None:
        """End the session."""


class Peer(ABC):
    """A way to run Python for a model; a context that holds what its sessions share."""

    name: ClassVar[str]
    """Head of its column."""
    install = "(comes with Python)"
    """What installs it."""
    slow = False
    """Whether sessions take so long to start that they are measured fewer times."""
    parallel = False
    """Whether sessions may be used from different threads at the same time."""
    libraries_at_start = True
    """Whether a fresh session has numpy, Pillow and matplotlib imported already."""
    keeps_state = True
    """Whether a variable is still there in the next cell."""
    shows_images = False
    """Whether `Image.show` gives a picture back."""
    picture_setup = ""
    """A cell to run once, unmeasured, so that pictures come back."""

    @abstractmethod
    def start(self, photo: Path | None = None) -> PeerSession:
        """Start a session; with `photo`, that picture is the variable `image_clue_0`, opened and decoded.

        Raises `UnavailableError` if the peer is not installed.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


def opening(photo: Path | None) -> str:
    """Return code that opens and decodes the photo, for peers that cannot be handed a picture."""
    if photo is None:
        return ""
    return f"from PIL import Image as _Image\n{PHOTO_NAME} = _Image.open({str(photo)!r})\n{PHOTO_NAME}.load()\n"


SAVE_IN_CHILD = """
import sys as _sys
if 'matplotlib.pyplot' in _sys.modules:
    import io as _io, matplotlib.pyplot as _plt
    for _n in _plt.get_fignums():
        _file = _io.BytesIO()
        _plt.figure(_n).savefig(_file, format='png')
        _sys.stderr.write(f'picture {len(_file.getvalue())}\\n')
"""
"""The same for a process whose figures are counted on its standard error."""


def saved_figures() -> int:
    """Save and close the open figures of this process; return how many there were."""
    import matplotlib.pyplot as plt

    numbers = plt.get_fignums()
    for number in numbers:
        plt.figure(number).savefig(io.BytesIO(), format="png")
        plt.close(number)
    return len(numbers)


def quiet_show() -> warnings.catch_warnings[None]:
    """Return a context in which `plt.show` without a screen does not warn."""
    import matplotlib

    matplotlib.use("Agg")
    return warnings.catch_warnings(action="ignore", category=UserWarning)


@dataclass(frozen=True, slots=True)
class BenchScale:
    """Sizes of a run. Targets hold for `FULL`; a row that a smaller scale makes easier is not judged against its."""

    repeats: int
    """Measurements of a short thing."""
    slow_repeats: int
    """The same where a session takes a second to start."""
    many: int
    """Sessions in the rows that use many at once."""
    idle: int
    """Idle sessions whose memory is taken."""
    slow_idle: int
    alive: int
    """Sessions that are to be alive at once."""
    array_bytes: int
    """The array in the session that is branched."""
    branches: int = 8
    forks: int = 1000
    """Forks of one session at once."""
    think_seconds: float = 0.05
    """Pause between calls: a model takes longer to write the next one."""


FULL = BenchScale(repeats=30, slow_repeats=5, many=32, idle=100, slow_idle=4, alive=2000, array_bytes=500_000_000)
QUICK = BenchScale(
    repeats=8, slow_repeats=2, many=8, idle=20, slow_idle=2, alive=200, array_bytes=100_000_000, forks=100
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Every single value of one contender in one row, in the row's unit."""

    values: tuple[float, ...]
    note: str = ""
    """What a reader must know to compare it."""

    @property
    def median(self) -> float:
        """The figure that is shown."""
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Why a contender has no figure in a row."""

    reason: str


Result = Measurement | NotMeasured


def milliseconds(work: Callable[[], object]) -> float:
    """Return how long `work` takes."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000.0


def checked(session: PeerSession, code: str, *, text: str = "", pictures: int = 0) -> Output:
    """Run a cell that must work: a figure for work that was not done would be worth nothing.

    Raises `SandboxError` if the cell fails, does not print `text`, or gives another number of pictures.
    """
    output = session.run(code)
    if output.failed or text not in output.text or output.pictures != pictures:
        raise SandboxError(
            f"a benchmark cell did not do its work (failed: {output.failed}, {output.pictures} pictures instead of "
            f"{pictures}, printed {output.text[-200:]!r}):\n{code}"
        )
    return output


class PhotoFile:
    """A picture file as a `LazyImage`."""

    mode = "RGB"

    def __init__(self, path: Path) -> None:
        from PIL import Image

        self._path = path
        self.sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        with Image.open(path) as image:
            self.width, self.height = image.size

    def decode(self) -> Image:
        from PIL import Image

        with Image.open(self._path) as image:
            return image.convert("RGB")


class SaccadeSession:
    """A session of ours."""

    def __init__(self, session: SyncSession) -> None:
        self.session = session

    def run(self, code: str) -> Output:
        """Run one cell."""
        result = self.session.run(code)
        return Output(result.stdout, len(result.pictures), failed=not result.ok)

    def branch(self, n: int) -> Sequence[SaccadeSession]:
        """Return `n` copies of the session."""
        return [SaccadeSession(session) for session in self.session.branch(n)]

    def close(self) -> None:
        """End the session."""
        self.session.close()


class Saccade(Peer):
    """The local sandbox."""

    name = "saccade"
    install = "pip install saccade"
    parallel = True
    shows_images = True

    def __init__(self) -> None:
        self._box = SyncSandbox(LocalSandbox())
        self._photos: dict[Path, PhotoFile] = {}

    def start(self, photo: Path | None = None) -> SaccadeSession:
        """Start a session."""
        if photo is None:
            return SaccadeSession(self._box.open())
        if photo not in self._photos:
            self._photos[photo] = PhotoFile(photo)
        return SaccadeSession(self._box.open({PHOTO_NAME: self._photos[photo]}))

    def isolation(self) -> Isolation:
        """Return the layers that are on."""
        return self._box.isolation()

    def __enter__(self) -> Self:
        self._box.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._box.close()


class ExecSession:
    """One namespace that every cell shares."""

    def __init__(self, photo: Path | None) -> None:
        self._names: dict[str, Any] = {"__name__": "__main__"}
        exec(opening(photo), self._names)

    def run(self, code: str) -> Output:
        """Run one cell."""
        out = io.StringIO()
        failed = False
        with quiet_show(), contextlib.redirect_stdout(out):
            try:
                exec(code, self._names)
            except Exception:
                failed = True
            return Output(out.getvalue(), saved_figures(), failed)

    def close(self) -> None:
        """Drop the variables."""
        self._names.clear()


class Exec(Peer):
    """Namespaces in this process."""

    name = "exec"

    def start(self, photo: Path | None = None) -> ExecSession:
        """Make a namespace."""
        return ExecSession(photo)


_SUBPROCESS_SECONDS = 120.0


class SubprocessSession:
    """Only remembers which photo to open first."""

    def __init__(self, photo: Path | None) -> None:
        self._prologue = opening(photo)

    def run(self, code: str) -> Output:
        """Start a process, run the cell, wait for its end."""
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", f"{self._prologue}{code}\n{SAVE_IN_CHILD}"],
            capture_output=True,
            text=True,
            timeout=_SUBPROCESS_SECONDS,
            env={**os.environ, "MPLBACKEND": "Agg"},
            check=False,
        )
        pictures = sum(line.startswith("picture ") for line in ended.stderr.splitlines())
        return Output(ended.stdout, pictures, failed=ended.returncode != 0)

    def close(self) -> None:
        """Do nothing: no process has to be ended."""


class Subprocess(Peer):
    """A process per cell."""

    name = "subprocess"
    slow = True
    parallel = True
    libraries_at_start = False
    keeps_state = False

    def start(self, photo: Path | None = None) -> SubprocessSession:
        """Return a session; the process starts with the first cell."""
        return SubprocessSession(photo)


JUPYTER_INSTALL = "pip install jupyter_client ipykernel matplotlib-inline"
_JUPYTER_SECONDS = 120.0
_INLINE = "%matplotlib inline\nfrom PIL import ImageShow as _s\n_s.register(_s.IPythonViewer(), order=0)\n"


class JupyterSession:
    """One kernel, started for it and shut down with it."""

    def __init__(self, photo: Path | None) -> None:
        try:
            import ipykernel  # noqa: F401
            from jupyter_client.manager import KernelManager
            from zmq import SNDTIMEO
        except ModuleNotFoundError as error:
            raise UnavailableError(f"Jupyter is not installed: {JUPYTER_INSTALL}") from error
        self._manager: Any = KernelManager(kernel_name="python3")
        self._manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # A kernel that did not come up (two took the same ports) would block whoever sends to it for ever.
        self._manager.context.setsockopt(SNDTIMEO, int(_JUPYTER_SECONDS * 1000))
        self._client: Any = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=_JUPYTER_SECONDS)
        if photo is not None:
            self.run(opening(photo))

    def run(self, code: str) -> Output:
        """Run one cell and read its messages until the kernel is idle."""
        request = self._client.execute(code, store_history=False)
        text, pictures, failed = [], 0, False
        deadline = time.monotonic() + _JUPYTER_SECONDS
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise SandboxError(f"a Jupyter cell did not end within {_JUPYTER_SECONDS:.0f} s.") from None
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                text.append(content["text"])
            elif kind in ("display_data", "execute_result"):
                pictures += "image/png" in content["data"]
            elif kind == "error":
                failed = True
            elif kind == "status" and content["execution_state"] == "idle":
                break
        self._client.get_shell_msg(timeout=_JUPYTER_SECONDS)
        return Output("".join(text), pictures, failed)

    def close(self) -> None:
        """Kill the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


class Jupyter(Peer):
    """Kernels, one per session."""

    name = "jupyter"
    install = JUPYTER_INSTALL
    slow = True
    parallel = True
    libraries_at_start = False
    shows_images = True
    picture_setup = _INLINE

    def start(self, photo: Path | None = None) -> JupyterSession:
        """Start a kernel."""
        return JupyterSession(photo)


SMOLAGENTS_INSTALL = "pip install smolagents"


class SmolagentsSession:
    """One executor of smolagents, which keeps its names between cells."""

    def __init__(self, photo: Path | None) -> None:
        try:
            from smolagents.local_python_executor import LocalPythonExecutor
        except ModuleNotFoundError as error:
            raise UnavailableError(f"smolagents is not installed: {SMOLAGENTS_INSTALL}") from error
        self._executor: Any = LocalPythonExecutor(additional_authorized_imports=["*"])
        self._executor.send_tools({})
        if photo is not None:
            from PIL import Image

            image = Image.open(photo)
            image.load()
            self._executor.send_variables({PHOTO_NAME: image})

    def run(self, code: str) -> Output:
        """Run one cell."""
        from smolagents.local_python_executor import InterpreterError

        with quiet_show():
            try:
                output = self._executor(code)
            except InterpreterError:
                return Output("", saved_figures(), failed=True)
            return Output(str(output.logs), saved_figures())

    def close(self) -> None:
        """Do nothing: no process has to be ended."""


class Smolagents(Peer):
    """Executors in this process."""

    name = "smolagents"
    install = SMOLAGENTS_INSTALL

    def start(self, photo: Path | None = None) -> SmolagentsSession:
        """Make an executor."""
        return SmolagentsSession(photo)
