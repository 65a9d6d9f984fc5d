import pytest

from saccade.dialects.registry import DIALECTS, load_dialect
from saccade.record.content import Action, Answer, Code, ParseError, ToolCall
from saccade.record.trajectory import FinishReason, Turn
from saccade.report.segments import segments


def pieces(text: str, action: Action) -> list[tuple[str, str]]:
    return [(piece.kind, piece.text.strip()) for piece in segments(Turn(text=text, action=action))]


def test_thought_and_code() -> None:
    text = "<think>Look there.</think>\n<code>\n```python\nx = 1\n```\n</code>"
    assert pieces(text, Code(code="x = 1")) == [("thought", "Look there."), ("code", "x = 1")]


def test_code_in_the_middle_of_a_thought() -> None:
    text = "<think>First.\n<code>\n```python\nx = 1\n```\n</code>\nThen more.</think>"
    assert pieces(text, Code(code="x = 1")) == [("thought", "First."), ("code", "x = 1"), ("thought", "Then more.")]


def test_code_that_the_text_does_not_hold() -> None:
    text = 'I run it.\n<tool_call>{"code": "x = 1\\ny = 2"}</tool_call>'
    assert pieces(text, Code(code="x = 1\ny = 2")) == [("thought", "I run it."), ("code", "x = 1\ny = 2")]


def test_a_call_shows_its_arguments() -> None:
    action = ToolCall(name="crop", arguments={"box": [1, 2, 3, 4]})
    [thought, call] = segments(Turn(text='Closer.\n<tool_call>{"x": 1}</tool_call>', action=action))
    assert (thought.kind, thought.text) == ("thought", "Closer.")
    assert (call.kind, call.title) == ("call", "crop")
    assert '"box"' in call.text


def test_an_answer_is_not_said_twice() -> None:
    assert pieces("So.\n<answer>\\boxed{7}</answer>", Answer(text="7")) == [("thought", "So."), ("answer", "7")]
    assert pieces("7", Answer(text="7")) == [("answer", "7")]
    assert pieces("", Answer(text="")) == [("answer", "")]


def test_code_that_is_only_quoted_is_told_apart() -> None:
    text = "I would write\n```python\nx = 1\n```\nbut I cannot."
    assert pieces(text, ParseError(reason="none")) == [
        ("thought", "I would write"),
        ("quoted", "x = 1"),
        ("thought", "but I cannot."),
    ]


def test_a_quote_is_found_where_it_stands() -> None:
    text = "x = 1 is what I mean:\n```\nx = 1\n```\nand\n```python\ny"
    assert pieces(text, ParseError(reason="none")) == [
        ("thought", "x = 1 is what I mean:"),
        ("quoted", "x = 1"),
        ("thought", "and"),
        ("quoted", "y"),
    ]


LONG = {"tags": "<answer>", "blanks": " ", "letters": "a", "fences": "```\n"}


@pytest.mark.parametrize("piece", LONG.values(), ids=LONG.keys())
def test_long_texts_take_linear_work(piece: str) -> None:
    """Quadratic work on a text of this length would outlast the time limit of a test."""
    for action in (Code(code="b" + "a" * 50_000), Answer(text="x"), ToolCall(name="x", arguments={})):
        segments(Turn(text="a" + piece * (300_000 // len(piece)) + "b", action=action))


@pytest.mark.parametrize("entry", [name for name in DIALECTS.ids() if "video" not in name])
def test_every_dialect_is_told_apart(entry: str) -> None:
    dialect = load_dialect(entry)
    said = 0
    for action in (
        Code(code="x = 1\nprint(x)"),
        ToolCall(name="crop", arguments={"box": [1, 2, 3, 4]}),
        Answer(text="B7"),
    ):
        try:
            text = dialect.write(action, "Let me see.")
        except ValueError:
            continue  # the dialect has no such action
        said += 1
        read = dialect.parse(text, FinishReason.STOP)
        [thought, deed] = segments(Turn(text=text, action=read))
        assert (thought.kind, thought.text) == ("thought", "Let me see.")
        assert deed.kind == {"code": "code", "tool_call": "call", "answer": "answer"}[read.kind]
    assert said
