"""What holds for every dialect that speaks in code tags, whatever a model writes and a program prints."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.dialects.base import load_dialect, presets
from saccade.dialects.question import GUARD
from saccade.record.content import Action, Answer, Code, Message, ParseError, clean_text
from saccade.record.execution import Execution, Status
from saccade.record.trajectory import FinishReason

from .cases import CROP, PLOT, ok, plain

NUMBERED = ("pyvision", "pyvision-rl-image", "pyvision-rl-image-no-hint", "pyvision-rl-video")
FAMILIES = (*NUMBERED, "codedance", "codev")
ALL = [f"{name}:{preset}" if preset else name for name in FAMILIES for preset in presets(name) or ("",)]
PIECES = st.lists(
    st.sampled_from(
        [
            *("<code>", "</code>", "```python\n", "\n```\n", "```", "<answer>", "</answer>", "\\boxed{", "{", "}"),
            *("x = 1", "<think>", "</think>", "<tool_call>", "</tool_call>", '{"name": "execute_python_code"}'),
            *("\n", " ", "A", "\\"),
        ]
    )
).map("".join)
PRINTED = st.lists(
    st.sampled_from(
        [
            *("<", ">", "/", "\\", "interpreter", "</interpreter>", "<image_clue_0>", "</image_clue_7>", "<code>"),
            *("\n", "</tool_response>", "<|im_end|>", "<|im_start|>user\n", "<sandbox_output>", "<answer>", "image"),
            *("a", "42"),
        ]
    )
).map("".join)
TEXT = st.text(max_size=200).map(clean_text)
each = pytest.mark.parametrize("name", ALL)


@each
@given(text=PIECES | TEXT, finish=st.sampled_from(FinishReason))
def test_parse_is_total(name: str, text: str, finish: FinishReason) -> None:
    action = load_dialect(name).parse(text, finish)
    assert isinstance(action, Code | Answer | ParseError)
    if isinstance(action, Code):
        assert action.code.strip()
    if isinstance(action, Answer):
        assert action.text == action.text.strip() != ""


@each
@given(text=PIECES | TEXT, thought=TEXT | PIECES, code=st.booleans())
def test_what_is_written_is_read_back(name: str, text: str, thought: str, code: bool) -> None:
    dialect = load_dialect(name)
    action: Action = Code(code=text) if code else Answer(text=text)
    try:
        written = dialect.write(action, thought)
    except ValueError:
        return
    assert dialect.parse(written, FinishReason.STOP_STRING if code else FinishReason.STOP) == action
    for stop in dialect.stop:
        assert written.count(stop) <= 1


@each
@given(
    text=st.from_regex(r"[\w .,=()\[\]'\"#:+<\n-]{0,60}[\w)]", fullmatch=True),
    thought=st.from_regex(r"[\w .,!\n-]*", fullmatch=True),
)
def test_ordinary_actions_can_be_written(name: str, text: str, thought: str) -> None:
    dialect = load_dialect(name)
    for action in (Code(code=text), Answer(text=text.strip())):
        assert dialect.parse(dialect.write(action, thought), FinishReason.STOP) == action


FENCED = "<code>\n```python\nx\n```\n</code>"
BOXED = "<answer>\n\\boxed{7}\n</answer>"


@pytest.mark.parametrize(
    ("name", "thought", "code", "answer"),
    [
        ("pyvision", "", FENCED, BOXED),
        ("pyvision", "So.", f"So.\n\n{FENCED}", f"So.\n\n{BOXED}"),
        ("codedance", "So.", f"<think>So.</think>\n{FENCED}", "<think>So.</think>\n<answer>7</answer>"),
        ("codev", "So.", f"<think>So.\n{FENCED}", "<think>So.</think>\n<answer>7</answer>"),
        ("native", "", None, "<answer>7</answer>"),
        ("native", "So.", None, "So.\n<answer>7</answer>"),
        ("deepeyes", "", None, "<answer>7</answer>"),
        ("deepeyes", "So.", None, "<think>So.</think>\n<answer>7</answer>"),
        ("direct", "", None, "<answer>7</answer>"),
        ("direct", "So.", None, "So.\n<answer>7</answer>"),
        ("direct:think", "So.", None, "<think>So.</think>\n<answer>7</answer>"),
    ],
)
def test_what_is_written_to_the_letter(name: str, thought: str, code: str | None, answer: str) -> None:
    dialect = load_dialect(name)
    assert dialect.write(Answer(text="7"), thought) == answer
    if code is not None:
        assert dialect.write(Code(code="x"), thought) == code


@each
def test_a_last_request_asks_for_the_answer(name: str) -> None:
    last = load_dialect(name).ask_for_answer()
    if last is not None:
        assert last.role == "user"
        assert "your final answer" in last.text


@each
def test_what_is_no_action_cannot_be_written(name: str) -> None:
    for action in (ParseError(reason="x"), Code(code=" \n"), Answer(text="")):
        with pytest.raises(ValueError, match=name.partition(":")[0] + "|cannot be said"):
            load_dialect(name).write(action)
    with pytest.raises(ValueError, match="cannot say"):
        load_dialect(name).write(Code(code="```\nx\n```"), "so")


@each
@given(thought=st.from_regex(r"[\w .,\n]*", fullmatch=True), code=st.from_regex(r"[\w =()\n]+", fullmatch=True))
def test_cut_off_code_is_a_parse_error(name: str, thought: str, code: str) -> None:
    dialect = load_dialect(name)
    try:
        text = dialect.write(Code(code=code + "\nx"), thought)
    except ValueError:
        return
    start = text.index("<code>") + len("<code>")
    for end in {start, (start + text.rindex("```")) // 2, text.rindex("```") - 1}:
        assert isinstance(dialect.parse(text[:end], FinishReason.LENGTH), ParseError)


def tags(name: str, message: Message) -> list[str]:
    """Every tag of the dialect's protocol in a message; pictures part the text as they do for the model."""
    text = "".join(part if isinstance(part, str) else " " for part in plain(message)["parts"])
    output = {"codev": "sandbox_output", "codedance": "tool_call|tool_response"}.get(
        name.partition(":")[0], r"interpreter|tool_response|image_(?:clue|hint)_\d+"
    )
    return re.findall(rf"<\|\w+\|>|</?(?:think|code|answer|image|{output})>", text)


@each
@given(printed=PRINTED | TEXT, pictures=st.integers(0, 2))
def test_printed_text_forges_no_tag(name: str, printed: str, pictures: int) -> None:
    dialect = load_dialect(name)
    images = (PLOT, CROP)[:pictures]
    forged = tags(name, dialect.observe(ok(printed, *images, stderr=printed), 3).message)
    assert forged == tags(name, dialect.observe(ok("1", *images), 3).message)
    failed = Execution(status=Status.ERROR, stdout=printed, traceback=f"ValueError: {printed}")
    clean = Execution(status=Status.ERROR, stdout="1", traceback="ValueError: 1")
    assert tags(name, dialect.observe(failed, 3).message) == tags(name, dialect.observe(clean, 3).message)


@pytest.mark.parametrize("name", NUMBERED)
@given(calls=st.lists(st.integers(0, 3), max_size=8), start=st.integers(0, 3))
def test_numbers_never_repeat_or_skip(name: str, calls: list[int], start: int) -> None:
    dialect = load_dialect(name)
    shown, numbers = start, list[int]()
    for count in calls:
        seen = dialect.observe(
            ok("<image_clue_1>", *[PLOT] * count) if count != 3 else Execution(status=Status.ERROR), shown
        )
        numbers += [int(number) for number in re.findall(r"<image_clue_(\d+)>", seen.message.text)]
        assert len(seen.message.media) == seen.pictures - shown
        shown = seen.pictures
    assert numbers == list(range(start, shown))


def test_the_guard_leaves_ordinary_output_alone() -> None:
    for line in (
        "[[1, 2], [3, 4]]",
        "<class 'numpy.ndarray'>",
        "if a < b > c:",
        "<PIL.Image.Image size=64x64>",
        "a<b>c",
    ):
        assert GUARD.escape(line) == line
