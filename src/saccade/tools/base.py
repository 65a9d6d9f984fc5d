"""What a tool is: a frozen definition with schemas on both sides, and a call that never raises for what a model wrote.

A subclass states its name, texts, needs and the two models, and writes `run`. `Tool.call` checks the needs, the
arguments and the result, names the pictures, and types every failure. A tool has no state that one call leaves for the
next; the images of an episode are in the context. A call has no time limit of its own and runs in this process: who
serves tools to strangers puts a process around it.
"""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from typing import Final, Generic, TypeVar

from PIL import Image
from pydantic import JsonValue, ValidationError

from saccade.errors import MediaError, ToolError, UnavailableError
from saccade.record.own_code import blame
from saccade.record.status import Status
from saccade.tools.arguments import ToolModel, check_arguments, mistakes
from saccade.tools.context import ToolContext
from saccade.tools.problem import CallProblem, Problem, ProblemKind
from saccade.tools.result import ToolPicture, ToolResult, failed

_log = logging.getLogger(__name__)

TASK: Final = "task"
"""What VISTA's calls say beside the tool's name."""

A = TypeVar("A", bound=ToolModel)
R = TypeVar("R", bound=ToolModel)


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

    def missing(self) -> tuple[str, ...]:
        """The modules that cannot be found."""
        return tuple(name for name in self.modules if find_spec(name) is None)


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


@dataclass(frozen=True, slots=True)
class ToolOutcome(Generic[R]):
    """What `Tool.run` gives: the value, new pictures as (stem of the name, picture), a summary for the model."""

    value: R
    pictures: tuple[tuple[str, Image.Image], ...] = ()
    text: str = ""
    """Empty: the model reads the value as JSON."""


class Tool(ABC, Generic[A, R]):
    """A typed visual tool."""

    name: str
    description: str
    arguments: type[A]
    result: type[R]
    aliases: tuple[Alias, ...] = ()
    needs: Needs = Needs()
    cost: Cost = Cost.LIGHT

    @abstractmethod
    def run(self, arguments: A, context: ToolContext) -> ToolOutcome[R]:
        """Do the work.

        Raises:
            CallProblem: the arguments do not fit the images (a box outside, an unknown name).
            UnavailableError: what the tool needs is installed but cannot be loaded.
        """

    @property
    def definition(self) -> ToolDefinition:
        """Name, texts, schemas and needs."""
        return ToolDefinition(
            name=self.name,
            aliases=self.aliases,
            description=self.description,
            parameters=self.arguments.model_json_schema(),
            returns=self.result.model_json_schema(mode="serialization"),
            needs=self.needs,
            cost=self.cost,
        )

    def call(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> ToolResult:
        """Check, run, check again. Total: every failure is a typed result.

        Args:
            arguments: What the model wrote, as decoded JSON.
            context: The images and videos of the episode.
            alias: The name under which the tool was called, if it was an alias.

        Raises:
            ToolError: the tool has no such alias (a mistake of the caller, not of the model).
        """
        chosen = self._alias(alias)
        missing = self.needs.missing()
        if missing:
            return self._unavailable(f"not installed: {', '.join(missing)}")
        arguments, unread = self._without_task(arguments)
        try:
            checked = check_arguments(self.arguments, self._unaliased(arguments, chosen))
            return self._finished(self.run(checked, context), context, unread)
        except CallProblem as error:
            return failed(self.name, Status.ERROR, error.problem)
        except UnavailableError as error:
            return self._unavailable(str(error))
        except MediaError as error:
            problem = Problem(ProblemKind.TOOL_FAILURE, "", f"an image of the task cannot be decoded: {error}")
            return failed(self.name, Status.LOST, problem)
        except MemoryError as error:
            message = f"{self.name} ran out of memory. Use a smaller region or a smaller scale."
            return failed(
                self.name, Status.OUT_OF_MEMORY, Problem(ProblemKind.TOOL_FAILURE, message, f"MemoryError: {error}")
            )
        except Exception as error:
            message = f"{self.name} failed inside. The same call will fail again: use other arguments or another tool."
            detail = f"{type(error).__name__}: {error}"
            _log.warning("the tool %s failed: %s", self.name, blame(error) or detail)  # the model is not told why
            return failed(self.name, Status.ERROR, Problem(ProblemKind.TOOL_FAILURE, message, detail))

    def mistakes(self, arguments: object, *, alias: str | None = None) -> tuple[Problem, ...]:
        """What is wrong with the names and the form of `arguments` alone, each mistake by itself; nothing is run.

        Raises:
            ToolError: the tool has no such alias.
        """
        arguments, _ = self._without_task(arguments)
        try:
            return mistakes(self.arguments, self._unaliased(arguments, self._alias(alias)))
        except CallProblem as error:
            return (error.problem,)

    def _without_task(self, arguments: object) -> tuple[object, str]:
        """The arguments without VISTA's `task`, a text that says what a call is for, and a word that it was not read.

        A tool with an argument of that name reads it.
        """
        if not isinstance(arguments, Mapping) or not isinstance(arguments.get(TASK), str):
            return arguments, ""
        if TASK in self.arguments.model_fields:
            return arguments, ""
        rest = {name: value for name, value in arguments.items() if name != TASK}
        return rest, f"`{TASK}` does not change what {self.name} does; its arguments do."

    def _alias(self, name: str | None) -> Alias | None:
        if name is None or name == self.name:
            return None
        for alias in self.aliases:
            if alias.name == name:
                return alias
        raise ToolError(f"{self.name} has no alias {name!r}; look names up in a Toolbox before the call")

    def _unaliased(self, arguments: object, alias: Alias | None) -> object:
        if alias is None or not isinstance(arguments, Mapping):
            return arguments
        mapped: dict[object, object] = {}
        for key, value in arguments.items():
            target = alias.rename.get(key, key) if isinstance(key, str) else key
            if target in alias.given:
                raise CallProblem(
                    ProblemKind.ARGUMENT_NAME,
                    f"{alias.name} takes no argument {key!r}: it is always {alias.given[str(target)]!r}. Leave it out.",
                )
            if target in mapped:
                raise CallProblem(ProblemKind.ARGUMENT_NAME, f"{target!r} is given twice. Write one of the two names.")
            if key not in alias.ignored:
                mapped[target] = value
        mapped.update(alias.given)
        return mapped

    def _finished(self, outcome: ToolOutcome[R], context: ToolContext, note: str) -> ToolResult:
        try:
            # Through JSON: what a caller stores must follow the schema that was promised, whoever wrote the tool.
            value = self.result.model_validate_json(outcome.value.model_dump_json()).model_dump(mode="json")
        except (ValidationError, AttributeError) as error:
            message = f"{self.name} gave a result that cannot be used. Use another tool."
            problem = Problem(ProblemKind.TOOL_FAILURE, message, f"the result breaks its own schema: {error}")
            return failed(self.name, Status.ERROR, problem)
        names = context.fresh_names(stem for stem, _ in outcome.pictures)
        pictures = tuple(ToolPicture(name, image) for name, (_, image) in zip(names, outcome.pictures, strict=True))
        lines = [outcome.text or json.dumps(value, ensure_ascii=False)]
        lines += [f"New image {p.name}: {p.image.width} × {p.image.height} pixels." for p in pictures]
        lines += [note] if note else []
        return ToolResult(self.name, Status.OK, value, pictures, "\n".join(lines))

    def _unavailable(self, why: str) -> ToolResult:
        message = f"{self.name} is not available here. Use another tool, or answer without it."
        todo = f" Install it with: {self.needs.install}" if self.needs.install else ""
        return failed(self.name, Status.REFUSED, Problem(ProblemKind.UNAVAILABLE, message, f"{why}.{todo}"))
