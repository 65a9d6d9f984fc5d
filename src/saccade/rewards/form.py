"""Whether the model's own words have the form that a reward asks for. Observations are never looked at."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from saccade.dialects.faults import find_tag_faults
from saccade.record.action import Answer, Code, ParseError, ToolCall
from saccade.record.trajectory import Trajectory
from saccade.record.turn import Turn
from saccade.rewards.reading import LONGEST_ANSWER

_THYME: Final = re.compile(r"<think>.*</think>\s<answer>.*</answer>\s*", re.DOTALL)
_BOX: Final = ("<answer>\n\\boxed{", "}\n</answer>")
_PROTOCOL: Final = {
    "tool_call": re.compile(r"\s*<think>.*</think>\s*<tool_call>.*</tool_call>\s*", re.DOTALL),
    "answer": re.compile(r"\s*<think>.*</think>\s*<answer>.*</answer>\s*", re.DOTALL),
}
_BARE: Final = {tag: re.compile(rf"\s*<{tag}>.*</{tag}>\s*", re.DOTALL) for tag in ("code", "tool_call", "answer")}


def tags_in_order(trajectory: Trajectory, tags: Collection[str], longest: int = LONGEST_ANSWER) -> bool:
    """Whether every turn has an action and pairs of each tag, and the answer is shorter than `longest` characters.

    Tags may lie inside each other, as CodeV writes code inside a thought. A trajectory without an answer can be in
    order: DeepEyes and CodeDance do not count that as a matter of form.
    """
    for turn in trajectory.turns:
        if isinstance(turn.action, ParseError) or any(find_tag_faults(turn.text, (tag,)) for tag in tags):
            return False
    return trajectory.answer is None or len(trajectory.answer) < longest


def follows_protocol(trajectory: Trajectory) -> bool:
    """VISTA's form: each turn thinks and then calls once; the last one thinks and then answers once."""
    turns = trajectory.turns
    if not turns or not isinstance(turns[-1].action, Answer):
        return False
    return all(_is_turn(turn, "tool_call") for turn in turns[:-1]) and _is_turn(turns[-1], "answer")


def only_actions(trajectory: Trajectory) -> bool:
    """VISTA's form without thoughts: each turn is one call or piece of code, the last one answer."""
    turns = trajectory.turns
    if not turns or not isinstance(turns[-1].action, Answer):
        return False
    kinds = [(turn, *_called(turn)) for turn in turns[:-1]] + [(turns[-1], Answer, "answer")]
    return all(
        isinstance(turn.action, kind)
        and not find_tag_faults(turn.text, ("code", "tool_call", "answer"))
        and turn.text.count(f"<{tag}>") == 1
        and _BARE[tag].fullmatch(turn.text) is not None
        for turn, kind, tag in kinds
    )


def _called(turn: Turn) -> tuple[type[Code | ToolCall], str]:
    """What a turn that does not answer must be, and the tag around it."""
    return (ToolCall, "tool_call") if isinstance(turn.action, ToolCall) else (Code, "code")


def boxed_answer(trajectory: Trajectory) -> bool:
    r"""PyVision-RL's gate: the last turn holds exactly `<answer>\n\boxed{...}\n</answer>`, and nothing of it twice."""
    text = "" if trajectory.answer is None else trajectory.turns[-1].text
    _, opened, rest = text.partition(_BOX[0])
    inside, closed, _ = rest.partition(_BOX[1])
    once = text.count("<answer>") == text.count("</answer>")
    again = any(mark in inside for mark in ("<interpreter>", "<answer>", "\\boxed"))
    return bool(opened and closed) and once and not again


def one_thought_one_answer(trajectory: Trajectory) -> bool:
    """Thyme's form: all that was written is one thought, one white space character and one answer."""
    text = "".join(turn.text for turn in trajectory.turns)
    once = all(text.count(tag) == 1 for tag in ("<think>", "</think>", "<answer>", "</answer>"))
    return once and _THYME.fullmatch(text) is not None


def _is_turn(turn: Turn, tag: str) -> bool:
    kinds = (Answer,) if tag == "answer" else (ToolCall, Code)
    if not isinstance(turn.action, kinds) or find_tag_faults(turn.text, ("think", "tool_call", "answer")):
        return False
    once = turn.text.count("<think>") == 1 and turn.text.count(f"<{tag}>") == 1
    return once and _PROTOCOL[tag].fullmatch(turn.text) is not None
