"""Things found by a versioned id: `id@version` -> `module:attribute`, imported when it is first asked for.

    DIALECTS = Registry("dialects", {"pyvision@1": "saccade.dialects.pyvision:PyVisionDialect"})
    dialect = DIALECTS.load("pyvision")          # the highest version; "pyvision@1" names one
    dialect = DIALECTS.load("my_dialect.py:MINE")          # code of the user's own, see `own_code`

Other packages add entries by an entry point of the group `saccade.<kind>` whose name is `id@version`; without a version
it is version 1. Registered names come first: `direct:short` is a preset of `direct`, even beside a module of that name.
Making a registry imports nothing and reads no metadata. A registry never changes; it does not say whether an entry can
be imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Generic, TypeVar, cast

from saccade.core.plugins import HOW, missing_plugin, plugin_of
from saccade.errors import RegistryError, UnavailableError
from saccade.record import own_code
from saccade.record.own_code import Reference, reference
from saccade.record.suggest import did_you_mean

_ID = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)@(?P<version>[1-9][0-9]*|0)")
_TARGET = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<attribute>[A-Za-z_]\w*)(?:\s*\[(?P<extra>[\w-]+)\])?")

T = TypeVar("T")
Lacks = Callable[[object], str]
"""What is wrong with an object that should be of a kind, as the end of a sentence; empty if nothing is."""


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
        """The package that registers an id, for those of other packages; reads their metadata with `entries`.

        What Saccade's own plug-ins register has no owner.
        """
        return MappingProxyType(self._registered[1])

    @cached_property
    def entries(self) -> Mapping[str, str]:
        """Every id and its target, those of installed packages included.

        Raises:
            RegistryError: an installed package claims an id that is taken, or one that is no id.
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
            if owner != "saccade":
                owners[name] = owner
        return merged, owners

    def ids(self) -> tuple[str, ...]:
        """All ids, by name and then by version."""
        return tuple(sorted(self.entries, key=_order))

    def names(self) -> tuple[str, ...]:
        """The ids without their versions, each once."""
        return tuple(dict.fromkeys(map(_name, self.ids())))

    def has(self, wanted: str) -> bool:
        """Whether `wanted` is an id, or one without its version."""
        return wanted in self.entries or wanted in map(_name, self.entries)

    def resolve(self, wanted: str) -> str:
        """The versioned id that `wanted` names: itself, or the highest version of a bare name.

        Raises:
            RegistryError: there is none; suggests the nearest.
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
        raise RegistryError(f"{self.kind} has no {wanted!r}. {missing or hint or self._listing()}")

    def full_name(self, wanted: str) -> str:
        """`wanted`, an id with its version or code of one's own as it is written. Raises `RegistryError`."""
        return wanted if self.code(wanted) is not None else self.resolve(wanted)

    def code(self, wanted: str) -> Reference | None:
        """The user's own code that `wanted` refers to; None for what could only be an id."""
        return None if self.has(wanted.partition(":")[0]) else reference(wanted)

    def split(self, wanted: str) -> tuple[str, str | None]:
        """The id or code that `wanted` begins with, and what follows it (`codedance@1:repo`); None for nothing."""
        code = self.code(wanted)
        if code is not None:
            return code.name, code.rest
        name, colon, rest = wanted.partition(":")
        return name, rest if colon else None

    def load(self, wanted: str) -> T:
        """Import and return what a user names: an id, or code of their own.

        Raises:
            RegistryError: nothing has that name, it cannot be imported, or it is an object of another kind.
            UnavailableError: it needs something that is not installed.
        """
        entry = self.find(wanted)
        lack = self._lacks(entry)
        if lack:
            raise self.wrong(wanted, lack)
        return cast(T, entry)

    def load_recorded(self, name: str) -> T:
        """What a stored record names: an id. Code of the user's own only if it was loaded before: a record runs none.

        Raises:
            RegistryError: as `load`, or it is code that nobody named in this process.
        """
        self.check_recorded(name)
        return self.load(name)

    def check_recorded(self, name: str) -> None:
        """Raises `RegistryError` if a stored record names code of somebody's own that this process did not load."""
        code = self.code(name)
        if code is not None and not own_code.loaded(code):
            raise RegistryError(
                f"{name} is code of somebody's own, and what a stored run names is not run by itself. "
                f"Name it in this command, or install it as a package with an entry point of saccade.{self.kind}."
            )

    def find(self, wanted: str) -> object:
        """Import and return what a user names, whatever it is. Raises `RegistryError` as `load`."""
        code = self.code(wanted)
        if code is None:
            return self._imported(self.resolve(wanted))
        if not code.is_file and "." not in code.place and not own_code.findable(code):
            hint = did_you_mean(code.place, map(_name, self.entries))
            raise RegistryError(
                f"{self.kind} has no {code.place!r}, and there is no module of that name. {hint or self._listing()}"
            )
        if code.rest is not None:
            raise RegistryError(f"{wanted!r}: nothing may follow {code.name} here. Leave out {code.rest!r}.")
        return own_code.load(code)

    def wrong(self, wanted: str, lack: str) -> RegistryError:
        """The error for an object of another kind: what is wrong with it ends the sentence."""
        todo = "" if self.has(wanted) else f" docs/extending.md shows a {self.kind[:-1]} of one's own."
        return RegistryError(f"{wanted} is no {self.kind[:-1]}: {lack}.{todo}")

    def _listing(self) -> str:
        return f"`saccade list {self.kind}` names all."

    def extra(self, entry: str) -> str:
        """The extra of its package that an entry needs, as its target says in brackets; empty for none."""
        match = _TARGET.fullmatch(self.entries[entry].strip())
        return (match["extra"] or "") if match else ""

    def _imported(self, entry: str) -> object:
        match = _TARGET.fullmatch(self.entries[entry].strip())
        if match is None:
            raise RegistryError(f"{self.entries[entry]!r} of {entry} is no target: write package.module:attribute")
        target = Reference(match["module"], match["attribute"])
        plugin = plugin_of(self.kind, _name(entry)) if entry not in self.owners else ""
        if plugin and not own_code.findable(target):
            raise UnavailableError(
                f"{entry} of {self.kind} is in Saccade's plug-in `{plugin}`, and this installation has no module "
                f"{target.place}. {HOW}"
            )
        try:
            return own_code.load(target)
        except RegistryError as error:
            raise RegistryError(f"{entry} of {self.kind}: {error}") from error


class PresetRegistry(Registry[T]):
    """A registry of families: a target maps names of presets to objects, the first of which is the default.

    A family without presets has the single key `""`. Code of a user's own may also be such an object by itself.
    """

    def load(self, wanted: str) -> T:
        """The object that `name`, `name@version` or either with `:preset` names, or of the user's own code.

        Raises:
            RegistryError: as `Registry.load`, or there is no such preset; suggests the nearest.
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
        """The names of the presets of a family, its default first; empty if it has none. Raises `RegistryError`."""
        return tuple(name for name in self._family(wanted) if name)

    def _family(self, name: str) -> Mapping[str, object]:
        entry = self.find(name)
        if not isinstance(entry, Mapping):
            return {"": entry}
        if not entry:
            raise self.wrong(name, "it is a mapping without presets")
        return entry


def is_a(kind: type | tuple[type, ...], words: str) -> Lacks:
    """What an object lacks that should be one of the class `kind`, called `words`."""
    return lambda value: "" if isinstance(value, kind) else f"it is {described(value)}, not {words}"


def is_subclass(kind: type, words: str) -> Lacks:
    """What an object lacks that should be a subclass of `kind`, called `words`."""

    def lacks(value: object) -> str:
        return "" if isinstance(value, type) and issubclass(value, kind) else f"it is {described(value)}, not {words}"

    return lacks


def has_members(names: Iterable[str]) -> Lacks:
    """What an object lacks that should have members of these names."""
    wanted = tuple(names)

    def lacks(value: object) -> str:
        if isinstance(value, type):
            return f"it is {described(value)}; name an object of it"
        missing = [name for name in wanted if not hasattr(value, name)]
        return f"it is {described(value)} without {', '.join(missing)}" if missing else ""

    return lacks


def described(value: object) -> str:
    """What kind of thing an object is, for a message."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__}"
    return f"a value of type {type(value).__name__}"


def _order(entry: str) -> tuple[str, int]:
    name, _, version = entry.partition("@")
    return name, int(version)


def _name(entry: str) -> str:
    return _order(entry)[0]
