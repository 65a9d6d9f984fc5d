"""Things found by a versioned id: `id@version` -> `module:attribute`, imported when it is first asked for.

    DIALECTS = Registry("dialects", {"pyvision@1": "saccade.dialects.pyvision:PyVision"})
    dialect = DIALECTS.load("pyvision")          # the highest version; "pyvision@1" names one

Other packages add entries by an entry point of the group `saccade.<kind>` whose name is `id@version`. Making a registry
imports nothing and reads no metadata. A registry never changes; it does not say whether an entry can be imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType

from saccade.errors import RegistryError
from saccade.record.suggest import did_you_mean

_ID = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)@(?P<version>[1-9][0-9]*|0)")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class Registry:
    """Read-only map from versioned ids to objects of one kind."""

    def __init__(self, kind: str, entries: Mapping[str, str]) -> None:
        for entry, target in entries.items():
            if not _ID.fullmatch(entry):
                raise RegistryError(f"{entry!r} is no id of {kind}: write lower-case-name@version, as in pyvision@1")
            if not _TARGET.fullmatch(target):
                raise RegistryError(f"{target!r} of {entry} is no target: write package.module:attribute")
        self.kind = kind
        self._own = dict(entries)

    @cached_property
    def entries(self) -> Mapping[str, str]:
        """Every id and its target, those of installed packages included.

        Raises:
            RegistryError: an installed package claims an id that is taken, or one that is no id.
        """
        merged = dict(self._own)
        for point in entry_points(group=f"saccade.{self.kind}"):
            owner = point.dist.name if point.dist else "an installed package"
            if not _ID.fullmatch(point.name):
                raise RegistryError(f"{owner} registers {point.name!r}, which is no id of {self.kind}: name@version")
            if merged.setdefault(point.name, point.value) != point.value:
                raise RegistryError(
                    f"{owner} registers {point.name} of {self.kind} as {point.value}, but it is taken by "
                    f"{merged[point.name]}. Uninstall one of them, or ask its author for another version or name."
                )
        return MappingProxyType(merged)

    def ids(self) -> tuple[str, ...]:
        """All ids, by name and then by version."""
        return tuple(sorted(self.entries, key=_order))

    def resolve(self, wanted: str) -> str:
        """The versioned id that `wanted` names: itself, or the highest version of a bare name.

        Raises:
            RegistryError: there is none; suggests the nearest.
        """
        if wanted in self.entries:
            return wanted
        versions = [entry for entry in self.ids() if _order(entry)[0] == wanted]
        if versions:
            return versions[-1]
        name, at, version = wanted.partition("@")
        others = [entry for entry in self.ids() if _order(entry)[0] == name]
        if at and others:
            raise RegistryError(
                f"{self.kind} has no version {version!r} of {name}; it has {', '.join(others)}. Name one of these."
            )
        known = [*self.entries, *(_order(entry)[0] for entry in self.entries)] if at else map(_name, self.entries)
        raise RegistryError(f"{self.kind} has no {wanted!r}. {did_you_mean(wanted, known)}".rstrip())

    def load(self, wanted: str) -> object:
        """Import and return what `wanted` names.

        Raises:
            RegistryError: nothing has that id, or its target cannot be imported.
        """
        entry = self.resolve(wanted)
        module, _, attribute = self.entries[entry].partition(":")
        try:
            return getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise RegistryError(
                f"{entry} of {self.kind} cannot be loaded from {self.entries[entry]}: {error}. "
                "Install what is missing, or correct the target."
            ) from error


def _order(entry: str) -> tuple[str, int]:
    name, _, version = entry.partition("@")
    return name, int(version)


def _name(entry: str) -> str:
    return _order(entry)[0]
