from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.counted import grows_linearly

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
    read(piece * 20_000)
    assert grows_linearly(lambda size: read(piece * size), 500)
