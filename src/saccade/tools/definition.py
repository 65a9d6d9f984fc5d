"""What is known of a tool without calling it: names, texts, schemas, what must be installed, and what a call costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec

from pydantic import JsonValue

from saccade.tools.setup import SetupEntry


class Cost(StrEnum):
    """What a call costs, roughly."""

    LIGHT = "light"
    """Milliseconds on one CPU core."""
    MEDIUM = "medium"
    """Up to seconds on one CPU core."""
    HEAVY = "heavy"
    """Wants an accelerator."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be installed beyond Saccade's own dependencies."""

    modules: tuple[str, ...] = ()
    """Top-level Python modules."""
    weights: str | None = None
    """The model weights that are loaded, or None."""
    install: str = ""
    """The command that installs all of it."""
    setup: SetupEntry | None = None
    """What the setup of tools must name, or None."""

    def missing(self) -> tuple[str, ...]:
        """The modules that cannot be found, and what the setup of tools does not name."""
        modules = tuple(name for name in self.modules if find_spec(name) is None)
        return modules if self.setup is None or self.setup.named else (*modules, str(self.setup))

    @property
    def remedy(self) -> str:
        """How to get what is missing, in a few words for a person; empty if nothing is."""
        if not self.missing():
            return ""
        steps = [self.install] if self.install and any(find_spec(name) is None for name in self.modules) else []
        if self.setup is not None and not self.setup.named:
            steps.append(self.setup.todo)
        return "; ".join(steps) or ", ".join(self.missing())


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of a tool, under which published models call it, and how its arguments map to the tool's own."""

    name: str
    rename: Mapping[str, str] = field(default_factory=dict)
    """Argument as it is written under this alias -> argument of the tool."""
    given: Mapping[str, JsonValue] = field(default_factory=dict)
    """Arguments that the alias implies; they cannot be written under it."""
    ignored: tuple[str, ...] = ()
    """Arguments that are accepted and have no effect, such as a label for the reader."""


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool as a paper names it."""

    family: str
    name: str
    """The paper's name."""
    tool: str
    """The registered name."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Arguments with which the registered tool does what the paper's does."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """What a caller needs to know of a tool."""

    name: str
    aliases: tuple[Alias, ...]
    description: str
    """One paragraph that a model may read."""
    parameters: dict[str, JsonValue]
    """JSON Schema of the arguments."""
    returns: dict[str, JsonValue]
    """JSON Schema of the value."""
    needs: Needs
    cost: Cost
