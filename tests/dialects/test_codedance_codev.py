"""The wire formats of CodeDance and CodeV against golden files, and what they read."""

from typing import Any

import pytest

from saccade.dialects.base import Dialect, load_dialect
from saccade.dialects.prompt_texts import Prompts
from saccade.dialects.text import CUT as CUT_OFF
from saccade.errors import PromptFileError, SettingsError
from saccade.record.content import Answer, Code, ParseError
from saccade.record.execution import Execution, Status
from saccade.record.trajectory import FinishReason
from saccade.sandbox.base import StatePolicy
from saccade.sandbox.local import check_options

from .cases import CROP, ERROR, PHOTO, PLAN, PLOT, SECRET, TIMEOUT, golden, ok, plain, task, video_task

STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
NAMES = ("codedance:paper", "codedance:repo", "codev")
TEMPLATES = {"codedance": "Q: {query}", "codev": "Q: {query}\n{image_information}"}
each = pytest.mark.parametrize("name", NAMES)


def family(name: str) -> str:
    return name.partition(":")[0]


def user_messages(name: str, **given: Any) -> list[dict[str, Any]]:
    dialect = load_dialect(name)
    short: Dialect = dialect.with_prompts(Prompts({"user": TEMPLATES[family(name)]}, "a test"))
    system, *others = short.open(task(**given)).messages
    assert system.role == "system"
    return [plain(message) for message in others]


@each
def test_openings(name: str) -> None:
    expected = golden(family(name))
    assert user_messages(name) == expected["opening"]
    assert user_messages(name, question="Is <image 2> new?", pictures=(PHOTO, PLAN)) == expected["opening_two"]
    text = "".join(message.text for message in load_dialect(name).open(task()).messages)
    assert "What is it?" in text
    assert SECRET not in text
    assert "secret program" not in text
    with pytest.raises(SettingsError):
        load_dialect(name).open(video_task())


@each
def test_observations(name: str) -> None:
    expected, dialect = golden(family(name)), load_dialect(name)
    executions = {
        "text": ok("42\n"),
        "silent": ok(),
        "pictures": ok("42\n", PLOT, CROP),
        "warned": ok("42\n", stderr="careful\n"),
        "error": ERROR,
        "timeout": TIMEOUT,
    }
    for case, execution in executions.items():
        seen = dialect.observe(execution, 1)
        assert plain(seen.message) == expected[case], case
        assert seen.pictures == 1 + len(seen.message.media)
    corrected = dialect.correct("why", 1)
    assert corrected is not None
    assert plain(corrected.message) == expected["no_action"]
    with pytest.raises(ValueError, match="outage"):
        dialect.observe(Execution(status=Status.LOST), 1)


def test_what_the_code_finds() -> None:
    opening = load_dialect("codedance").open(task(pictures=(PHOTO, PLAN)))
    assert opening.bindings == {"input_image": "photo.png", "input_image_1": "plan.png"}
    assert opening.files == {"input_image.jpg": "photo.png", "input_image_1.jpg": "plan.png"}
    assert opening.strings == {"input_image_path": "input_image.jpg", "input_image_1_path": "input_image_1.jpg"}
    opening = load_dialect("codev").open(task())
    assert opening.bindings == {"image": "photo.png"}
    assert opening.files == {"1.png": "photo.png"}
    assert opening.strings == {"image_path": "1.png"}


@each
def test_the_size_of_the_first_picture_can_be_asked_for(name: str) -> None:
    dialect = load_dialect(name)
    sized: Dialect = dialect.with_prompts(Prompts({"user": "{width} x {height}: {query}"}, "a test"))
    assert sized.open(task(pictures=(PHOTO, PLAN))).messages[-1].text.endswith("640 x 480: What is it?")
    with pytest.raises(PromptFileError, match=r"asks for \{width\}, which this task does not have"):
        sized.open(task(pictures=()))


@pytest.mark.parametrize("name", [*NAMES, "pyvision-rl-image"])
def test_a_text_without_an_action_says_whether_it_was_cut(name: str) -> None:
    for finish, cut in ((LENGTH, True), (FinishReason.FILTERED, True), (STOP, False)):
        action = load_dialect(name).parse("I look at the sign", finish)
        assert isinstance(action, ParseError)
        assert (action.reason == CUT_OFF) is cut


def test_which_pictures_are_shown() -> None:
    for source, codedance, codev in (("value", 1, 0), ("file", 0, 1), ("figure", 1, 1), ("display", 1, 1)):
        assert load_dialect("codedance").observe(ok("", PLOT, source=source), 0).pictures == codedance
        assert load_dialect("codev").observe(ok("", PLOT, source=source), 0).pictures == codev


def test_codedance_reads_the_first_fence() -> None:
    dialect = load_dialect("codedance")
    assert dialect.parse("```python\na\n```\n<code>\n```python\nb\n```\n</code>", STOP) == Code(code="a")
    assert dialect.parse("<think>t</think>```python\na\n``` <answer>A</answer>", STOP) == Answer(text="A")
    assert dialect.parse("```python\na\n```\n<answer>A</answer>", STOP) == Code(code="a")
    call = '<tool_call>{"name": "execute_python_code", "arguments": {"code": "a"}}</tool_call>'
    assert dialect.parse(call, STOP) == Code(code="a")
    for broken in (
        "<tool_call>{</tool_call>",
        "<tool_call>[1]</tool_call>",
        '<tool_call>{"name": "other"}</tool_call>',
        '<tool_call>{"name": "execute_python_code", "arguments": {"code": " "}}</tool_call>',
        '<tool_call>{"name": "execute_python_code", "arguments": {"code": 7}}</tool_call>',
    ):
        assert isinstance(dialect.parse(broken, STOP), ParseError)


def test_codev_reads_the_first_complete_block() -> None:
    dialect = load_dialect("codev")
    assert dialect.parse("<think>t\n<code>a</code></think>", STOP) == Code(code="a")
    assert dialect.parse("<code>\n```\na\n```\n</code> <code>b</code>", STOP) == Code(code="a")
    assert dialect.parse("<think>t</think>\n<answer>A</answer>", STOP) == Answer(text="A")
    assert isinstance(dialect.parse("<think><code>a", STOP), ParseError)
    assert isinstance(dialect.parse("<think><code>a", LENGTH), ParseError)


@pytest.mark.parametrize("name", ["codev", "pyvision", "pyvision-rl-image", "codedance"])
@pytest.mark.parametrize("code", ['print("<code>")', 'tag = "<code>"\nprint(tag)'])
def test_code_may_speak_of_the_tag(name: str, code: str) -> None:
    dialect = load_dialect(name)
    text = f"<think>t</think>\n<code>\n```python\n{code}\n```\n</code>"
    assert dialect.parse(text, FinishReason.STOP_STRING) == Code(code=code)


def test_settings() -> None:
    assert load_dialect("codedance").session.state is StatePolicy.ROLLBACK
    assert load_dialect("codedance:repo").session.state is StatePolicy.CLEAR
    assert load_dialect("codedance").limits.turns == 6
    assert load_dialect("codedance").sandbox.wall_seconds == 15
    for name in (*NAMES, "pyvision", "pyvision-rl-image", "pyvision-rl-video"):
        check_options(load_dialect(name).session)
        assert load_dialect(name).sandbox.cpu_seconds >= load_dialect(name).sandbox.wall_seconds
