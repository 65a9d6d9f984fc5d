"""`tools.toml`: which tools a server runs, in which groups, with which options.

[server]
max_waiting = 256

[groups.read]                        # a pool of processes, or a deployment of Ray Serve
tools = ["ocr"]
workers = 2

[groups.read.ray]                    # options of the deployment, as Ray Serve names them
num_replicas = 2
ray_actor_options = { num_gpus = 1 }

[options.my_tool]                    # arguments of a tool's constructor
weights = "/models/x"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field, JsonValue, NonNegativeFloat, PositiveFloat, PositiveInt

from saccade.errors import SettingsError
from saccade.record.settings import Settings
from saccade.tools.base import Tool
from saccade.tools.definition import Cost
from saccade.tools.registry import ToolSource
from saccade.tools.toolbox import Toolbox


class GroupSettings(Settings):
    """Tools that share processes and their weights."""

    tools: tuple[str, ...] = Field(min_length=1)
    workers: PositiveInt = 1
    """Processes, without Ray; with Ray, `ray.num_replicas` or `ray.autoscaling_config` says how many."""
    threads: PositiveInt = 1
    """Of numerical libraries in each."""
    seconds: PositiveFloat = 60.0
    """Longest time of a call; a caller may ask for less."""
    batch_wait_seconds: NonNegativeFloat = 0.02
    """With Ray: how long a batch waits for further calls. Without, a batch is what waits already."""
    ray: dict[str, JsonValue] = Field(default_factory=dict)
    """Options of the group's deployment, handed to Ray Serve as they are."""


class ServerLimits(Settings):
    """What a server lends out."""

    max_waiting: PositiveInt = 256
    """Calls of one group that may be under way or wait; one more is refused with 429."""
    max_body_bytes: PositiveInt = 64 * 2**20
    """Largest message, an uploaded picture or video included."""
    media_bytes: PositiveInt = 2 * 2**30
    """Room for uploaded pictures and videos; the least recently used are deleted, and uploaded again if needed."""


@dataclass(frozen=True, slots=True)
class GroupedTool:
    """A tool of a group."""

    group: str
    source: ToolSource
    tool: Tool[Any, Any]
    """An object of it, without weights."""
    seconds: float
    """Longest time of a call."""


class ToolServeSettings(Settings):
    """All of `tools.toml`."""

    server: ServerLimits = ServerLimits()
    groups: dict[str, GroupSettings] = Field(default_factory=dict)
    """By name; none: every tool that is installed, in a group for each class of cost."""
    options: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    """By the tool's name as a group has it."""

    def source(self, name: str) -> ToolSource:
        """How a tool of a group is made."""
        return ToolSource(name, self.options.get(name, {})).elsewhere()

    def grouped(self) -> dict[str, GroupSettings]:
        """The groups that hold.

        Raises:
            SettingsError: two groups have the same tool, or options are for no tool.
        """
        groups = self.groups or _by_cost()
        named = [name for group in groups.values() for name in group.tools]
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise SettingsError(f"in more than one group: {', '.join(twice)}. Leave each in one of them.")
        if lost := sorted(set(self.options) - set(named)):
            raise SettingsError(f"options for what no group has: {', '.join(lost)}. Name it in a group, as it stands.")
        return groups

    def made(self) -> dict[str, GroupedTool]:
        """Every tool by its own name.

        Raises:
            SettingsError: as `grouped`; or a tool needs what is not installed, or two have one name.
            RegistryError: there is no such tool.
        """
        made: dict[str, GroupedTool] = {}
        for group, settings in self.grouped().items():
            for name in settings.tools:
                source = self.source(name)
                tool = source.make()
                if missing := tool.needs.missing():
                    raise SettingsError(
                        f"{name} needs {', '.join(missing)}. To have it: {tool.needs.remedy}. Or leave it out."
                    )
                if tool.name in made:
                    raise SettingsError(f"{name} is called {tool.name}, as another tool. Leave one of them out.")
                made[tool.name] = GroupedTool(group, source, tool, settings.seconds)
        return made


def _by_cost() -> dict[str, GroupSettings]:
    box = Toolbox.of()
    missing = box.missing()
    by_cost: dict[Cost, list[str]] = {}
    for tool in box.definitions:
        if tool.name not in missing:
            by_cost.setdefault(tool.cost, []).append(tool.name)
    return {cost.value: GroupSettings(tools=tuple(names)) for cost, names in by_cost.items()}
