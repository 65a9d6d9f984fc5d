"""Make a folder in memory that processes of this machine share, for weights that need not touch the disk.

    with memory_folder(2 * 15e9) as folder:      # /dev/shm/saccade-XXXXXXXX
        ...

It is removed however this process ends, even by SIGKILL, by a process that runs this file: else the memory would be
lost until the machine restarts.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARED = Path("/dev/shm")  # mkdtemp makes the folder, for this user only
_GIB = 2**30


def check_memory(needed: float) -> None:
    """Raise `SettingsError` unless `needed` bytes are free there."""
    from saccade.errors import SettingsError

    if not SHARED.is_dir():
        raise SettingsError(f"engine.weights=memory needs {SHARED}, which this machine has not. Leave it at disk.")
    free = shutil.disk_usage(SHARED).free
    if free < needed:
        raise SettingsError(
            f"engine.weights=memory: new weights need {needed / _GIB:.3g} GiB in {SHARED} (they are written beside "
            f"those of before), and {free / _GIB:.3g} are free. Give it more (docker run --shm-size), or leave it at "
            "disk."
        )


@contextmanager
def memory_folder(needed: float) -> Iterator[Path]:
    """Make a folder with room for `needed` bytes.

    Raises `SettingsError`: this machine has no such memory, or too little of it.
    """
    check_memory(needed)
    folder = Path(tempfile.mkdtemp(prefix="saccade-", dir=SHARED))
    remover = subprocess.Popen(
        [sys.executable, "-I", __file__, str(folder)], stdin=subprocess.PIPE, start_new_session=True
    )
    assert remover.stdin is not None
    try:
        yield folder
    finally:
        remover.stdin.close()
        remover.wait()


if __name__ == "__main__":
    # Standard input is a pipe that nobody writes to: it ends with the process at its other end.
    sys.stdin.read()
    shutil.rmtree(sys.argv[1], ignore_errors=True)
