"""What a contender in the benchmark can do: start a session, run a cell, give back text and pictures, end.

Each peer has a file of its own. Where a peer does not hand out what a cell drew, the file adds the least that a user
would have to write himself (saving the open figures after the cell), because the others do that work too.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

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


class Peer(Protocol):
    """A way to run Python for a model; a context that holds what its sessions share."""

    name: str
    """Head of its column."""
    install: str
    """What installs it."""
    slow: bool
    """Whether sessions take so long to start that they are measured fewer times."""
    parallel: bool
    """Whether sessions may be used from different threads at the same time."""
    libraries_at_start: bool
    """Whether a fresh session has numpy, Pillow and matplotlib imported already."""
    keeps_state: bool
    """Whether a variable is still there in the next cell."""
    shows_images: bool
    """Whether `Image.show` gives a picture back."""
    picture_setup: str
    """A cell to run once, unmeasured, so that pictures come back."""

    def start(self, photo: Path | None = None) -> PeerSession:
        """A new session; with `photo`, that picture is the variable `image_clue_0`, opened and decoded.

        Raises `UnavailableError` if the peer is not installed.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


def opening(photo: Path | None) -> str:
    """Code that opens and decodes the photo, for peers that cannot be handed a picture."""
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
    """Save and close the open figures of this process; how many there were."""
    import matplotlib.pyplot as plt

    numbers = plt.get_fignums()
    for number in numbers:
        plt.figure(number).savefig(io.BytesIO(), format="png")
        plt.close(number)
    return len(numbers)


def quiet_show() -> warnings.catch_warnings[None]:
    """A context in which `plt.show` without a screen does not warn."""
    import matplotlib

    matplotlib.use("Agg")
    return warnings.catch_warnings(action="ignore", category=UserWarning)
