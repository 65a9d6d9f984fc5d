from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.dialects.text import (
    Block,
    Fence,
    answer_in,
    blocks,
    boxed,
    code_in_block,
    cut_middle,
    fences,
    innermost,
    outside_thoughts,
    python_fences,
)

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


def test_code_in_block() -> None:
    assert code_in_block("\n```python\na\n```\nand\n```python\nb\n```\n") == ("b", True)
    assert code_in_block("\n```python\na\n```\nand\n```python\nb\n```\n", last=False) == ("a", True)
    assert code_in_block("\n```\na\n```\n") == ("a", True)
    assert code_in_block("\n  a\n") == ("  a", True)
    assert code_in_block("```python a = 1```") == (" a = 1", True)
    assert code_in_block("\n```python\na\n") == ("a\n", False)


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


def test_cut_middle_is_200_and_200() -> None:
    text = "a" * 200 + "b" + "c" * 200
    assert cut_middle(text, longest=400) == "a" * 200 + "..." + "c" * 200
    assert cut_middle("d" * 400, longest=400) == "d" * 400


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
    read(piece * 200_000)


@pytest.mark.parametrize(
    ("body", "code", "closed"),
    [
        ("```python a```", " a", True),
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
