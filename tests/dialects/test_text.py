"""Code in tags and fences: which block counts, what was cut off, and what a dialect can say at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.dialects.base import load_dialect
from saccade.dialects.pyvision import PyVisionDialect
from saccade.dialects.text import (
    CUT,
    EMPTY,
    Block,
    Fence,
    answer_in,
    blocks,
    boxed,
    checked,
    code_in_block,
    cut_middle,
    fenced_code,
    fences,
    innermost,
    outside_thoughts,
    python_fences,
    tagged_code,
    was_cut,
)
from saccade.record.content import Answer, Code, ParseError
from saccade.record.trajectory import FinishReason

STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
A, B = "```python\na\n```", "```python\nb\n```"


def said(found: Code | ParseError | None) -> str | None:
    return (
        found.code if isinstance(found, Code) else None if found is None else {CUT: "CUT", EMPTY: "EMPTY"}[found.reason]
    )


def test_the_limit_and_a_filter_cut() -> None:
    cut = {FinishReason.LENGTH, FinishReason.FILTERED, FinishReason.DECLINED}
    assert {reason for reason in FinishReason if was_cut(reason)} == cut


@pytest.mark.parametrize(
    ("text", "last", "first"),
    [
        (f"<code>{A}</code> then <code>{B}</code>", "b", "a"),
        (f"<code>\n{A}\nand\n{B}\n</code>", "b", "a"),
        ("<code>a</code><code>b</code>", "b", "a"),
        (f"<code>{A}</code> the tag <code> again", "a", "a"),  # a mention asks for nothing
        (f"<code>{A}</code> <code>\n{B}\n", "b", "a"),  # without its closing tag, but its fence is closed
        ("<code>\n```python\nb\n", None, None),
        ("<code>b", None, None),
        ("the <code> tag: <code>b</code>", "b", "b"),
        ("<code>\n```\nb\n```\n</code>", "b", "b"),
        ("<code>\n```python\nb\n</code>", "b\n", "b\n"),
        ("<code></code>", "EMPTY", "EMPTY"),
        ("<code>\n```python\n \n```\n</code>", "EMPTY", "EMPTY"),
        ("<code>a</code><code> </code>", "EMPTY", "a"),
        (A, None, None),
        ("", None, None),
    ],
)
def test_code_in_tags(text: str, last: str | None, first: str | None) -> None:
    assert said(tagged_code(text, STOP)) == last
    assert said(tagged_code(text, STOP, last=False)) == first


@pytest.mark.parametrize("finish", [LENGTH, FinishReason.FILTERED])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<code>{A}</code> and", "a"),
        (f"<code>{A}</code> and <code>\n{B}", "CUT"),  # the last block is not over
        ("<code>b", "CUT"),
        ("<code>\n```python\na\n</code>", "CUT"),  # its fence is not closed: it may not be whole
        ("and then", None),
    ],
)
def test_code_in_tags_that_were_cut(finish: FinishReason, text: str, expected: str | None) -> None:
    assert said(tagged_code(text, finish)) == expected


@pytest.mark.parametrize(
    ("text", "finish", "last", "first"),
    [
        (f"{A}\nand\n{B}", STOP, "b", "a"),
        (f"{A}\n```\nno language\n```", STOP, "a", "a"),
        (f"{A}\n```python\nb", STOP, "a", "a"),
        (f"{A}\n```python\nb", LENGTH, "CUT", "CUT"),
        (f"{A}\n", LENGTH, "a", "a"),
        ("```python\n\n```", STOP, "EMPTY", "EMPTY"),
        ("```python\nb", STOP, None, None),
        ("```python\nb", FinishReason.FILTERED, "CUT", "CUT"),
        ("```json\n1\n```", STOP, None, None),
        ("a", LENGTH, None, None),
    ],
)
def test_code_in_fences(text: str, finish: FinishReason, last: str | None, first: str | None) -> None:
    assert said(fenced_code(text, finish)) == last
    assert said(fenced_code(text, finish, last=False)) == first


def test_what_a_dialect_cannot_say() -> None:
    dialect = load_dialect("pyvision@1:repo")
    stop = dialect.stop[0]
    text = dialect.write(Code(code="a"), "Hm.")
    assert checked(dialect, text, Code(code="a")) == text
    with pytest.raises(ValueError, match="would be read otherwise"):
        checked(dialect, text, Code(code="b"))
    with pytest.raises(ValueError, match="cannot say this answer"):
        checked(dialect, text, Answer(text="a"))
    at = len(text) - len(text.rpartition(stop)[2]) if stop in text else len("Hm.") + len(stop)
    longer = text + " more" if stop in text else f"Hm.{stop} more"
    with pytest.raises(ValueError, match=f"would be stopped after {at} characters"):
        checked(dialect, longer, Code(code="a"))
    with pytest.raises(ValueError, match=f"would be stopped after {at} characters"):
        checked(PyVisionDialect("two@1", stop=("nowhere", "more", stop)), longer, Code(code="a"))


PIECES = st.lists(
    st.sampled_from(
        ["<code>", "</code>", "```python\n", "\n```\n", "```", "\\boxed{", "}", "{", "\\", "\n", "x = 1", "<"]
    )
).map("".join)


def test_fences_in_order() -> None:
    text = "a\n```python\nx = 1\n```\nb\n  ```\ny\n```\n```py\nz"
    assert fences(text) == (Fence("python", "x = 1", True), Fence("", "y", True), Fence("py", "z", False))
    assert [fence.body for fence in python_fences(text)] == ["x = 1", "z"]


def test_backticks_inside_a_line_close_nothing() -> None:
    assert fences('```python\nprint("```")\n```') == (Fence("python", 'print("```")', True),)


def test_blocks_and_innermost() -> None:
    text = "the <code> tag: <code>1</code> <code>2"
    assert blocks(text, "code") == (Block(" tag: <code>1", True), Block("2", False))
    assert innermost(text, "code") == (Block("1", True), Block("2", False))
    assert blocks("</code>", "code") == innermost("</code>", "code") == ()


def test_boxed_matches_braces() -> None:
    assert boxed(r"\boxed{1} then \boxed{\frac{1}{2}}") == r"\frac{1}{2}"
    assert boxed(r"\boxed{a \} b}") == r"a \} b"
    assert boxed(r"\boxed{never closed") is None
    assert boxed(r"\boxed{1} \boxed{open") == "1"
    assert boxed(r"in \boxed{ goes: \boxed{A}") == "A"
    assert boxed(r"\boxed{\boxed{1}}") == r"\boxed{1}"
    assert boxed(r"} \boxed{}") == ""
    assert answer_in("\n\\boxed{ STOP }\n") == "STOP"
    assert answer_in(" plain ") == "plain"


@given(PIECES | st.text())
def test_total(text: str) -> None:
    fences(text)
    blocks(text, "code")
    innermost(text, "code")
    code_in_block(text)
    boxed(text)
    assert len(cut_middle(text, longest=10)) <= 13


@pytest.mark.parametrize("piece", ["<code>", "```python\n", "\\boxed{", "\\boxed{}", "```\n"])
@pytest.mark.parametrize(
    "read", [fences, lambda text: blocks(text, "code"), lambda text: innermost(text, "code"), boxed]
)
def test_long_hostile_text_takes_linear_work(read: Callable[[str], object], piece: str) -> None:
    """Quadratic work on a text of this length would outlast the time limit of a test."""
    read(piece * 100_000)


@pytest.mark.parametrize(
    ("body", "code", "closed"),
    [
        ("```python a```", " a", True),
        ("\n  a\n", "  a", True),
        ("\n```python\na\n", "a\n", False),
        ("```a```", "a", True),
        ("``` a", "", False),  # a language, and then nothing
        ("\r\n  a\r\n", "  a", True),
        ("\n```json\na\n```\n", "a", True),
        ("\n```json\na\n```\n```python\nb\n```\n```\nc\n```", "b", True),
        ("\n```python\na\n```\n```python\nb", "b", False),
        ("", "", True),
    ],
)
def test_code_in_a_block_of_any_layout(body: str, code: str, closed: bool) -> None:
    assert code_in_block(body) == (code, closed)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("~~~\n```Python3\na\n```", [("python3", "a", True)]),
        ("```python x\na\n```", [("", "", False)]),  # words behind the language: no opening
        ("```c++\na\n\n```\r\n```", [("c++", "a\n", True), ("", "", False)]),
        ("````\na\n````", []),
        ("```\n```python\na\n```", [("", "```python\na", True)]),
        ("```\n```", [("", "", True)]),
        ("x ```\na\n```", [("", "", False)]),
        (" \t``` py \na", [("py", "a", False)]),
    ],
)
def test_fences_of_any_layout(text: str, found: list[tuple[str, str, bool]]) -> None:
    assert [(fence.language, fence.body, fence.closed) for fence in fences(text)] == found


def test_tags_back_to_back_and_inside_each_other() -> None:
    assert blocks("<a>1</a><a>2</a>", "a") == innermost("<a>1</a><a>2</a>", "a") == (Block("1", True), Block("2", True))
    assert blocks("<a><a>1</a>2</a><a>", "a") == (Block("<a>1", True), Block("", False))
    assert innermost("<a><a>1</a>2</a><a><a>3", "a") == (Block("1", True), Block("3", False))
    assert innermost("</a>1</a>", "a") == ()
    assert blocks("<ab>1</ab><a>2</ab>", "a") == (Block("2</ab>", False),)


@pytest.mark.parametrize(
    ("longest", "text", "cut"),
    [(4, "abcd", "abcd"), (4, "abcde", "ab...de"), (5, "abcdef", "ab...ef"), (5, "abcde", "abcde"), (1, "ab", "...")],
)
def test_the_middle_is_cut_out_of_what_is_longer(longest: int, text: str, cut: str) -> None:
    assert cut_middle(text, longest=longest) == cut
    assert cut_middle(text, longest=longest, mark="|") == cut.replace("...", "|")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>a</think><answer>b</answer>", "<answer>b</answer>"),
        ("<think>a</think>x<think>b</think><tool_call>", "x<tool_call>"),
        ("<think><answer>b</answer></think>c", "<think><answer>b</answer></think>c"),  # its answer stands in a thought
        ("<think>a</think>", "<think>a</think>"),
        ("<think>a\n<answer>b</answer>", "<think>a\n<answer>b</answer>"),
        ("<think>\n</think>\n<tool_call>", "\n<tool_call>"),
    ],
)
def test_what_is_said_outside_of_thoughts(text: str, left: str) -> None:
    assert outside_thoughts(text) == left
