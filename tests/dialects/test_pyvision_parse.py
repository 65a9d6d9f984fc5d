"""What the PyVision dialects read from a model's text."""

import pytest

from saccade.dialects.base import load_dialect
from saccade.record.content import Answer, Code, ParseError
from saccade.record.trajectory import FinishReason

PYVISION = load_dialect("pyvision")
RL = load_dialect("pyvision-rl-image")
STOP, STRING, LENGTH = FinishReason.STOP, FinishReason.STOP_STRING, FinishReason.LENGTH
BLOCK = "<code>\n```python\nx = 1\n```\n</code>"


@pytest.mark.parametrize("dialect", [PYVISION, RL], ids=["pyvision", "rl"])
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"I look.\n{BLOCK}", "x = 1"),
        (f"I use the <code> tag: {BLOCK}", "x = 1"),
        ("<code>\n```python\na\n```\nor\n```python\nb\n```\n</code>", "b"),
        ("<code>\nx = 1\n</code>", "x = 1"),
        ("<code>```python\nx = 1\n```</code>", "x = 1"),
        ("<code>\n```python\nx = 1\n</code>", "x = 1\n"),
        ("in <code> tags\n<code>x = 2</code>", "x = 2"),
    ],
)
def test_code(dialect: object, text: str, code: str) -> None:
    assert dialect in (PYVISION, RL)
    found = (PYVISION if dialect is PYVISION else RL).parse(text, STRING)
    assert found == Code(code=code)


def test_answers() -> None:
    for dialect in (PYVISION, RL):
        assert dialect.parse("So <answer>\n\\boxed{\\frac{1}{2}}\n</answer>", STOP) == Answer(text="\\frac{1}{2}")
        assert dialect.parse("<answer>A</answer> no: <answer>B</answer>", STOP) == Answer(text="B")
    assert PYVISION.parse("So it is \\boxed{STOP}.", STOP) == Answer(text="STOP")
    assert PYVISION.parse("I used <code> before. <answer>A</answer>", STOP) == Answer(text="A")


def test_code_or_answer_first() -> None:
    text = f"<answer>A</answer> {BLOCK}"
    assert PYVISION.parse(text, STRING) == Code(code="x = 1")
    assert RL.parse(text, STRING) == Answer(text="A")
    assert RL.parse(f"<answer></answer>{BLOCK}", STRING) == Code(code="x = 1")


def test_bare_fence_counts_in_rl_alone() -> None:
    text = "```python\na\n```\n```python\nb\n```"
    assert RL.parse(text, STOP) == Code(code="b")
    assert isinstance(PYVISION.parse(text, STOP), ParseError)


@pytest.mark.parametrize(
    "text", ["", "I think it is red.", "<answer></answer>", "<code></code>", "the <code> tag", "</code>"]
)
def test_no_action(text: str) -> None:
    for dialect in (PYVISION, RL):
        assert isinstance(dialect.parse(text, STOP), ParseError)


def test_cut_off_code_is_no_code() -> None:
    for cut in range(len("<code>"), len(BLOCK) - len("</code>") + 1):
        for dialect in (PYVISION, RL):
            assert isinstance(dialect.parse(BLOCK[:cut], LENGTH), ParseError), BLOCK[:cut]
    assert isinstance(RL.parse("<answer>A</answer> and", LENGTH), ParseError)


@pytest.mark.parametrize("name", ["pyvision", "pyvision-rl-image", "codedance", "codev"])
def test_lone_surrogates_do_no_harm(name: str) -> None:
    assert load_dialect(name).parse("<code>\n```python\n'\ud800'\n```\n</code>", STRING) == Code(code="'\ufffd'")
    assert load_dialect(name).parse("<answer>\udfff</answer>", STOP) == Answer(text="\ufffd")
