r"""Small total readers of model text: fences, tags, `\boxed{}`, and the rule by which long output is cut.

Every function takes any text, never raises for what is in it, and needs time linear in its length. What a dialect
makes of the pieces (first or last, fence needed or not) is the dialect's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from saccade.dialects.base import Dialect
from saccade.record.content import Action, Code, ParseError
from saccade.record.trajectory import FinishReason

_FENCE = re.compile(r"[ \t]*```[ \t]*(?P<language>[\w+-]*)[ \t]*\r?")
_BOXED = "\\boxed{"
_BRACES = re.compile(r"\\boxed\{|\\.|[{}]", re.DOTALL)
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block: the lines between a line of three backticks (and a language) and the next such line."""

    language: str
    """In lower case; empty if none is named."""
    body: str
    closed: bool
    """False if the text ends inside the block."""


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between `<tag>` and `</tag>`."""

    body: str
    closed: bool
    """False if the text ends without the closing tag."""


def fences(text: str) -> tuple[Fence, ...]:
    """Return all fenced blocks, in order.

    A line of three backticks opens one, the next line of bare backticks closes it.
    """
    found: list[Fence] = []
    language: str | None = None
    body: list[str] = []
    for line in text.split("\n"):
        mark = _FENCE.fullmatch(line)
        if language is None:
            if mark:
                language, body = mark["language"].lower(), []
        elif mark and not mark["language"]:
            found.append(Fence(language, "\n".join(body), closed=True))
            language = None
        else:
            body.append(line)
    if language is not None:
        found.append(Fence(language, "\n".join(body), closed=False))
    return tuple(found)


def python_fences(text: str) -> tuple[Fence, ...]:
    """Return the fenced blocks that name Python as their language."""
    return tuple(fence for fence in fences(text) if fence.language in ("python", "py", "python3"))


def blocks(text: str, tag: str) -> tuple[Block, ...]:
    """Return all blocks of `tag`, in order. An opening tag inside an open block belongs to its body."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    found: list[Block] = []
    start = text.find(opening)
    while start != -1:
        start += len(opening)
        end = text.find(closing, start)
        if end == -1:
            found.append(Block(text[start:], closed=False))
            break
        found.append(Block(text[start:end], closed=True))
        start = text.find(opening, end + len(closing))
    return tuple(found)


def innermost(text: str, tag: str) -> tuple[Block, ...]:
    """Return all blocks of `tag`, in order, each from the last opening tag before its closing tag.

    So a tag that is only talked about does not swallow the real block after it.
    """
    opening, closing = f"<{tag}>", f"</{tag}>"
    *heads, tail = text.split(closing)
    found = [Block(head.rpartition(opening)[2], closed=True) for head in heads if opening in head]
    if opening in tail:
        found.append(Block(tail.rpartition(opening)[2], closed=False))
    return tuple(found)


def code_in_block(body: str, *, last: bool = True) -> tuple[str, bool]:
    """Return the code in the body of a block of code tags, and whether it is whole.

    The last (or first) Python fence; without one the last (or first) fence of any language; without any fence the body
    itself. A fence that the body does not close runs to its end, and the code is then not known to be whole.
    """
    found = python_fences(body) or fences(body)
    if found:
        fence = found[-1 if last else 0]
        return fence.body, fence.closed
    inline = body.strip().removeprefix("```python").removeprefix("```").removesuffix("```")
    return (inline if inline != body.strip() else body.strip("\r\n")), True


def boxed(text: str) -> str | None:
    r"""Return what the last `\boxed{...}` to be closed holds, braces inside it matched; None if none is closed."""
    found: str | None = None
    open_braces: list[int | None] = []  # where the content of a box starts, None for any other brace
    for mark in _BRACES.finditer(text):
        if mark.group() == _BOXED:
            open_braces.append(mark.end())
        elif mark.group() == "{":
            open_braces.append(None)
        elif mark.group() == "}" and open_braces:
            start = open_braces.pop()
            found = found if start is None else text[start : mark.start()]
    return found


def answer_in(body: str) -> str:
    r"""Extract the answer from the body of a block of answer tags: the last `\boxed{...}` if any, else all of it."""
    inner = boxed(body)
    return (body if inner is None else inner).strip()


def answers_in(text: str) -> list[str]:
    """Return what each closed block of answer tags holds, in order."""
    return [answer_in(block.body) for block in blocks(text, "answer") if block.closed]


def cut_middle(text: str, *, longest: int, mark: str = "...") -> str:
    """Cut `text` to its first and last `longest // 2` characters with `mark` between if it is longer than `longest`."""
    half = longest // 2
    return text if len(text) <= longest else text[:half] + mark + text[len(text) - half :]


def outside_thoughts(text: str) -> str:
    """Return `text` without its closed thoughts, unless every tool call and answer in it stands in them."""
    outside = _THOUGHT.sub("", text)
    return outside if "<tool_call>" in outside or "<answer>" in outside else text


# The code in a model's text as an action, and the check of a written turn.
#
# Shared by the dialects that speak in code tags or fences. Code that the token limit (or a filter) cut off is never
# code.


CUT = "Your code was cut off before its end by the limit of tokens, so it was not run. Write shorter code."
EMPTY = "The code block holds no code."


def was_cut(finish: FinishReason) -> bool:
    """Return whether the text ended before the model wanted it to."""
    return finish in (FinishReason.LENGTH, FinishReason.FILTERED, FinishReason.DECLINED)


def tagged_code(text: str, finish: FinishReason, *, last: bool = True) -> Code | ParseError | None:
    """Return the code of the last (or first) block of code tags; None if no block holds code.

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
    """Return the code of the last (or first) closed Python fence, in tags or not; None if there is none."""
    found = fences(text)
    if was_cut(finish) and found and not found[-1].closed:
        return ParseError(reason=CUT)
    asked = [fence for fence in python_fences(text) if fence.closed]
    return _action(asked[-1 if last else 0].body, True, finish) if asked else None


def checked(dialect: Dialect, text: str, action: Action) -> str:
    """Return `text` if the dialect reads `action` from it and lets the model write all of it; else raise ValueError."""
    ends = [text.find(stop) + len(stop) for stop in dialect.stop if stop in text]
    if ends and min(ends) < len(text):
        raise ValueError(f"{dialect.id} cannot say this: the text would be stopped after {min(ends)} characters")
    if dialect.parse(text, FinishReason.STOP) != action:
        raise ValueError(f"{dialect.id} cannot say this {action.kind}: or thought: its text would be read otherwise")
    return text


def _action(code: str, closed: bool, finish: FinishReason) -> Code | ParseError:
    if was_cut(finish) and not closed:
        return ParseError(reason=CUT)
    return Code(code=code) if code.strip() else ParseError(reason=EMPTY)
