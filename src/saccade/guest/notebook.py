"""What programs expect of a notebook: `IPython.display`, lines that begin with `%` or `!`, and `get_ipython`.

The stand-in for IPython is the same whatever is installed. It is imported only when a program asks for it: libraries
that look into `sys.modules` for a notebook find none, and those that look further find a version, and no shell.
"""

from __future__ import annotations

import ast
import base64
import builtins
import importlib
import importlib.abc
import importlib.machinery
import io
import os
import re
import sys
import timeit
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import Any

from PIL import Image

from .adapt import NO_NETWORK, no_program

_VERSION = (9, 0, 0)
"""Of the stand-in: libraries ask for it before they touch a notebook. From 8.24 on, matplotlib leaves IPython alone."""
_TEXTS = "HTML Markdown Latex Math SVG JSON Code Pretty Javascript Audio Video IFrame FileLink GeoJSON"
_MODULES = ("IPython", "IPython.display", "IPython.core", "IPython.core.display", "IPython.core.display_functions")


class DisplayText:
    """Stand-in for `IPython.display.Markdown`, `HTML` and so on: its repr is the text itself."""

    def __init__(self, data: object = "", *_args: object, **options: object) -> None:
        source = next((options[name] for name in ("filename", "url") if options.get(name)), "")
        self.data = str(data if data not in ("", None) else source)

    def __repr__(self) -> str:
        return self.data


class IpythonImage:
    """Stand-in for `IPython.display.Image`: a picture from a file or from bytes, shown in its own size."""

    def __init__(self, data: Any = None, url: Any = None, filename: Any = None, *_args: Any, **_options: Any) -> None:
        source = next((given for given in (filename, url, data) if given is not None), None)
        if source is None:
            raise ValueError("No image data found. Expecting filename, url, or data.")
        if isinstance(source, str) and re.match(r"(https?|ftp)://", source):
            raise PermissionError(NO_NETWORK)
        if isinstance(source, str) and source.startswith("data:image/"):
            source = base64.b64decode(source.partition(",")[2])
        if isinstance(source, str | os.PathLike):
            with builtins.open(source, "rb") as file:
                source = file.read()
        self.data = bytes(source)

    def _repr_png_(self) -> bytes:
        return self.data

    def __repr__(self) -> str:
        return "<IPython.core.display.Image object>"


def drawn(thing: object) -> Image.Image | None:
    """Return the picture that an object draws of itself as IPython asks for it (bytes, or text in base64), or None."""
    for name in ("_repr_png_", "_repr_jpeg_"):
        method = getattr(type(thing), name, None)
        try:
            data = method(thing) if method is not None else None
            data = data[0] if isinstance(data, tuple) else data
            if data:
                image = Image.open(io.BytesIO(base64.b64decode(data) if isinstance(data, str) else data))
                image.load()
                return image
        except Exception:
            return None
    return None


class Shell:
    """What `get_ipython()` gives: it runs what lines with `%` and `!` stand for. False, so that libraries see none."""

    def __bool__(self) -> bool:
        return False

    def run_line_magic(self, name: str, line: str, *_args: object) -> Any:
        """Run `%name line`; what is not known is said on stderr."""
        if name in ("time", "timeit"):
            return _timed_line(name, line)
        if name in ("pip", "conda", "sx", "system"):
            return self.system(line if name in ("sx", "system") else f"{name} {line}")
        if name not in ("matplotlib", "config", "load_ext", "reload_ext", "autoreload", "precision", "pylab", "xmode"):
            sys.stderr.write(f"there is no magic %{name} in the sandbox; the line was left out\n")
        return None

    magic = run_line_magic

    def run_cell_magic(self, name: str, line: str, cell: str) -> Any:
        """Run `%%name line` with the rest of the cell."""
        if name == "timeit":
            return _timed_line(name, cell)
        if name == "writefile":
            with builtins.open(line.split()[-1], "w", encoding="utf-8") as file:
                file.write(cell)
            return None
        if name in ("html", "markdown", "latex", "svg", "javascript", "js"):
            sys.stdout.write(cell + "\n")
            return None
        return self.system(f"{name} {line}".strip())

    def system(self, command: str) -> None:
        """Say that `!command` cannot be run."""
        sys.stderr.write(no_program(command) + "\n")

    def getoutput(self, command: str) -> list[str]:
        """Return the lines that `!command` prints: none."""
        self.system(command)
        return []


def _timed_line(name: str, code: str) -> Any:
    space = sys.modules["__main__"].__dict__
    if name == "time":
        tree, value = ast.parse(code), None
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with timed():
            exec(compile(tree, "<time>", "exec"), space)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "<time>", "eval"), space)
        return value
    code = re.sub(r"\A(\s*-[a-z]\s*\d*)+\s", "", code)
    timer = timeit.Timer(code, globals=space)
    loops, seconds = timer.autorange()
    best = min(seconds, timer.timeit(loops), timer.timeit(loops)) / loops
    sys.stdout.write(f"{_duration(best)} per loop (best of 3 runs, {loops:,} loops each)\n")
    return None


@contextmanager
def timed() -> Iterator[None]:
    """Print how long the block took, as `%%time` does."""
    start, cpu = perf_counter(), process_time()
    try:
        yield
    finally:
        lines = f"CPU times: total: {_duration(process_time() - cpu)}\nWall time: {_duration(perf_counter() - start)}\n"
        sys.stdout.write(lines)


def _duration(seconds: float) -> str:
    scale, unit = next(
        ((scale, unit) for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")) if seconds * scale >= 1), (1e9, "ns")
    )
    return f"{seconds * scale:.3g} {unit}"


_LINE = re.compile(r"(\s*)((?:[A-Za-z_]\w*\s*=\s*)?)(%|!!?)\s*(.*?)\s*", re.DOTALL)
_HELP = re.compile(r"(\s*)\?{0,2}\s*([A-Za-z_][\w.]*)\s*\?{0,2}\s*")
_CELL = re.compile(r"%%(\w+)[ \t]*(.*)")
_MOST_LINES = 200


def read_notebook(code: str, error: SyntaxError, log: Callable[[str, str], None]) -> tuple[str, bool]:
    """Return the code with lines of a notebook as Python, of as many lines.

    And whether its run is to be timed (`%%time`).

    Only lines in which the compiler sees an error, the first of which is `error`, are touched. Raises the first error
    that is in no such line.
    """
    lines = code.split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    is_timed = False
    head = _CELL.fullmatch(lines[first].strip()) if lines[first].lstrip().startswith("%%") else None
    if head is not None:
        name, rest = head.groups()
        if name in ("time", "capture", "prun"):
            lines[first], is_timed = rest if name == "time" else "", name == "time"
        else:
            body = "\n".join(lines[first + 1 :])
            lines = [f"get_ipython().run_cell_magic({name!r}, {rest!r}, {body!r})", *[""] * (len(lines) - 1)]
        log("notebook", f"%%{name} was read as in a notebook")
    for _ in range(_MOST_LINES):
        try:
            ast.parse("\n".join(lines), error.filename or "<cell>")
        except SyntaxError as found:
            index = (found.lineno or 0) - 1
            line = lines[index] if 0 <= index < len(lines) else ""
            if "?" in line and (asked := _HELP.fullmatch(line)) is not None:
                lines[index], mark = f"{asked[1]}help({asked[2]})", "?"
            elif (match := _LINE.fullmatch(line)) is not None and match[4]:
                lines[index], mark = _as_python(*match.groups()), match[3]
            else:
                raise found from None
            log("notebook", f"a line with {mark} was read as in a notebook")
        else:
            break
    return "\n".join(lines), is_timed


def _as_python(indent: str, target: str, mark: str, rest: str) -> str:
    if mark == "%":
        name, _, line = rest.lstrip("%").partition(" ")
        return f"{indent}{target}get_ipython().run_line_magic({name!r}, {line.strip()!r})"
    return f"{indent}{target}get_ipython().{'getoutput' if target or mark == '!!' else 'system'}({rest!r})"


def install(display: Callable[..., None]) -> None:
    """Make the stand-in what programs import as IPython, with this `display`; once."""
    if any(isinstance(finder, _StandIn) for finder in sys.meta_path):
        return
    shell = Shell()
    builtins.get_ipython = lambda: shell  # type: ignore[attr-defined]
    sys.meta_path.insert(0, _StandIn(display, shell))
    importlib.import_module("PIL.ImageShow")  # it imports IPython where it is found
    for name in [name for name in sys.modules if name.partition(".")[0] == "IPython"]:
        del sys.modules[name]


class _StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and makes the modules of the stand-in, before any real IPython is found."""

    def __init__(self, display: Callable[..., None], shell: Shell) -> None:
        nothing = lambda *_args, **_options: None  # noqa: E731
        shown: dict[str, object] = {
            **{name: type(name, (DisplayText,), {}) for name in _TEXTS.split()},
            **{"display": display, "Image": IpythonImage, "DisplayObject": DisplayText},
            **dict.fromkeys(("clear_output", "set_matplotlib_formats", "update_display"), nothing),
        }
        top = {"__version__": ".".join(map(str, _VERSION)), "version_info": (*_VERSION, ""), "display": display}
        self.names: dict[str, dict[str, object]] = dict.fromkeys(_MODULES[1:], shown)
        self.names |= {"IPython": {**top, "get_ipython": lambda: shell}, "IPython.core": {}}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname in self.names:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname in ("IPython", "IPython.core"))
        if fullname.startswith("IPython."):
            raise ModuleNotFoundError(f"{fullname} is not here: IPython is a stand-in for `display`", name=fullname)
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__.update(self.names[module.__name__])
        if module.__name__ == "IPython":
            importlib.import_module("IPython.display")  # as with the real one, `import IPython` is enough
