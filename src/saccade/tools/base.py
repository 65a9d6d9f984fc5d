"""Define tools: a frozen definition with schemas on both sides, and a call that never raises for what a model wrote.

A subclass states its name, texts, needs and the two models, and writes `run`. `Tool.call` checks the needs, the
arguments and the result, names the pictures, and types every failure. A tool has no state that one call leaves for the
next; the images of an episode are in the context. `Tool.call` has no time limit and runs in this process; episodes call
tools through `saccade.tools.workers`, which puts a process with a time limit around it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

from PIL import Image

from saccade.core.registry import blame
from saccade.core.retry import TOOL_RETRY, RetryPolicy
from saccade.core.seam import fitting
from saccade.core.sync import in_background
from saccade.errors import MediaError, OwnCodeError, ToolError, ToolLostError, UnavailableError
from saccade.record.content import clean_text
from saccade.record.execution import ExecutionRepair, Status
from saccade.tools.context import (
    CallProblem,
    Operation,
    Problem,
    ProblemKind,
    ToolContext,
    ToolPicture,
    ToolResult,
    failed,
)
from saccade.tools.definition import Alias, Needs, ToolDefinition, ToolModel, check_arguments, mistakes
from saccade.tools.definition import Cost as Cost

# What a toolbox offers, wherever the work is done: in this process, in a worker process, or behind a server.
#
# `OfferedTool` is what an episode needs of a tool. `OutsideTool` is one whose work is done elsewhere: its calls are
# futures, so any number of them can wait without a thread each.


class OfferedTool(ABC):
    """A tool that can be described and called."""

    name: str
    aliases: tuple[Alias, ...] = ()
    needs: Needs = Needs()

    @property
    @abstractmethod
    def definition(self) -> ToolDefinition:
        """Name, texts, schemas and needs."""

    @abstractmethod
    def call(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> ToolResult:
        """Call it and wait. Total: every failure is a typed result.

        Args:
            arguments: What the model wrote, as decoded JSON.
            context: The images and videos of the episode.
            alias: The name under which the tool was called, if it was an alias.

        Raises `ToolError`: the tool has no such alias (a mistake of the caller, not of the model).
        """

    async def call_async(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> ToolResult:
        """Call the tool like `call`, without holding up the event loop."""
        return await asyncio.to_thread(self.call, arguments, context, alias=alias)


class OutsideTool(OfferedTool):
    """A tool whose work is done in another process."""

    @abstractmethod
    def submit(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> Future[ToolResult]:
        """Begin the call; takes and raises what `call` does. Cancelling the future gives up what has not begun."""

    def call(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> ToolResult:
        return self.submit(arguments, context, alias=alias).result()

    async def call_async(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> ToolResult:
        return await asyncio.wrap_future(self.submit(arguments, context, alias=alias))


def done(result: ToolResult) -> Future[ToolResult]:
    """Return a call that is over."""
    future: Future[ToolResult] = Future()
    future.set_result(result)
    return future


_log = logging.getLogger(__name__)

TASK: Final = "task"
"""Field of VISTA's calls other than the tool's name."""
IMAGE: Final = "image"
_PLACES: Final = ("<image>", "<image_url>", "<image_path>")
"""Placeholders of a prompt that models write where a picture's name belongs."""
_NOTED: Final = 200
"""Characters of a value in the note on a repair."""

A = TypeVar("A", bound=ToolModel)
R = TypeVar("R", bound=ToolModel)


@lru_cache(maxsize=512)
def _schema(model: type[ToolModel], mode: Literal["validation", "serialization"]) -> str:
    """Return the JSON Schema of `model` as text, made once and read anew by whoever may change what he gets.

    Every episode asks for the schemas of all its tools.
    """
    return json.dumps(model.model_json_schema(mode=mode))


@dataclass(frozen=True, slots=True)
class ToolOutcome(Generic[R]):
    """Result of `Tool.run`: the value, new pictures as (stem of the name, picture), a summary for the model."""

    value: R
    pictures: tuple[tuple[str, Image.Image], ...] = ()
    text: str = ""
    """Empty: the model reads the value as JSON."""


@dataclass(frozen=True, slots=True)
class CheckedCall(Generic[A]):
    """A call whose arguments follow the tool's schema."""

    arguments: A
    note: str = ""
    """Note for the model on arguments that were not read."""
    repairs: tuple[ExecutionRepair, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCallInput:
    """One call as it comes: what the model wrote, where it looks, and the alias that it used, if any."""

    arguments: object
    context: ToolContext
    alias: str | None = None


class Tool(OfferedTool, Generic[A, R]):
    """A typed visual tool."""

    description: str
    arguments: type[A]
    result: type[R]
    cost: Cost = Cost.LIGHT
    suits: tuple[tuple[str, int], ...] = ()
    """Families of questions, such as `counting`, each with the tool's place among those that suit it: the one to try
    first has 0. `saccade.dialects.calls` writes them into prompts."""
    operation: Operation = Operation.OTHER
    """How studies of stored runs count a call of it."""
    batch: int = 1
    """Most calls that `run_batch` is given at once."""
    renames: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Other names of its arguments that published models write, under every name of the tool. A call whose `arguments`
    are a plain text has it as an argument of that name."""
    from_task: ClassVar[str] = ""
    """Argument that takes the question of the episode's task where a call leaves it out; empty for none."""

    def load(self) -> None:
        """Load models and weights now rather than in the first call; nothing to do for a tool without any. Raises
        `UnavailableError` if what the tool needs is installed but cannot be loaded.
        """

    @abstractmethod
    def run(self, arguments: A, context: ToolContext) -> ToolOutcome[R]:
        """Do the work. Raises `CallProblem` if the arguments do not fit the images (a box outside, an unknown name),
        `UnavailableError` if what the tool needs is installed but cannot be loaded.
        """

    @classmethod
    def operations(cls, arguments: Mapping[str, object]) -> frozenset[Operation]:
        """Return everything that a call with these arguments, as a model wrote them, does."""
        return frozenset({cls.operation})

    def run_batch(self, calls: Sequence[tuple[A, ToolContext]]) -> Sequence[ToolOutcome[R] | Exception]:
        """Do the work of at most `batch` calls together, for a model that is faster so; by itself one after the other.

        An outcome for each, in order, or the exception that `run` would raise. An exception that this raises itself is
        held against every call of the batch.
        """
        return [_attempt(self, arguments, context) for arguments, context in calls]

    @property
    def definition(self) -> ToolDefinition:
        """Name, texts, schemas and needs."""
        return ToolDefinition(
            name=self.name,
            aliases=self.aliases,
            description=self.description,
            parameters=json.loads(_schema(self.arguments, "validation")),
            returns=json.loads(_schema(self.result, "serialization")),
            needs=self.needs,
            cost=self.cost,
        )

    def call(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> ToolResult:
        """Check, run, check again. Total: every failure is a typed result.

        Args:
            arguments: What the model wrote, as decoded JSON.
            context: The images and videos of the episode.
            alias: The name under which the tool was called, if it was an alias.

        Raises `ToolError`: the tool has no such alias (a mistake of the caller, not of the model).
        """
        checked = self.checked(arguments, context, alias=alias)
        if isinstance(checked, ToolResult):
            return checked
        return self._finished(_attempt(self, checked.arguments, context.own()), context, checked)

    def call_batch(self, calls: Sequence[ToolCallInput]) -> list[ToolResult]:
        """Call like `call`, for several at once: `run_batch` does the work of those whose arguments are right."""
        checked = [self.checked(call.arguments, call.context, alias=call.alias) for call in calls]
        good = [
            (item.arguments, call.context.own())
            for item, call in zip(checked, calls, strict=True)
            if not isinstance(item, ToolResult)
        ]
        outcomes = iter(_attempt_all(self, good))
        return [
            item if isinstance(item, ToolResult) else self._finished(next(outcomes), call.context, item)
            for item, call in zip(checked, calls, strict=True)
        ]

    def checked(
        self, arguments: object, context: ToolContext, *, alias: str | None = None
    ) -> CheckedCall[A] | ToolResult:
        """Return the arguments as the tool reads them; where they are wrong, or it cannot be called here, the result.

        What the call leaves out and the episode knows is filled in, and named in `repairs`.

        Raises `ToolError`: the tool has no such alias.
        """
        chosen = self._alias(alias)
        missing = self.needs.missing()
        if missing:
            return self._unavailable(f"it lacks {', '.join(missing)}")
        arguments, unread = self._without_task(arguments)
        try:
            known, renamed = self._renamed(self._unaliased(arguments, chosen))
            filled, from_episode = self._filled(known, context)
            repairs = (*renamed, *from_episode)
            return CheckedCall(check_arguments(self.arguments, filled), unread, repairs)
        except CallProblem as error:
            return failed(self.name, Status.ERROR, error.problem)

    def mistakes(self, arguments: object, *, alias: str | None = None) -> tuple[Problem, ...]:
        """Return the mistakes in the names and the form of `arguments`, each by itself; runs nothing.

        What an episode's question would fill in is not missing. Raises `ToolError` if the tool has no such alias.
        """
        arguments, _ = self._without_task(arguments)
        try:
            known, _ = self._renamed(self._unaliased(arguments, self._alias(alias)))
            return mistakes(self.arguments, self._filled(known, _SOME_EPISODE)[0])
        except CallProblem as error:
            return (error.problem,)

    def _without_task(self, arguments: object) -> tuple[object, str]:
        """Return the arguments without VISTA's `task`, which says what a call is for, and a note that it was not read.

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

    def _renamed(self, arguments: object) -> tuple[object, list[ExecutionRepair]]:
        """Return the arguments by the tool's own names, and the task's name as the tool has it."""
        if not isinstance(arguments, Mapping):
            return arguments, []
        known: dict[object, object] = {}
        repairs = []
        for key, value in arguments.items():
            own = self.renames.get(key, key) if isinstance(key, str) and key not in self.arguments.model_fields else key
            if own in known or (own != key and own in arguments):
                raise CallProblem(ProblemKind.ARGUMENT_NAME, f"{own!r} is given twice. Write one of the two names.")
            if own != key:
                repairs.append(ExecutionRepair(name="argument_name", note=f"{key} read as {own}"))
            known[own] = value
        said = known.get(TASK)
        if isinstance(said, str) and (meant := self._task_meant(said)) != said:
            known[TASK] = meant
            note = f"task {clean_text(said[:_NOTED])!r} read as {meant!r}"
            repairs.append(ExecutionRepair(name="task_name", note=note))
        return known, repairs

    def _task_meant(self, said: str) -> str:
        """Return the task of the tool that a text means: `Solve the problem` is `solve`; else the text itself."""
        parameters: Any = json.loads(_schema(self.arguments, "validation"))
        known: list[str] = parameters["properties"].get(TASK, {}).get("enum", [])
        if said in known:
            return said
        words = re.sub(r"[^a-z0-9]+", "_", said.lower()).strip("_")
        fitting = [one for one in known if words == one or words.startswith(f"{one}_")]
        return max(fitting, key=len, default=said)

    def _filled(self, arguments: object, context: ToolContext) -> tuple[object, list[ExecutionRepair]]:
        """Return the arguments with the question and the picture of the episode where the call has none."""
        if not isinstance(arguments, Mapping):
            return arguments, []
        filled, repairs = dict(arguments), []
        asks = self.from_task
        given = filled.get(asks)
        if asks and context.question and (given is None or (isinstance(given, str) and not given.strip())):
            filled[asks] = context.question
            note = f"{asks} was left out: the question of the task"
            repairs.append(ExecutionRepair(name="question_filled", note=note))
        if IMAGE in self.arguments.model_fields and context.images:
            said, first = filled.get(IMAGE), context.images[0]
            if isinstance(said, str) and said.strip() in _PLACES and said not in context.images:
                filled[IMAGE] = first
                repairs.append(ExecutionRepair(name="picture_filled", note=f"image {said.strip()}: {first}"))
            elif said is None and len(context.images) > 1:
                note = f"image was left out: {first}, the first of {len(context.images)}"
                repairs.append(ExecutionRepair(name="picture_filled", note=note))
        return filled, repairs

    def _finished(
        self, outcome: ToolOutcome[R] | Exception, context: ToolContext, checked: CheckedCall[A]
    ) -> ToolResult:
        """Return the result of a call, with what was repaired in its arguments."""
        result = self._result(outcome, context, checked.note)
        return replace(result, repairs=checked.repairs) if checked.repairs else result

    def _result(self, outcome: ToolOutcome[R] | Exception, context: ToolContext, note: str) -> ToolResult:
        if isinstance(outcome, Exception):
            return self._failed(outcome)
        try:
            fitting(outcome, getattr(self, "answer", self.run), (ToolOutcome,))  # `answer` is what a waiting tool has
        except OwnCodeError as error:
            return self._unusable(str(error), own_code=True)
        try:
            # Through JSON: what a caller stores must follow the schema that was promised, whoever wrote the tool.
            value = self.result.model_validate_json(outcome.value.model_dump_json()).model_dump(mode="json")
        except ValueError as error:
            return self._unusable(f"the result breaks its own schema: {error}")
        names = context.fresh_names(stem for stem, _ in outcome.pictures)
        pictures = tuple(ToolPicture(name, image) for name, (_, image) in zip(names, outcome.pictures, strict=True))
        lines = [outcome.text or json.dumps(value, ensure_ascii=False)]
        lines += [f"New image {p.name}: {p.image.width} × {p.image.height} pixels." for p in pictures]
        text = "\n".join([*lines, note] if note else lines)
        if empty := [picture.name for picture in pictures if 0 in picture.image.size]:
            return self._unusable(f"the picture {empty[0]} has no pixels")
        return ToolResult(self.name, Status.OK, value, pictures, text)

    def _failed(self, error: Exception) -> ToolResult:
        if isinstance(error, CallProblem):
            return failed(self.name, Status.ERROR, error.problem)
        if isinstance(error, UnavailableError):
            return self._unavailable(str(error))
        if isinstance(error, ToolLostError):
            return failed(self.name, Status.LOST, Problem(ProblemKind.TOOL_FAILURE, "", str(error)))
        if isinstance(error, MediaError):
            detail = f"an image of the task cannot be decoded: {error}"
            return failed(self.name, Status.LOST, Problem(ProblemKind.TOOL_FAILURE, "", detail))
        if isinstance(error, MemoryError):
            message = f"{self.name} ran out of memory. Use a smaller region or a smaller scale."
            problem = Problem(ProblemKind.TOOL_FAILURE, message, f"MemoryError: {error}")
            return failed(self.name, Status.OUT_OF_MEMORY, problem)
        message = f"{self.name} failed inside. The same call will fail again: use other arguments or another tool."
        detail = _words(error)
        _log.warning("the tool %s failed: %s", self.name, detail)  # the model is not told why
        return failed(self.name, Status.ERROR, Problem(ProblemKind.TOOL_FAILURE, message, detail))

    def not_loaded(self, error: Exception) -> ToolResult:
        """Return the result of a call when `load` raised `error`."""
        detail = f"its load() failed: {_words(error)}"
        _log.warning("the tool %s is not available: %s", self.name, detail)
        return self._unavailable(detail)

    def _unusable(self, why: str, *, own_code: bool = False) -> ToolResult:
        _log.warning("the tool %s gave a result that cannot be used: %s", self.name, why)
        message = f"{self.name} gave a result that cannot be used. Use another tool."
        return failed(self.name, Status.ERROR, Problem(ProblemKind.TOOL_FAILURE, message, why, own_code=own_code))

    def _unavailable(self, why: str) -> ToolResult:
        message = f"{self.name} is not available here. Use another tool, or answer without it."
        todo = f" To have it: {self.needs.remedy}." if self.needs.remedy else ""
        return failed(self.name, Status.REFUSED, Problem(ProblemKind.UNAVAILABLE, message, f"{why}.{todo}"))


_SOME_EPISODE: Final = ToolContext({}, question="?")


class WaitingTool(Tool[A, R]):
    """A tool that waits for a server: its work is a coroutine, and many of its calls wait side by side here.

    All of its coroutines run on the background loop of this process (`saccade.core.sync`), where it may keep
    connections. It is given time and ended there by `saccade.tools.workers`.
    """

    cost = Cost.WAITING
    retry: RetryPolicy = TOOL_RETRY
    """How often an outage is waited for, within the time of the call."""

    @abstractmethod
    async def answer(self, arguments: A, context: ToolContext) -> ToolOutcome[R]:
        """Do the work without holding up the loop; raises as `run`, and `ToolLostError` for an outage."""

    async def ready(self) -> str:
        """Return what keeps calls from being answered now, as a sentence; empty if nothing does."""
        return ""

    def run(self, arguments: A, context: ToolContext) -> ToolOutcome[R]:
        future = in_background(self.answer(arguments, context))
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def call_waiting(self, call: ToolCallInput) -> ToolResult:
        """Call the tool like `call`, on the background loop."""
        checked = self.checked(call.arguments, call.context, alias=call.alias)
        if isinstance(checked, ToolResult):
            return checked
        outcome: ToolOutcome[R] | Exception
        try:
            outcome = await self.answer(checked.arguments, call.context.own())
        except Exception as error:
            outcome = error
        return self._finished(outcome, call.context, checked)


def _attempt(tool: Tool[A, R], arguments: A, context: ToolContext) -> ToolOutcome[R] | Exception:
    try:
        return tool.run(arguments, context)
    except Exception as error:
        return error


def _attempt_all(tool: Tool[A, R], calls: Sequence[tuple[A, ToolContext]]) -> Sequence[ToolOutcome[R] | Exception]:
    if not calls:
        return ()
    try:
        return tool.run_batch(calls)
    except Exception as error:
        return [error] * len(calls)


def _words(error: Exception) -> str:
    try:
        return blame(error) or f"{type(error).__name__}: {error}"
    except Exception:  # an exception of a tool of the user's own may fail to say what it is
        return type(error).__name__
