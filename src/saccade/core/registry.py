"""Find objects by a versioned id: `id@version` -> `module:attribute`, imported on first use.

    DIALECTS = Registry("dialects", {"pyvision@1": "saccade.dialects.pyvision:PyVisionDialect"})
    dialect = DIALECTS.load("pyvision")          # the highest version; "pyvision@1" names one
    dialect = DIALECTS.load("my_dialect.py:MINE")          # the user's own code

Other packages add entries by an entry point of the group `saccade.<kind>` whose name is `id@version`; without a version
it is version 1. Registered names come first: `direct:short` is a preset of `direct`, even if a module has that name.
A registry never changes. Making one imports nothing and reads no metadata; whether an entry can be imported shows when
it is loaded.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MappingProxyType, ModuleType
from typing import Final, Generic, TypeVar, cast

from saccade.errors import MissingPluginError, RegistryError

# Saccade's own plug-ins, which the core finds by entry points as it does any package's: for error messages only.


OFFERED: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "worlds": {
        "worlds": frozenset(),
        "experts": frozenset(),
        "models": frozenset({"tiny", "solver"}),
        "dialects": frozenset({"tiny"}),
        "commands": frozenset({"demo", "worlds"}),
    },
    "vista": {
        "tools": frozenset(
            (
                *("chartassistant", "chartdet", "chartmoe", "chartocr", "chartvlm", "construction_cdl", "deplot"),
                *("diagram_formalizer", "gllava", "goal_cdl", "grounding_dino", "image_cdl", "inter_gps", "multimath"),
                *("ocr", "opencv", "sam", "text_cdl", "unichart"),
            )
        ),
        "tool-lists": frozenset({"vista"}),
    },
    "serve": {
        "commands": frozenset({"serve", "mcp", "sandbox"}),
        "tool-origins": frozenset({"verl-tool"}),
        "tool-servers": frozenset({"verl-tool"}),
    },
    "integrations": {
        "exports": frozenset({"otel"}),
        "task-forms": frozenset({"harbor"}),
        "formats": frozenset({"atif"}),
        "commands": frozenset({"openenv"}),
    },
    "verl": {"trainers": frozenset({"verl"}), "tool-servers": frozenset({"ray"})},
    "audit": {"audits": frozenset({"attacks"})},
}
"""Plug-in -> kind of registry -> the names that it registers; no names: whatever of that kind comes with Saccade."""
DISTRIBUTION: Final = "saccade-vlm"
"""What pip installs; PyPI's `saccade` is another project."""
HOW: Final = f"Install Saccade as a whole: pip install --force-reinstall {DISTRIBUTION}"


def plugin_of(kind: str, name: str) -> str:
    """Return the plug-in that offers `name` (without its version) of a kind; empty if none does."""
    for plugin, kinds in OFFERED.items():
        if kind in kinds and (not kinds[kind] or name in kinds[kind]):
            return plugin
    return ""


def missing_plugin(kind: str, name: str, registered: Collection[str]) -> str:
    """Return a sentence that names the plug-in that `name` of a kind needs; empty if none is missing.

    Args:
        kind: as the registry calls it, e.g. `worlds`.
        name: what the user wrote.
        registered: the ids that the registry has; a kind that has some is taken to be installed.
    """
    bare = name.partition(":")[0].partition("@")[0]
    plugin = plugin_of(kind, bare)
    every = plugin and not OFFERED[plugin][kind]
    if not plugin or (every and registered) or any(entry.partition("@")[0] == bare for entry in registered):
        return ""
    of = f"the {kind} that come with Saccade are" if every else f"{bare} is"
    return f"{of[0].upper()}{of[1:]} in its plug-in `{plugin}`, which is not installed. {HOW}"


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def own_version() -> str:
    """Return the version that is installed, or words for a source tree that is not."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown (a source tree that is not installed)"


_ID = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)@(?P<version>[1-9][0-9]*|0)")
_TARGET = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<attribute>[A-Za-z_]\w*)(?:\s*\[(?P<extra>[\w-]+)\])?")

T = TypeVar("T")
Lacks = Callable[[object], str]
"""Says what is wrong with an object of a registry, as the end of a sentence; empty if nothing is."""


class Registry(Generic[T]):
    """Read-only map from versioned ids to objects of one kind."""

    def __init__(self, kind: str, entries: Mapping[str, str], lacks: Lacks = lambda value: "") -> None:
        for entry, target in entries.items():
            if not _ID.fullmatch(entry):
                raise RegistryError(f"{entry!r} is no id of {kind}: write lower-case-name@version, as in pyvision@1")
            if not _TARGET.fullmatch(target):
                raise RegistryError(f"{target!r} of {entry} is no target: write package.module:attribute")
        self.kind = kind
        self._own = dict(entries)
        self._lacks = lacks

    @cached_property
    def owners(self) -> Mapping[str, str]:
        """Map ids to the packages that register them; Saccade's own entries and plug-ins are left out."""
        return MappingProxyType(self._registered[1])

    @cached_property
    def entries(self) -> Mapping[str, str]:
        """Every id and its target, those of installed packages included. Raises `RegistryError` if an installed package
        claims an id that is taken, or one that is no id.
        """
        return MappingProxyType(self._registered[0])

    @cached_property
    def _registered(self) -> tuple[dict[str, str], dict[str, str]]:
        merged, owners = dict(self._own), {}
        for point in entry_points(group=f"saccade.{self.kind}"):
            owner = point.dist.name if point.dist else "an installed package"
            name = point.name if "@" in point.name else f"{point.name}@1"
            if not _ID.fullmatch(name):
                raise RegistryError(
                    f"{owner} registers {point.name!r}, which is no id of {self.kind}: write lower-case-name@version, "
                    "or the name alone for version 1."
                )
            if merged.setdefault(name, point.value) != point.value:
                raise RegistryError(
                    f"{owner} registers {name} of {self.kind} as {point.value}, but it is taken by {merged[name]}. "
                    "Uninstall one of them, or ask its author for another version or name."
                )
            if owner != DISTRIBUTION:
                owners[name] = owner
        return merged, owners

    def ids(self) -> tuple[str, ...]:
        return tuple(sorted(self.entries, key=_order))

    def names(self) -> tuple[str, ...]:
        """Return the ids without their versions, each once."""
        return tuple(dict.fromkeys(map(_name, self.ids())))

    def has(self, wanted: str) -> bool:
        """Return whether `wanted` is an id, or one without its version."""
        return wanted in self.entries or wanted in map(_name, self.entries)

    def resolve(self, wanted: str) -> str:
        """Return the versioned id for `wanted`: itself, or the highest version of a bare name.

        Raises `RegistryError`: there is none; suggests the nearest.
        """
        if wanted in self.entries:
            return wanted
        versions = [entry for entry in self.ids() if _name(entry) == wanted]
        if versions:
            return versions[-1]
        name, at, version = wanted.partition("@")
        others = [entry for entry in self.ids() if _name(entry) == name]
        if at and others:
            raise RegistryError(
                f"{self.kind} has no version {version!r} of {name}; it has {', '.join(others)}. Name one of these."
            )
        known = [*self.entries, *map(_name, self.entries)] if at else map(_name, self.entries)
        hint = did_you_mean(wanted, known)
        if wanted.endswith(".py"):
            hint = f"Of a file, name what is in it: {wanted}:NAME."
        missing = missing_plugin(self.kind, wanted, self.entries)
        error = MissingPluginError if missing else RegistryError
        raise error(f"{self.kind} has no {wanted!r}. {missing or hint or self._listing()}")

    def full_name(self, wanted: str) -> str:
        """Return an id with its version, or a reference to code unchanged. Raises `RegistryError`."""
        return wanted if self.code(wanted) is not None else self.resolve(wanted)

    def code(self, wanted: str) -> Reference | None:
        """Return the reference to the user's own code; None if `wanted` can only be an id."""
        return None if self.has(wanted.partition(":")[0]) else reference(wanted)

    def split(self, wanted: str) -> tuple[str, str | None]:
        """Split `codedance@1:repo` into the id (or code) and the text after it, None if there is none."""
        code = self.code(wanted)
        if code is not None:
            return code.name, code.rest
        name, colon, rest = wanted.partition(":")
        return name, rest if colon else None

    def load(self, wanted: str) -> T:
        """Import and return what a user names: an id, or code of their own.

        Raises `RegistryError`: nothing has that name, it cannot be imported, or it is an object of another kind;
        `UnavailableError`: it needs something that is not installed.
        """
        entry = self.find(wanted)
        lack = self._lacks(entry)
        if lack:
            raise self.wrong(wanted, lack)
        return cast(T, entry)

    def load_recorded(self, name: str) -> T:
        """Load what a stored record names: an id, or code that this process has loaded before. A record runs no code.
        Raises `RegistryError` as `load`, or it is code that nobody named in this process.
        """
        self.check_recorded(name)
        return self.load(name)

    def check_recorded(self, name: str) -> None:
        """Raise `RegistryError` if a stored record names a user's own code that this process has not loaded."""
        code = self.code(name)
        if code is not None and not loaded(code):
            raise RegistryError(
                f"{name} is code of somebody's own, and what a stored run names is not run by itself. "
                f"Name it in this command, or install it as a package with an entry point of saccade.{self.kind}."
            )

    def find(self, wanted: str) -> object:
        """Import and return what a user names, whatever it is. Raises `RegistryError` as `load`."""
        code = self.code(wanted)
        if code is None:
            return self._imported(self.resolve(wanted))
        if not code.is_file and "." not in code.place and not findable(code):
            hint = did_you_mean(code.place, map(_name, self.entries))
            raise RegistryError(
                f"{self.kind} has no {code.place!r}, and there is no module of that name. {hint or self._listing()}"
            )
        if code.rest is not None:
            raise RegistryError(f"{wanted!r}: nothing may follow {code.name} here. Leave out {code.rest!r}.")
        return load(code)

    def wrong(self, wanted: str, lack: str) -> RegistryError:
        """Return the error for an object of another kind: what is wrong with it ends the sentence."""
        todo = "" if self.has(wanted) else f" docs/extending.md shows a {self.kind[:-1]} of one's own."
        return RegistryError(f"{wanted} is no {self.kind[:-1]}: {lack}.{todo}")

    def _listing(self) -> str:
        return f"`saccade list {self.kind}` names all."

    def extra(self, entry: str) -> str:
        """Return the extra of its package that an entry needs, as its target says in brackets; empty for none."""
        match = _TARGET.fullmatch(self.entries[entry].strip())
        return (match["extra"] or "") if match else ""

    def _imported(self, entry: str) -> object:
        match = _TARGET.fullmatch(self.entries[entry].strip())
        if match is None:
            raise RegistryError(f"{self.entries[entry]!r} of {entry} is no target: write package.module:attribute")
        target = Reference(match["module"], match["attribute"])
        plugin = plugin_of(self.kind, _name(entry)) if entry not in self.owners else ""
        if plugin and not findable(target):
            raise MissingPluginError(
                f"{entry} of {self.kind} is in Saccade's plug-in `{plugin}`, and this installation has no module "
                f"{target.place}. {HOW}"
            )
        try:
            return load(target)
        except RegistryError as error:
            raise RegistryError(f"{entry} of {self.kind}: {error}") from error


class PresetRegistry(Registry[T]):
    """A registry of families: a target maps names of presets to objects, the first of which is the default.

    A family without presets has the single key `""`. Code of a user's own may also be such an object by itself.
    """

    def load(self, wanted: str) -> T:
        """Return the object that `name`, `name@version` or either with `:preset` names, or of the user's code.

        Raises `RegistryError`: as `Registry.load`, or there is no such preset; suggests the nearest.
        """
        name, preset = self.split(wanted)
        family = self._family(name)
        chosen = next(iter(family)) if preset is None else preset
        if chosen not in family:
            if set(family) == {""}:
                raise RegistryError(f"{name} has no presets, so not {chosen!r} either; write {name}")
            raise RegistryError(f"{name} has no preset {chosen!r}. {did_you_mean(chosen, family)}".rstrip())
        lack = self._lacks(family[chosen])
        if lack:
            raise self.wrong(wanted, lack)
        return cast(T, family[chosen])

    def presets(self, wanted: str) -> tuple[str, ...]:
        """Return the names of the presets of a family, its default first; empty if it has none.

        Raises `RegistryError`.
        """
        return tuple(name for name in self._family(wanted) if name)

    def _family(self, name: str) -> Mapping[str, object]:
        entry = self.find(name)
        if not isinstance(entry, Mapping):
            return {"": entry}
        if not entry:
            raise self.wrong(name, "it is a mapping without presets")
        return entry


def _order(entry: str) -> tuple[str, int]:
    name, _, version = entry.partition("@")
    return name, int(version)


def _name(entry: str) -> str:
    return _order(entry)[0]


# Checks for the parameter `lacks` of a registry.


def is_a(kind: type | tuple[type, ...], words: str) -> Lacks:
    """Check for an instance of `kind`, called `words` in messages."""
    return lambda value: "" if isinstance(value, kind) else f"it is {described(value)}, not {words}"


def is_subclass(kind: type, words: str) -> Lacks:
    """Check for a subclass of `kind`, called `words` in messages."""

    def lacks(value: object) -> str:
        return "" if isinstance(value, type) and issubclass(value, kind) else f"it is {described(value)}, not {words}"

    return lacks


def all_of(*checks: Lacks) -> Lacks:
    """Check by each of `checks`, in their order."""
    return lambda value: next(filter(None, (check(value) for check in checks)), "")


def has_members(names: Iterable[str]) -> Lacks:
    """Check for an object that has members of these names."""
    wanted = tuple(names)

    def lacks(value: object) -> str:
        if isinstance(value, type):
            return f"it is {described(value)}; name an object of it"
        missing = [name for name in wanted if not hasattr(value, name)]
        return f"it is {described(value)} without {', '.join(missing)}" if missing else ""

    return lacks


def described(value: object) -> str:
    """Describe an object for a message."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__}"
    return f"a value of type {type(value).__name__}"


# Code of the user's own, named where an id could be: `file.py:attribute` or `module:attribute`.
#
# Loading runs the file once in a process, as an import does. Its folder, and for modules the current one, are put at
# the end of `sys.path`, so a file may import its neighbours. Text of a model or a stored record must never get here
# (`loaded` is for records): nothing is isolated, the code can do what its user can.

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
    """The place of an object in the user's own code."""

    place: str
    """Path of a file that ends in `.py`, or the dotted name of a module."""
    attribute: str
    """Empty for the file only."""
    rest: str | None = None
    """Text behind a further `:` or `@`, such as the name of a preset; None for nothing."""

    @property
    def is_file(self) -> bool:
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
    """Parse `text` as a reference; None if it has neither form, as `pyvision@1`."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        return None
    return Reference(match["place"], match["attribute"], match["rest"][1:] if match["rest"] else None)


def findable(code: Reference) -> bool:
    """Return whether there is such a file or module; the module itself is not imported, packages above it are."""
    if code.is_file:
        return code.path.is_file()
    _on_path(os.getcwd())
    try:
        return find_spec(code.place) is not None
    except (ImportError, ValueError):  # a package above it is not there, or is a plain module
        return False


def load(code: Reference) -> object:
    """Return the object; runs its file or module if it was not run yet.

    Raises `RegistryError`: there is no such file, module or attribute, or the code raises; says in which line.
    """
    module = _from_file(code) if code.is_file else _from_module(code)
    try:
        return getattr(module, code.attribute)
    except AttributeError:
        names = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and name != "annotations"  # of __future__
            and (getattr(value, "__module__", "") == module.__name__ or not isinstance(value, _IMPORTED))
        ]
        raise RegistryError(
            f"{code.place} has no {code.attribute!r}. {did_you_mean(code.attribute, names)}".rstrip()
        ) from None


_IMPORTED: Final = (ModuleType, FunctionType, BuiltinFunctionType, type)
"""Kinds of objects that belong to where they were made; others are a file's own, whatever their class."""


def defined(path: str) -> dict[str, object]:
    """Return the public objects that the file at `path` defines, in order; runs it if it was not run yet.

    Raises `RegistryError`: there is no such file, or it raises; says in which line.
    """
    return _own(_from_file(Reference(path, "")))


def _own(module: ModuleType) -> dict[str, object]:
    """Return the public objects that a module defines and does not import."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }


def loaded(code: Reference) -> bool:
    """Return whether the user had this process load that file or module before."""
    return (code.path if code.is_file else code.place) in _modules


def digest(code: Reference) -> str | None:
    """Return the sha256 of the file, of the bytes that were run if it was; None where there is no file."""
    if not code.is_file:
        return None
    try:
        return _digests.get(code.path) or sha256(code.path.read_bytes()).hexdigest()
    except OSError:
        return None


def blame(error: BaseException) -> str:
    """Describe an exception that a user's own code raised, with the line; empty for any other exception."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in _files]
    if not frames:
        return ""
    last = frames[-1]
    notes = "".join(f" [{note}]" for note in getattr(error, "__notes__", ()))
    line = f"\n    {last.line}" if last.line else ""
    return f"{_said(error)}{notes}\nraised through {last.filename}, line {last.lineno}, in {last.name}:{line}"


def located(error: BaseException, path: str | None = None) -> str:
    """Write `Type: words (file, line n)`: an exception, and its last line in the file `path`, or else in any."""
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
    """Return the last line on the way in the file `path`, or else in any that is no part of Python's import system."""
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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `Did you mean 'x'?` with up to three near names, else the known names if few, else an empty text."""
    names = sorted(set(known))
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return "Did you mean " + " or ".join(repr(match) for match in near) + "?"
    if names and len(names) <= 16:
        return "Known: " + ", ".join(names) + "."
    return ""
