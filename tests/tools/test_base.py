"""The interface: what is checked before and after a tool runs, and how each failure is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydantic import Field

from saccade.errors import DecodeError, ToolError, UnavailableError
from saccade.record.execution import Status
from saccade.tools.base import Alias, Needs, Tool, ToolCallInput, ToolOutcome
from saccade.tools.context import CallProblem, Numbering, ProblemKind, ToolContext
from saccade.tools.definition import ToolModel, Units, Xyxy, check_arguments, mistakes, pixel_box, pixel_point, region
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
    assert result.problem.kind is ProblemKind.TOOL_FAILURE
    assert "schema" in result.problem.detail


class _MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (None, "gave None, and must give ToolOutcome"),
        (ToolOutcome(EchoResult.model_construct(label="\ud800", score=0.5)), "schema"),
        (ToolOutcome(EchoResult(label="a", score=0.5), text=5), "text is 5"),  # type: ignore[arg-type]
        (ToolOutcome(EchoResult(label="a", score=0.5), (Image.new("L", (4, 4)),)), "pictures is"),  # type: ignore[arg-type]
        (ToolOutcome(EchoResult(label="a", score=0.5), (("a", b"png"),)), "pictures is"),  # type: ignore[arg-type]
        (ToolOutcome(EchoResult(label="a", score=0.5), (("a", Image.new("L", (0, 4))),)), "picture a_1 has no pixels"),
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
    assert result.problem.kind is ProblemKind.TOOL_FAILURE
    assert says in result.problem.detail
    assert result.problem.detail in caplog.text


def test_an_exception_that_cannot_say_what_it_is_is_typed_too() -> None:
    result = raising(_MuteError()).call({"x_label": "a"}, EMPTY)
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


class Inner(ToolModel):
    """A table in the arguments."""

    depth: int = 0


class Arguments(ToolModel):
    """Arguments of every kind."""

    box: tuple[int, int]
    label: str = ""
    inner: Inner = Inner()
    many: tuple[int, ...] = Field(default=(), max_length=2)


END = ". Arguments are box, label (optional), inner (optional), many (optional)."


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        (None, "schema", "Arguments are a JSON object, not null"),
        ("box", "schema", "Arguments are a JSON object, not a text"),
        ([1], "schema", "Arguments are a JSON object, not a list"),
        (True, "schema", "Arguments are a JSON object, not a truth value"),
        (3, "schema", "Arguments are a JSON object, not a number"),
        (3.5, "schema", "Arguments are a JSON object, not a number"),
        ((1,), "schema", "Arguments are a JSON object, not tuple"),
        ({}, "schema", "The argument 'box' is missing"),
        ({"box": [1]}, "argument_format", "The argument 'box' is wrong: the list is too short"),
        ({"box": [1, 2], "labl": 1}, "argument_name", "There is no argument 'labl'. Did you mean 'label'"),
        ({"box": [1, 2], "inner": {"dept": 1}}, "argument_name", "There is no argument 'inner.dept'"),
        (
            {"boxs": [1, 2]},
            "argument_name",  # the misspelt name is the cause, so it comes first
            "There is no argument 'boxs'. Did you mean 'box'; The argument 'box' is missing",
        ),
        (
            {"box": [1, "2"]},
            "argument_format",
            "The argument 'box.1' is wrong: Input should be a valid integer (got \"2\")",
        ),
        ({"box": {1}}, "argument_format", "Arguments hold something that JSON cannot (use finite numbers, texts and"),
        ({"box": float("nan")}, "argument_format", "Arguments hold something that JSON cannot"),
    ],
)
def test_what_is_said_of_a_mistake(arguments: Any, kind: str, said: str) -> None:
    with pytest.raises(CallProblem) as caught:
        check_arguments(Arguments, arguments)
    assert caught.value.problem.kind == kind
    assert str(caught.value) == caught.value.problem.message
    assert caught.value.problem.message.startswith(said)
    assert caught.value.problem.message.endswith(END)
    assert (
        "; ".join(problem.message for problem in mistakes(Arguments, arguments)) + END == caught.value.problem.message
    )


def test_four_mistakes_are_shown_and_the_others_counted() -> None:
    for count, more in ((4, ""), (5, "; and 1 more"), (9, "; and 5 more")):
        wrong = {"box": [1, 2], **{f"zz{number}": 0 for number in range(count)}}
        with pytest.raises(CallProblem) as caught:
            check_arguments(Arguments, wrong)
        message = caught.value.problem.message
        assert message.count("There is no argument") == 4
        assert message.endswith(more + END)
        assert ("more" in message) is bool(more)
        assert len(mistakes(Arguments, wrong)) == count
    assert mistakes(Arguments, {"box": [1, 2]}) == ()


def test_long_values_are_cut_and_a_mistake_is_said_once() -> None:
    for length, shown in ((78, '"' + "x" * 78 + '"'), (79, '"' + "x" * 79 + "...")):
        with pytest.raises(CallProblem) as caught:
            check_arguments(Arguments, {"box": ["x" * length, 1]})
        assert f"(got {shown})" in caught.value.problem.message
    name = "y" * 90
    with pytest.raises(CallProblem, match="There is no argument '" + "y" * 80 + "...'"):
        check_arguments(Arguments, {"box": [1, 2], name: 1})
    found = check_arguments(Arguments, {"box": [1, 2], "many": [3]})
    assert (found.box, found.many, found.label) == ((1, 2), (3,), "")


def test_the_kind_of_the_first_mistake_is_that_of_the_call() -> None:
    kinds = [problem.kind for problem in mistakes(Arguments, {"many": [1, 2, 3], "zz": 1})]
    assert kinds == [ProblemKind.ARGUMENT_NAME, ProblemKind.SCHEMA, ProblemKind.ARGUMENT_FORMAT]


SIZE = (100, 50)


@pytest.mark.parametrize(
    ("box", "units", "expected"),
    [
        ((1, 2, 3, 4), "pixels", (1, 2, 3, 4)),
        ((1.9, 2.9, 3.1, 4.1), "pixels", (1, 2, 4, 5)),
        ((-9, -9, 1e308, 1e308), "pixels", (0, 0, 100, 50)),
        ((99.5, 49.5, 200, 200), "pixels", (99, 49, 100, 50)),
        ((0, 0, 1, 1), "pixels", (0, 0, 1, 1)),
        ((0, 0, 1, 1), "normalized", (0, 0, 100, 50)),
        ((0.25, 0.5, 0.5, 1), "normalized", (25, 25, 50, 50)),
        ((0.101, 0.1, 0.109, 0.2), "normalized", (10, 5, 11, 10)),
    ],
)
def test_boxes(box: Xyxy, units: Units, expected: tuple[int, int, int, int]) -> None:
    assert pixel_box(box, units, SIZE) == expected
    assert region(box, units, SIZE) == expected
    assert region(None, units, SIZE) == (0, 0, 100, 50)


@pytest.mark.parametrize(
    ("box", "units", "said"),
    [
        ((3, 2, 3, 4), "pixels", r"The box \[3, 2, 3, 4\] is empty"),
        ((1, 4, 3, 4), "pixels", r"The box \[1, 4, 3, 4\] is empty"),
        ((3, 2, 1, 4), "pixels", "is empty"),
        ((100, 2, 120, 4), "pixels", "0 × 2 pixels are inside the image, which is 100 × 50; at least 1 × 1"),
        ((1, -9, 3, 0), "pixels", "2 × 0 pixels are inside"),
        ((0, 0, 1.001, 1), "normalized", r"\[0, 0, 1.001, 1\] is not normalized"),
        ((-0.001, 0, 1, 1), "normalized", "is not normalized"),
    ],
)
def test_boxes_that_are_refused(box: Xyxy, units: Units, said: str) -> None:
    with pytest.raises(CallProblem, match=said):
        pixel_box(box, units, SIZE)


def test_the_smallest_side_and_the_hint_of_fractions() -> None:
    assert pixel_box((0, 0, 4, 4), "pixels", SIZE, 4) == (0, 0, 4, 4)
    for box in ((0, 0, 3, 4), (0, 0, 4, 3)):
        with pytest.raises(CallProblem, match="at least 4 × 4 are needed") as caught:
            pixel_box(box, "pixels", SIZE, 4)
        assert "normalized" not in str(caught.value)
    for box, units, hint in (((0.1, 0, 1, 1), "pixels", True), ((0, 0, 0.01, 0.01), "normalized", False)):
        with pytest.raises(CallProblem) as caught:
            pixel_box(box, units, SIZE, 4)  # type: ignore[arg-type]
        assert ('If these are fractions, say units="normalized".' in str(caught.value)) is hint


def test_points() -> None:
    assert pixel_point((100, 50), "pixels", SIZE) == (100, 50)
    assert pixel_point((0, 0), "pixels", SIZE) == (0, 0)
    assert pixel_point((0.25, 0.5), "normalized", SIZE) == (25, 25)
    for point in ((100.5, 5), (5, 50.5), (-0.5, 5), (5, -0.5)):
        with pytest.raises(CallProblem, match="is outside the image, which is 100 × 50"):
            pixel_point(point, "pixels", SIZE)


def test_an_image_is_decoded_when_asked_for_and_once() -> None:
    made = []

    def load() -> Image.Image:
        made.append(1)
        return Image.new("L", (5, 4), 9)

    context = ToolContext({"a": load})
    assert made == []
    bigger = context.extended({"b": Image.new("RGB", (1, 1))})
    assert bigger.image("a").image.getpixel((0, 0)) == (9, 9, 9)
    assert context.image("a").size == (5, 4)
    assert made == [1]
    assert context.images == ("a",)


def test_images_by_name_number_and_default() -> None:
    context = ToolContext({name: Image.new("RGB", (1, 1)) for name in ("first", "second")})
    assert context.image(None).name == "first"
    assert context.image(2).name == "second"
    assert context.image("second").name == "second"


@pytest.mark.parametrize("wanted", ["frist", "x" * 1000, 0, 3, -1, pytest.param(10**5000, id="huge")])
def test_an_unknown_image_is_a_problem_with_a_hint(wanted: str | int) -> None:
    context = ToolContext({name: Image.new("RGB", (1, 1)) for name in ("first", "second")})
    with pytest.raises(CallProblem) as caught:
        context.image(wanted)
    assert caught.value.problem.kind is ProblemKind.UNKNOWN_IMAGE
    assert "first" in str(caught.value) or "from 1 to 2" in str(caught.value)
    assert len(str(caught.value)) < 200


def test_no_images_and_videos() -> None:
    with pytest.raises(CallProblem, match="has no image"):
        ToolContext({}).image(None)
    context = ToolContext({}, {"clip": Path("clip.mp4")})
    assert context.video(None) == ("clip", Path("clip.mp4"))
    assert context.videos == ("clip",)


def test_fresh_names_avoid_videos_and_each_other() -> None:
    context = ToolContext({"crop_1": Image.new("RGB", (1, 1))}, {"crop_3": Path("v")})
    assert context.fresh_names(["crop", "crop", "frame"]) == ("crop_2", "crop_4", "frame_1")


def test_numbered_names_go_on_where_they_ended() -> None:
    context = ToolContext({}, numbering=Numbering("image_", 3))
    names = context.fresh_names(["crop", "crop"])
    assert names == ("image_3", "image_4")
    longer = context.extended({name: Image.new("RGB", (2, 2)) for name in names})
    assert (longer.images, longer.fresh_names(["x"])) == (names, ("image_5",))
    with pytest.raises(ToolError, match="already has image_4"):
        longer.extended({"image_4": Image.new("RGB", (2, 2))})


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L", "RGB"])
def test_what_is_transparent_lies_on_white(mode: str) -> None:
    """In each way in which a picture can say so: an alpha channel, or a colour that is none."""
    image = Image.new("LA" if mode == "LA" else "RGBA" if mode == "RGBA" else mode, (2, 1))
    if mode in ("RGBA", "LA"):
        image.putpixel((1, 0), (9, 9, 9, 255) if mode == "RGBA" else (9, 255))
    else:
        if mode == "P":
            image.putpalette([0, 0, 0, 9, 9, 9])
        image.putpixel((1, 0), {"P": 1, "L": 9, "RGB": (9, 9, 9)}[mode])
        image.info["transparency"] = {"P": 0, "L": 0, "RGB": (0, 0, 0)}[mode]
    shown = ToolContext({"a": image}).image(None).image
    white = 0 if mode == "RGB" else 255  # a picture that is RGB already stays as it is
    assert [shown.getpixel((x, 0)) for x in (0, 1)] == [(white,) * 3, (9, 9, 9)]
    image.info.pop("transparency", None)
    if mode in ("P", "L"):
        assert ToolContext({"a": image}).image(None).image.getpixel((0, 0)) == (0, 0, 0)


def test_sixteen_bits_are_scaled_and_not_clipped_to_white() -> None:
    grey = Image.new("I;16", (2, 1), 128 * 257)
    assert ToolContext({"a": grey}).image(None).image.getpixel((0, 0)) == (128, 128, 128)
