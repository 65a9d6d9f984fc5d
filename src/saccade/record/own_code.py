"""Code of a user's own, named where an id could stand: `file.py:attribute` or `module:attribute`.

    code = reference("my_tools.py:Flip")
    flip = load(code)

Loading runs the file, once in a process, as an import does: a change of the file counts after a restart. Its folder,
and for modules the current one, are put at the end of `sys.path`, so a file may import its neighbours. Names of modules
and files are looked for nowhere else. Text that a model or a stored record holds must never get here; `loaded` is for
records. Nothing is isolated: the code can do what its user can.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from saccade.errors import RegistryError
from saccade.record.suggest import did_you_mean

_REFERENCE = re.compile(
    r"(?P<place>[^:]+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<attribute>[A-Za-z_]\w*)(?P<rest>[:@].*)?", re.DOTALL
)
REFERENCE_PATTERN = r"([^:]+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*"
"""The two forms as a regular expression, for fields of settings."""

_modules: dict[Path | str, ModuleType] = {}
_digests: dict[Path, str] = {}
_files: set[str] = set()


@dataclass(frozen=True, slots=True)
class Reference:
    """Where an object lies."""

    place: str
    """Path of a file that ends in `.py`, or the dotted name of a module."""
    attribute: str
    """Empty for the file alone."""
    rest: str | None = None
    """What follows a further `:` or `@`, such as the name of a preset; None for nothing."""

    @property
    def is_file(self) -> bool:
        """Whether the place is a file."""
        return self.place.endswith(".py")

    @property
    def path(self) -> Path:
        """Of a file, absolute; a relative one is looked for in the current folder."""
        return Path(self.place).resolve()

    @property
    def name(self) -> str:
        """The object without what follows it."""
        return f"{self.place}:{self.attribute}" if self.attribute else self.place


def reference(text: str) -> Reference | None:
    """What `text` refers to; None if it has neither form, as `pyvision@1` has not."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        return None
    return Reference(match["place"], match["attribute"], match["rest"][1:] if match["rest"] else None)


def findable(code: Reference) -> bool:
    """Whether there is such a file or module; the module itself is not imported, packages above it are."""
    if code.is_file:
        return code.path.is_file()
    _on_path(os.getcwd())
    try:
        return find_spec(code.place) is not None
    except (ImportError, ValueError):  # a package above it is not there, or is a plain module
        return False


def load(code: Reference) -> object:
    """The object; its file or module is run if it was not yet.

    Raises:
        RegistryError: there is no such file, module or attribute, or the code raises; says in which line.
    """
    module = _from_file(code) if code.is_file else _from_module(code)
    try:
        return getattr(module, code.attribute)
    except AttributeError:
        names = list(_own(module)) or [name for name in vars(module) if not name.startswith("_")]
        raise RegistryError(
            f"{code.place} has no {code.attribute!r}. {did_you_mean(code.attribute, names)}".rstrip()
        ) from None


def defined(path: str) -> dict[str, object]:
    """What the file at `path` defines itself, by public name in its order; it is run if it was not yet.

    Raises:
        RegistryError: there is no such file, or it raises; says in which line.
    """
    return _own(_from_file(Reference(path, "")))


def _own(module: ModuleType) -> dict[str, object]:
    """What a module defines and does not import, by public name."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }


def loaded(code: Reference) -> bool:
    """Whether the user had this process load that file or module before."""
    return (code.path if code.is_file else code.place) in _modules


def digest(code: Reference) -> str | None:
    """The sha256 of the file, of the bytes that were run if it was; None for a module, or where there is no file."""
    if not code.is_file:
        return None
    try:
        return _digests.get(code.path) or sha256(code.path.read_bytes()).hexdigest()
    except OSError:
        return None


def blame(error: BaseException) -> str:
    """What a user's own code did wrong, for an exception that came through it; empty for any other exception."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in _files]
    if not frames:
        return ""
    last = frames[-1]
    notes = "".join(f" [{note}]" for note in getattr(error, "__notes__", ()))
    line = f"\n    {last.line}" if last.line else ""
    return f"{_said(error)}{notes}\nraised through {last.filename}, line {last.lineno}, in {last.name}:{line}"


def located(error: BaseException, path: str | None = None) -> str:
    """`Type: words (file, line n)`: an exception, and the last line on its way in the file `path`, or else in any."""
    where = _where(error, path)
    return _said(error) + (f" ({where})" if where else "")


def _from_file(code: Reference) -> ModuleType:
    path = code.path
    if path in _modules:
        return _modules[path]
    try:
        source = path.read_bytes()
    except OSError as error:
        raise RegistryError(f"{code.place} cannot be read: {error.strerror} ({path}). Check the path.") from error
    checksum = sha256(source).hexdigest()
    # Not its plain name: another module may have that. Dataclasses and pydantic look their module up by it.
    module = ModuleType(f"saccade_own_code.{path.stem}_{sha256(bytes(path)).hexdigest()[:8]}")
    module.__file__ = str(path)
    _on_path(str(path.parent))
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise RegistryError(_broken(code, error, str(path))) from error
    _modules[path], _digests[path] = module, checksum
    _files.add(str(path))
    return module


def _from_module(code: Reference) -> ModuleType:
    if not findable(code):
        raise RegistryError(
            f"there is no module {code.place!r}, installed or in {os.getcwd()}. "
            "Install it, or write the path of a file: path/to/file.py:attribute."
        )
    try:
        module = import_module(code.place)
    except (Exception, SystemExit) as error:
        raise RegistryError(_broken(code, error, None)) from error
    _modules[code.place] = module
    if module.__file__ is not None and code.place.partition(".")[0] not in {"saccade", *sys.stdlib_module_names}:
        _files.add(module.__file__)
    return module


def _broken(code: Reference, error: BaseException, path: str | None) -> str:
    todo = "Install what is missing, or correct it." if isinstance(error, ImportError) else "Correct it."
    return f"{code.name} cannot be loaded: {located(error, path)}. {todo}"


def _said(error: BaseException) -> str:
    text = " ".join((error.msg if isinstance(error, SyntaxError) else str(error)).split())
    return f"{type(error).__name__}: {text[:400]}".rstrip(": .")


def _where(error: BaseException, path: str | None) -> str:
    """The last line on the way in the file `path`, or else in any that is no part of Python's import system."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    own = [frame for frame in frames if frame.filename == path]
    others = [
        frame for frame in frames if not frame.filename.startswith("<frozen") and "importlib" not in frame.filename
    ]
    last = (own or others)[-1:]
    return f"{last[0].filename}, line {last[0].lineno}" if last else ""


def _on_path(folder: str) -> None:
    if folder not in sys.path and not ("" in sys.path and folder == os.getcwd()):
        sys.path.append(folder)
