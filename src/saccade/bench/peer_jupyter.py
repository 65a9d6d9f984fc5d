"""A Jupyter kernel per session, through jupyter_client's blocking client; pictures come back as PNG messages.

Isolates nothing: a kernel is a plain process of the user. `Image.show` is sent to the notebook's display instead of to
a viewer on the user's screen.
"""

from __future__ import annotations

import queue
import subprocess
import time
from pathlib import Path
from typing import Any, Self

from saccade.bench.peer import Output, opening
from saccade.errors import SandboxError, UnavailableError

INSTALL = "pip install jupyter_client ipykernel matplotlib-inline"
CELL_SECONDS = 120.0
_INLINE = "%matplotlib inline\nfrom PIL import ImageShow as _s\n_s.register(_s.IPythonViewer(), order=0)\n"


class JupyterSession:
    """One kernel, started for it and shut down with it."""

    def __init__(self, photo: Path | None) -> None:
        try:
            import ipykernel  # noqa: F401
            from jupyter_client.manager import KernelManager
            from zmq import SNDTIMEO
        except ModuleNotFoundError as error:
            raise UnavailableError(f"Jupyter is not installed: {INSTALL}") from error
        self._manager: Any = KernelManager(kernel_name="python3")
        self._manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # A kernel that did not come up (two took the same ports) would block who sends to it for ever.
        self._manager.context.setsockopt(SNDTIMEO, int(CELL_SECONDS * 1000))
        self._client: Any = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=CELL_SECONDS)
        if photo is not None:
            self.run(opening(photo))

    def run(self, code: str) -> Output:
        """Run one cell and read its messages until the kernel is idle."""
        request = self._client.execute(code, store_history=False)
        text, pictures, failed = [], 0, False
        deadline = time.monotonic() + CELL_SECONDS
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise SandboxError(f"a Jupyter cell did not end within {CELL_SECONDS:.0f} s.") from None
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
        self._client.get_shell_msg(timeout=CELL_SECONDS)
        return Output("".join(text), pictures, failed)

    def close(self) -> None:
        """Kill the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


class Jupyter:
    """Kernels, one per session."""

    name = "jupyter"
    install = INSTALL
    slow = True
    parallel = True
    libraries_at_start = False
    keeps_state = True
    shows_images = True
    picture_setup = _INLINE

    def start(self, photo: Path | None = None) -> JupyterSession:
        """A new kernel."""
        return JupyterSession(photo)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None
