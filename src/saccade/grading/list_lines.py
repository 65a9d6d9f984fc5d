"""Lists that are written as lines: bullets, numbered lines, or a text of nothing but short lines.

They become one line with an array, behind the line that leads to them, so that they are looked for like any answer.
"""

from __future__ import annotations

import json
import re

from saccade.grading.clean import LONGEST_ANSWER, clean
from saccade.grading.literals import MOST_ITEMS
from saccade.grading.marks import is_mark

_ITEM = re.compile(r"\s*(?:[-*•+]\s+|\(?[0-9]{1,3}[.)]\s+)(?P<text>\S.*?)\s*")
_FENCE = re.compile(r"\s*(?:```|~~~)\w*\s*")
_TAGGED = re.compile(r"(?P<open><answer>)(?P<inside>.*?)(?P<close></answer>|\Z)", re.IGNORECASE | re.DOTALL)
_LEAD = re.compile(r"[^\n]{0,200}:[\s*]*")
_LONGEST_ITEM = 8


def lines_as_array(answer: str) -> str:
    """`answer` with each list of lines as one JSON array on one line."""
    if len(answer) > LONGEST_ANSWER or "\n" not in answer.replace("\r", "\n"):
        return answer
    return _TAGGED.sub(lambda match: match["open"] + _joined(match["inside"]) + match["close"], _joined(clean(answer)))


def _joined(text: str) -> str:
    lines = [line for line in text.split("\n") if line.strip() and _FENCE.fullmatch(line) is None]
    plain = _only_items(lines)
    if plain:
        return plain
    kept: list[str] = []
    block: list[str] = []
    for line in [*lines, ""]:
        item = _ITEM.fullmatch(line)
        if item is not None:
            block.append(item["text"])
            continue
        _flush(block, kept)
        block = []
        if line:
            kept.append(line)
    return "\n".join(kept)


def _only_items(lines: list[str]) -> str | None:
    """A text of nothing but short lines, perhaps behind one that leads to them, as one line; None for another."""
    lead = lines[0] if lines and _LEAD.fullmatch(lines[0]) else ""
    items = [line.strip() for line in (lines[1:] if lead else lines)]
    short = all(
        len(item.split()) <= _LONGEST_ITEM
        and not item.endswith((".", ":", "?"))
        and "<" not in item
        and item[0] not in "[{(#|"
        and "\\" not in item
        and ":" not in item
        and _ITEM.fullmatch(item) is None
        for item in items
    )
    if not short or not 2 <= len(items) <= MOST_ITEMS:
        return None
    return f"{lead if is_mark(lead) else ''} {json.dumps(items, ensure_ascii=False)}".strip()


def _flush(block: list[str], kept: list[str]) -> None:
    if len(block) < 2:
        kept.extend(f"- {item}" for item in block)
        return
    array = json.dumps(block[: MOST_ITEMS + 1], ensure_ascii=False)
    if kept and _LEAD.fullmatch(kept[-1]) and is_mark(kept[-1]):
        kept[-1] = f"{kept[-1].rstrip(' *')} {array}"
    else:
        kept.append(array)
