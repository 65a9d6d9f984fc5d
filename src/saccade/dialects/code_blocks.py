"""The code in a model's text as an action, and the check of a written turn.

Shared by the dialects that speak in code tags or fences. Code that the token limit (or a filter) cut off is never code.
"""

from __future__ import annotations

from saccade.dialects.base import Dialect
from saccade.dialects.text import Block, blocks, code_in_block, fences, innermost, python_fences
from saccade.record.action import Action, Code, ParseError
from saccade.record.turn import FinishReason

CUT = "Your code was cut off before its end by the limit of tokens, so it was not run. Write shorter code."
EMPTY = "The code block holds no code."


def was_cut(finish: FinishReason) -> bool:
    """Whether the text ended before the model wanted it to."""
    return finish in (FinishReason.LENGTH, FinishReason.FILTERED)


def tagged_code(text: str, finish: FinishReason, *, last: bool = True) -> Code | ParseError | None:
    """The code of the last (or first) block of code tags; None if no block holds code.

    A fence inside the tags is taken if there is one. A block without its closing tag counts only if the fence in it is
    closed; so a text that merely mentions the tag asks for nothing.
    """
    found = blocks(text, "code")
    if was_cut(finish) and found and not found[-1].closed:
        return ParseError(reason=CUT)
    asked = [block for block in found if block.closed or any(fence.closed for fence in python_fences(block.body))]
    if not asked:
        return None
    block = asked[-1 if last else 0]
    if not fences(block.body) and block.closed:
        # Without a fence, words before a second opening tag would be taken for code.
        block = Block(innermost(f"<code>{block.body}</code>", "code")[0].body, closed=True)
    code, closed = code_in_block(block.body, last=last)
    return _action(code, closed, finish)


def fenced_code(text: str, finish: FinishReason, *, last: bool = True) -> Code | ParseError | None:
    """The code of the last (or first) closed Python fence, in tags or not; None if there is none."""
    found = fences(text)
    if was_cut(finish) and found and not found[-1].closed:
        return ParseError(reason=CUT)
    asked = [fence for fence in python_fences(text) if fence.closed]
    return _action(asked[-1 if last else 0].body, True, finish) if asked else None


def checked(dialect: Dialect, text: str, action: Action) -> str:
    """`text`, after a look that the dialect reads `action` from it and would let the model write all of it.

    Raises:
        ValueError: it does not.
    """
    ends = [text.find(stop) + len(stop) for stop in dialect.stop if stop in text]
    if ends and min(ends) < len(text):
        raise ValueError(f"{dialect.id} cannot say this: the text would be stopped after {min(ends)} characters")
    if dialect.parse(text, FinishReason.STOP) != action:
        raise ValueError(f"{dialect.id} cannot say this {action.kind}: its own text would be read as something else")
    return text


def _action(code: str, closed: bool, finish: FinishReason) -> Code | ParseError:
    if was_cut(finish) and not closed:
        return ParseError(reason=CUT)
    return Code(code=code) if code.strip() else ParseError(reason=EMPTY)
