"""matplotlib's ways to show a figure, led to the collector.

Patched: `plt.show` and what it calls below, `Figure.show`, `plt.pause`, and the choice of a backend: windows cannot be
had here, so a backend with windows is taken as Agg, with a note.
"""

from __future__ import annotations

from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.figure import Figure

from .shown import current

_WINDOWED = frozenset(
    [
        *("gtk3agg", "gtk3cairo", "gtk4agg", "gtk4cairo", "qtagg", "qtcairo", "qt4agg", "qt5agg", "qt5cairo"),
        *("tkagg", "tkcairo", "wx", "wxagg", "wxcairo", "macosx", "webagg", "nbagg", "notebook", "inline"),
        *("ipympl", "widget", "module://matplotlib_inline.backend_inline", "module://ipympl.backend_nbagg"),
    ]
)

_use = matplotlib.use
_switch_backend = plt.switch_backend


def install() -> None:
    """Patch matplotlib, once. Its warning about many open figures goes too: it would be noise in stderr."""
    if plt.show is show:
        return
    silence: Any = {"figure.max_open_warning": 0}
    matplotlib.rcParams.update(silence)
    matplotlib.rcParamsDefault.update(silence)
    patches: tuple[tuple[Any, str, Any], ...] = (
        (matplotlib, "use", use),
        (plt, "switch_backend", switch_backend),
        (plt, "show", show),
        (plt, "pause", pause),
        (Figure, "show", show_figure),
        (FigureManagerBase, "show", _show_manager),
        (FigureManagerBase, "pyplot_show", classmethod(_pyplot_show)),
    )
    for owner, name, function in patches:
        setattr(owner, name, function)


def show(*_args: object, **_kwargs: object) -> None:
    """Show every open figure, in the order of their numbers, and close it."""
    for number in sorted(Gcf.figs):
        manager = Gcf.figs.get(number)
        if manager is not None:
            capture(manager.canvas.figure)
            Gcf.destroy(number)


def pause(_interval: float = 0.0) -> None:
    """Show the open figures without closing them. Nobody is looking, so it does not wait."""
    for number in sorted(Gcf.figs):
        capture(Gcf.figs[number].canvas.figure)


def show_figure(figure: Figure, *_args: object, **_kwargs: object) -> None:
    """Show one figure, which need not belong to pyplot, without closing it."""
    capture(figure)


def capture(figure: Figure, source: str = "figure") -> None:
    """Give a figure to the collector; once the call has its number of pictures, nothing is drawn any more."""
    shown = current()
    if shown is not None:
        shown.add(figure, source)


def close(figures: list[Figure]) -> None:
    """Close those of `figures` that pyplot still holds open."""
    for figure in figures:
        Gcf.destroy_fig(figure)


def use(backend: str, *, force: bool = True) -> None:
    """`matplotlib.use` for a machine without windows."""
    _use(_without_windows(backend), force=force)


def switch_backend(newbackend: str) -> None:
    """`plt.switch_backend` for a machine without windows."""
    _switch_backend(_without_windows(newbackend))


def _without_windows(backend: str) -> str:
    if not isinstance(backend, str) or backend.lower() not in _WINDOWED:
        return backend
    shown = current()
    if shown is not None:
        shown.note(f"the matplotlib backend {backend} needs windows, which there are none of here; Agg is used instead")
    return "agg"


def _show_manager(manager: FigureManagerBase) -> None:
    capture(manager.canvas.figure)


def _pyplot_show(_cls: type[Any], /, *_args: object, **_kwargs: object) -> None:
    show()
