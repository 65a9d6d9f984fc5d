"""Code in tags and fences: which block counts, what was cut off, and what a dialect can say at all."""

from __future__ import annotations

import pytest

from saccade.dialects.code_blocks import CUT, EMPTY, checked, fenced_code, tagged_code, was_cut
from saccade.dialects.pyvision import PyVisionDialect
from saccade.dialects.registry import load_dialect
from saccade.record.action import Answer, Code, ParseError
from saccade.record.turn import FinishReason

STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
A, B = "```python\na\n```", "```python\nb\n```"


def said(found: Code | ParseError | None) -> str | None:
    return (
        found.code if isinstance(found, Code) else None if found is None else {CUT: "CUT", EMPTY: "EMPTY"}[found.reason]
    )


def test_the_limit_and_a_filter_cut() -> None:
    assert [reason for reason in FinishReason if was_cut(reason)] == [FinishReason.LENGTH, FinishReason.FILTERED]


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
    with pytest.raises(ValueError, match="would be read as something else"):
        checked(dialect, text, Code(code="b"))
    with pytest.raises(ValueError, match="cannot say this answer"):
        checked(dialect, text, Answer(text="a"))
    at = len(text) - len(text.rpartition(stop)[2]) if stop in text else len("Hm.") + len(stop)
    longer = text + " more" if stop in text else f"Hm.{stop} more"
    with pytest.raises(ValueError, match=f"would be stopped after {at} characters"):
        checked(dialect, longer, Code(code="a"))
    with pytest.raises(ValueError, match=f"would be stopped after {at} characters"):
        checked(PyVisionDialect("two@1", stop=("nowhere", "more", stop)), longer, Code(code="a"))
