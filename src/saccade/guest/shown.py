"""Collect the pictures of one call, in the order in which they were shown: capped, the rest counted.

A picture that is given in several ways (shown, saved, the last value) is kept once. Figures are compared by identity
and not by pixels: two that look alike are two pictures, as in the scaffolds of PyVision and PyVision-RL; one that is
shown again without a change is kept once.
"""

from __future__ import annotations

import functools
import time
from os import getpid
from typing import Any
from weakref import WeakSet

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.figure import Figure

from .outbox import Outbox
from .pixels import Pixels, capture, not_captured
from .wire import GuestConfig

_MOST_NOTES = 32


class ShownPictures:
    """Collects pictures and stores their pixels in the outbox at once."""

    def __init__(self, config: GuestConfig, outbox: Outbox) -> None:
        self.config = config
        self.outbox = outbox
        self._known: WeakSet[Figure] = WeakSet()
        """Figures that were shown or saved, or of which it was said that they were not."""
        self.begin()

    def begin(self) -> None:
        """Empty it for a call of this process."""
        self._pid = getpid()
        self.pictures: list[dict[str, Any]] = []
        """source, mode, width, height, offset, path: what the report says of each."""
        self.seconds = 0.0
        """Time spent on capturing, so that it is not counted as running."""
        self._notes: list[str] = []
        self._pixels = 0
        self._over_count = 0
        self._over_pixels = 0
        self._doubles = 0
        self._figures: dict[int, Figure] = {}

    @property
    def full(self) -> bool:
        """Whether further pictures would be dropped because of their number."""
        return len(self.pictures) >= self.config.pictures

    def add(self, thing: object, source: str, path: str | None = None) -> bool:
        """Take `thing` as a picture; False if it could not become one (a note says why)."""
        if getpid() != self._pid:
            return True  # a child process shares the outbox, but not the knowledge of what is free in it
        if self.full:
            self._over_count += 1
            return True
        if isinstance(thing, Figure) and id(thing) in self._figures and not thing.stale:
            self._doubles += 1  # matplotlib says that nothing has changed: no need to draw it again
            return True
        start = time.perf_counter()
        try:
            pixels, notes = capture(thing, min(self.config.picture_pixels, self.config.total_pixels))
            for note in notes:
                self.note(f"{path}: {note}" if path else note)
            if pixels is None:
                return False
            try:
                self._store(pixels, source, path)
            except Exception as error:
                self.note(not_captured(error))
                return False
            if isinstance(thing, Figure):
                self._figures[id(thing)] = thing
                self._known.add(thing)
            return True
        finally:
            self.seconds += time.perf_counter() - start

    def drop(self, count: int = 1) -> None:
        """Count pictures that were not even looked at because the call has its number already."""
        self._over_count += count

    def note(self, text: str) -> None:
        """Say something to the program's author, once."""
        if text not in self._notes and len(self._notes) < _MOST_NOTES:
            self._notes.append(text)

    def notes(self) -> list[str]:
        """Return all that is to be said about the pictures of the call."""
        notes = list(self._notes)
        if self._doubles:
            notes.append(f"{_count(self._doubles)} identical to an earlier one and left out")
        if self._over_count:
            notes.append(f"{_count(self._over_count, 'further ')} dropped: at most {self.config.pictures} per call")
        if self._over_pixels:
            notes.append(
                f"{_count(self._over_pixels, 'further ')} dropped: "
                f"all pictures of a call may have {self.config.total_pixels} pixels together"
            )
        return notes

    def finished_figures(self) -> list[Figure]:
        """Return figures that were shown without `plt.show` and not touched since; they need not stay open."""
        return [figure for figure in self._figures.values() if not figure.stale]

    def saved(self, figure: Figure) -> None:
        """Take note that a figure was written to a file."""
        self._known.add(figure)

    def tell_of_open_figures(self) -> None:
        """Note once that figures were neither shown nor saved, which the papers' systems do not show either."""
        managers = [Gcf.figs[number] for number in sorted(Gcf.figs)]
        figures = [manager.canvas.figure for manager in managers]
        # Its first child is the paper. One that was drawn and not touched since has gone its way as an array.
        fresh = [one for one in figures if one not in self._known and one.stale and len(one.get_children()) > 1]
        if fresh:
            what = "a figure is open and was" if len(fresh) == 1 else f"{len(fresh)} figures are open and were"
            self.note(f"{what} not shown: plt.show() shows what is open")
        self._known.update(fresh)

    def _store(self, pixels: Pixels, source: str, path: str | None) -> None:
        area = pixels.width * pixels.height
        others = (known for known in self.pictures if not known["source"] == source == "figure")
        if any(self._same(known, pixels) for known in others):
            self._doubles += 1
            return
        offset = None
        if self._pixels + area <= self.config.total_pixels:
            offset = self.outbox.append(pixels.size, pixels.bands())
        if offset is None:
            self._over_pixels += 1
            return
        self._pixels += area
        size = {"width": pixels.width, "height": pixels.height}
        self.pictures.append({"source": source, "mode": pixels.mode, **size, "offset": offset, "path": path})

    def _same(self, known: dict[str, Any], pixels: Pixels) -> bool:
        """Return whether both pictures look the same; RGBA without any transparency is the same as RGB."""
        if (known["width"], known["height"]) != (pixels.width, pixels.height):
            return False
        if known["mode"] == pixels.mode:
            at = known["offset"]
            for band in pixels.bands():
                if self.outbox.read(at, len(band)) != band:
                    return False
                at += len(band)
            return True
        if {known["mode"], pixels.mode} != {"RGB", "RGBA"}:
            return False
        stored = self.outbox.read(known["offset"], pixels.width * pixels.height * len(known["mode"]))
        both = {known["mode"]: stored, pixels.mode: pixels.data}
        if len(both["RGBA"]) != pixels.width * pixels.height * 4:
            return False
        rgba = np.frombuffer(both["RGBA"], np.uint8).reshape(-1, 4)
        return bool((rgba[:, 3] == 255).all()) and np.ascontiguousarray(rgba[:, :3]).tobytes() == both["RGB"]


def _count(count: int, kind: str = "") -> str:
    return f"{count} {kind}picture was" if count == 1 else f"{count} {kind}pictures were"


_current: list[ShownPictures] = []


def use(pictures: ShownPictures) -> None:
    """Make `pictures` what the patched functions fill."""
    _current[:] = [pictures]


def current() -> ShownPictures | None:
    """Return the collector in use, or None before the first `use`."""
    return _current[0] if _current else None


# matplotlib: `plt.show` and what it calls, `Figure.show`, `plt.pause`, and the choice of a backend, where one with
# windows is taken as Agg, with a note.

_WINDOWED = frozenset(
    [
        *("gtk3agg", "gtk3cairo", "gtk4agg", "gtk4cairo", "qtagg", "qtcairo", "qt4agg", "qt5agg", "qt5cairo"),
        *("tkagg", "tkcairo", "wx", "wxagg", "wxcairo", "macosx", "webagg", "nbagg", "notebook", "inline"),
        *("ipympl", "widget", "module://matplotlib_inline.backend_inline", "module://ipympl.backend_nbagg"),
    ]
)

_use, _savefig = matplotlib.use, Figure.savefig
_switch_backend = plt.switch_backend


def install() -> None:
    """Patch matplotlib, once. Its warning about many open figures goes too: it would be noise in stderr."""
    if plt.show is show:
        return
    silence: Any = {"figure.max_open_warning": 0}
    matplotlib.rcParams.update(silence)
    matplotlib.rcParamsDefault.update(silence)
    patches: tuple[tuple[Any, str, Any], ...] = (
        (matplotlib, "use", use_backend),
        (plt, "switch_backend", switch_backend),
        (plt, "show", show),
        (plt, "pause", pause),
        (Figure, "show", show_figure),
        (Figure, "savefig", save_figure),
        (FigureManagerBase, "show", lambda manager: show_figure(manager.canvas.figure)),
        (FigureManagerBase, "pyplot_show", classmethod(show)),
    )
    for owner, name, function in patches:
        setattr(owner, name, function)


def show(*_args: object, **_kwargs: object) -> None:
    """Show every open figure, in the order of their numbers, and close it."""
    for number in sorted(Gcf.figs):
        manager = Gcf.figs.get(number)
        if manager is not None:
            show_figure(manager.canvas.figure)
            Gcf.destroy(number)


def pause(_interval: float = 0.0) -> None:
    """Show the open figures without closing them. Nobody is looking, so it does not wait."""
    for number in sorted(Gcf.figs):
        show_figure(Gcf.figs[number].canvas.figure)


def show_figure(figure: Figure, *_args: object, **_kwargs: object) -> None:
    """Show one figure, which need not belong to pyplot, without closing it."""
    shown = current()
    if shown is not None:
        shown.add(figure, "figure")


@functools.wraps(_savefig)
def save_figure(figure: Figure, *args: Any, **options: Any) -> None:
    """Run `Figure.savefig`, and take a note of it."""
    _savefig(figure, *args, **options)
    shown = current()
    if shown is not None:
        shown.saved(figure)


def close(figures: list[Figure]) -> None:
    """Close those of `figures` that pyplot still holds open."""
    for figure in figures:
        Gcf.destroy_fig(figure)


def use_backend(backend: str, *, force: bool = True) -> None:
    """Act as `matplotlib.use` for a machine without windows."""
    _use(_without_windows(backend), force=force)


def switch_backend(newbackend: str) -> None:
    """Act as `plt.switch_backend` for a machine without windows."""
    _switch_backend(_without_windows(newbackend))


def _without_windows(backend: str) -> str:
    if not isinstance(backend, str) or backend.lower() not in _WINDOWED:
        return backend
    shown = current()
    if shown is not None:
        shown.note(f"the matplotlib backend {backend} needs windows, which there are none of here; Agg is used instead")
    return "agg"
