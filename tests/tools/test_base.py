"""The interface: what is checked before and after a tool runs, and how each failure is typed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from saccade.errors import DecodeError, ToolError, UnavailableError
from saccade.record.execution import Status
from saccade.tools.base import Alias, Needs, Tool, ToolCallInput, ToolOutcome
from saccade.tools.context import ProblemKind, ToolContext
from saccade.tools.definition import ToolModel
from saccade.tools.registry import make_tool
from saccade.tools.setup import VARIABLE, SetupEntry
from saccade.tools.toolbox import Toolbox


class EchoArguments(ToolModel):
    x_label: str
    count: int = 1


class EchoResult(ToolModel):
    label: str
    score: float = 0.0


class Echo(Tool[EchoArguments, EchoResult]):
    name = "echo"
    description = "Say it again."
    arguments = EchoArguments
    result = EchoResult
    aliases = (Alias("say", {"text": "x_label"}, {"count": 2}, ignored=("label",)),)

    def run(self, arguments: EchoArguments, context: ToolContext) -> ToolOutcome[EchoResult]:
        pictures = tuple(("echo", Image.new("RGB", (4, 3))) for _ in range(arguments.count))
        return ToolOutcome(EchoResult(label=arguments.x_label), pictures)


EMPTY = ToolContext({})


def kind(tool: Tool[Any, Any], arguments: object) -> ProblemKind:
    result = tool.call(arguments, EMPTY)
    assert result.status is Status.ERROR
    assert result.value is None
    assert result.problem is not None
    assert result.text == result.problem.message != ""
    return result.problem.kind


def raising(error: BaseException) -> Tool[Any, Any]:
    class Raising(Echo):
        def run(self, arguments: EchoArguments, context: ToolContext) -> ToolOutcome[EchoResult]:
            raise error

    return Raising()


def test_a_good_call() -> None:
    result = Echo().call({"x_label": "year", "count": 2}, EMPTY)
    assert result.ok
    assert result.problem is None
    assert result.value == {"label": "year", "score": 0.0}
    assert [picture.name for picture in result.pictures] == ["echo_1", "echo_2"]
    assert '"label": "year"' in result.text
    assert "echo_2: 4 × 3" in result.text


async def test_a_tool_of_this_process_is_awaited_like_any_other() -> None:
    assert (await Echo().call_async({"text": "year"}, EMPTY, alias="say")).value == {"label": "year", "score": 0.0}


def test_names_of_pictures_are_free_in_the_context() -> None:
    first = Echo().call({"x_label": "a"}, EMPTY)
    context = EMPTY.extended(first.images())
    second = Echo().call({"x_label": "a"}, context)
    assert context.extended(second.images()).images == ("echo_1", "echo_2")
    with pytest.raises(ToolError, match="already has echo_1"):
        context.extended(first.images())


def test_definition_has_both_schemas() -> None:
    definition = Echo().definition
    assert definition.parameters["required"] == ["x_label"]
    assert definition.parameters["additionalProperties"] is False
    assert set(definition.returns["properties"]) == {"label", "score"}  # type: ignore[arg-type]


def test_a_wrong_name_is_told_the_nearest() -> None:
    result = Echo().call({"x_lable": "year"}, EMPTY)
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.ARGUMENT_NAME
    assert "Did you mean 'x_label'" in result.text


@pytest.mark.parametrize("arguments", ["year", ["year"], 3, None, {}])
def test_what_has_not_the_shape_of_a_call(arguments: object) -> None:
    assert kind(Echo(), arguments) is ProblemKind.SCHEMA


@pytest.mark.parametrize("count", ["2", 2.5, True, None, float("nan"), {1}, pytest.param(10**5000, id="huge")])
def test_types_are_strict(count: object) -> None:
    assert kind(Echo(), {"x_label": "a", "count": count}) is ProblemKind.ARGUMENT_FORMAT


def test_kinds_map_to_the_published_taxonomy() -> None:
    assert [each.vista for each in ProblemKind] == ["E1", "E2", "E3", "E3", "E5", None]


def test_an_alias_renames_gives_and_ignores() -> None:
    result = Echo().call({"text": "year", "label": "for the reader"}, EMPTY, alias="say")
    assert result.ok
    assert len(result.pictures) == 2
    for wrong in ({"text": "a", "count": 3}, {"text": "a", "x_label": "b"}):
        refused = Echo().call(wrong, EMPTY, alias="say")
        assert refused.problem is not None
        assert refused.problem.kind is ProblemKind.ARGUMENT_NAME
    with pytest.raises(ToolError, match="no alias"):
        Echo().call({}, EMPTY, alias="shout")


def test_what_is_there_need_not_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    entry = SetupEntry("echo", "weights", "a/b")
    for module, steps in (("json", ""), ("no_such_module_at_all", "pip install x; ")):
        assert Needs((module,), install="pip install x", setup=entry).remedy == steps + entry.todo


def test_what_is_not_installed_is_refused_with_the_command() -> None:
    class Needy(Echo):
        needs = Needs(("no_such_module_at_all",), install="pip install x")

    result = Needy().call({"x_label": "a"}, EMPTY)
    assert result.status is Status.REFUSED
    assert result.value is None
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.UNAVAILABLE
    assert "no_such_module_at_all" in result.problem.detail
    assert "pip install x" in result.problem.detail
    assert "pip" not in result.text


@pytest.mark.parametrize(
    ("error", "status", "found"),
    [
        (UnavailableError("no weights"), Status.REFUSED, ProblemKind.UNAVAILABLE),
        (DecodeError("broken"), Status.LOST, ProblemKind.TOOL_FAILURE),
        (MemoryError("secret"), Status.OUT_OF_MEMORY, ProblemKind.TOOL_FAILURE),
        (ZeroDivisionError("secret"), Status.ERROR, ProblemKind.TOOL_FAILURE),
    ],
)
def test_failures_are_typed_and_details_stay_with_the_person(
    error: Exception, status: Status, found: ProblemKind, caplog: pytest.LogCaptureFixture
) -> None:
    result = raising(error).call({"x_label": "a"}, EMPTY)
    assert result.status is status
    assert result.problem is not None
    assert result.problem.kind is found
    assert str(error) in result.problem.detail
    assert str(error) not in result.text
    assert (result.text == "") is (status is Status.LOST)
    assert ("secret" in caplog.text) is isinstance(error, ZeroDivisionError)


def test_a_result_that_breaks_its_schema_is_a_failure_of_the_tool() -> None:
    class Broken(Echo):
        def run(self, arguments: EchoArguments, context: ToolContext) -> ToolOutcome[EchoResult]:
            return ToolOutcome(EchoResult.model_construct(label="a", score=float("nan")))

    result = Broken().call({"x_label": "a"}, EMPTY)
    assert result.status is Status.ERROR
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.TOOL_FAILURE
    assert "schema" in result.problem.detail


class _MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (None, "NoneType"),
        (ToolOutcome(EchoResult.model_construct(label="\ud800", score=0.5)), "schema"),
        (ToolOutcome(EchoResult(label="a", score=0.5), text=5), "wrong type"),  # type: ignore[arg-type]
        (ToolOutcome(EchoResult(label="a", score=0.5), Image.new("L", (4, 4))), "wrong type"),  # type: ignore[arg-type]
        (ToolOutcome(EchoResult(label="a", score=0.5), (Image.new("L", (4, 4)),)), "wrong type"),  # type: ignore[arg-type]
        (ToolOutcome(EchoResult(label="a", score=0.5), (("a", "a.png"),)), "wrong type"),  # type: ignore[arg-type]
        (ToolOutcome(EchoResult(label="a", score=0.5), (("a", b"png"),)), "wrong type"),  # type: ignore[arg-type]
        (
            ToolOutcome(EchoResult(label="a", score=0.5), (("a", Image.new("L", (0, 4))),)),
            "picture a_1 has no pixels",
        ),
    ],
)
def test_an_outcome_of_wrong_types_is_a_failure_of_the_tool(
    outcome: Any, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Careless(Echo):
        def run(self, arguments: EchoArguments, context: ToolContext) -> ToolOutcome[EchoResult]:
            result: ToolOutcome[EchoResult] = outcome
            return result

    result = Careless().call({"x_label": "a"}, EMPTY)
    assert (result.status, result.pictures, result.value) == (Status.ERROR, (), None)
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.TOOL_FAILURE
    assert says in result.problem.detail
    assert result.problem.detail in caplog.text


def test_an_exception_that_cannot_say_what_it_is_is_typed_too() -> None:
    result = raising(_MuteError()).call({"x_label": "a"}, EMPTY)
    assert result.problem is not None
    assert (result.status, result.problem.detail) == (Status.ERROR, "_MuteError")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(JSON | st.fixed_dictionaries({}, optional={"x_label": JSON, "count": st.integers(-1, 3) | JSON}))
def test_no_argument_makes_it_raise(arguments: object) -> None:
    result = Echo().call(arguments, EMPTY)
    assert result.ok is (result.problem is None)
    assert result.text.encode()


def test_lone_surrogates_do_no_harm() -> None:
    assert kind(Echo(), {"x_label": "\ud800"}) is ProblemKind.ARGUMENT_FORMAT
    assert kind(Echo(), {"\ud800": 1, "x_label": "a"}) in (ProblemKind.ARGUMENT_NAME, ProblemKind.ARGUMENT_FORMAT)


def test_the_task_of_a_vista_call_is_no_mistake(context: ToolContext) -> None:
    """`{"tool": "crop", "task": "zoom in", "box": ...}`: the task is not read, and the model hears so."""
    arguments = {"task": "zoom in", "box": [0, 0, 20, 20]}
    crop = make_tool("crop")
    result = crop.call(arguments, context)
    assert result.status is Status.OK
    assert result.text.endswith("`task` does not change what crop does; its arguments do.")
    assert crop.mistakes(arguments) == ()
    assert "task" not in crop.call({"box": [0, 0, 20, 20]}, context).text
    for wrong in ({"task": 3, "box": [0, 0, 20, 20]}, {"task": "zoom in"}):
        assert crop.call(wrong, context).status is Status.ERROR


def test_every_tool_takes_a_task() -> None:
    for definition in Toolbox.of().definitions:
        if "task" in make_tool(definition.name).arguments.model_fields:
            continue  # it has tasks of its own, and reads it
        problems = make_tool(definition.name).mistakes({"task": "look"})
        assert all("'task'" not in problem.message for problem in problems), definition.name


class Painter(Echo):
    def run(self, arguments: EchoArguments, context: ToolContext) -> ToolOutcome[EchoResult]:
        picture = context.image(None).image
        picture.paste("red", (0, 0, *picture.size))
        return ToolOutcome(EchoResult(label=""), (("painted", picture),))


@pytest.mark.parametrize("together", [False, True])
def test_a_tool_that_paints_on_its_picture_changes_that_of_no_other_call(*, together: bool) -> None:
    picture = Image.new("RGB", (4, 3), "white")
    context = ToolContext({"image_0": picture})
    tool, given = Painter(), {"x_label": "a"}
    results = tool.call_batch([ToolCallInput(given, context)] * 2) if together else [tool.call(given, context)]
    assert picture.getpixel((1, 1)) == context.image(None).image.getpixel((1, 1)) == (255, 255, 255)
    for result in results:
        assert result.pictures[0].image.getpixel((1, 1)) == (255, 0, 0)
