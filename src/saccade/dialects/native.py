r"""`native`: the function calling of today's APIs, OpenAI-style and Anthropic.

The model is offered the function `python` and the tools of the dialect, `replace(dialect, tools=...)`; a driver passes
`functions` as the tools of its requests. APIs give calls apart from the text, and a turn keeps both apart. What
is parsed, and what a model is trained on, is one text, made by `with_calls`: the text and then a line for each call:

    I look closer.
    <tool_call id="call_1">{"name": "python", "arguments": {"code": "..."}}</tool_call>

`parse` reads such lines at the end of the text. The `id` is a JSON string, left out where the API has none. The first
call is the action: an API asked for one call at a time gives one. Results have role `tool` and follow the call that
they answer, so they need no identifier. A call that the server left in the text, in the form of the model's family, is
made too (`left_calls`).

The answer is in `<answer>`; a text without a call and without the tag is an answer as a whole, unless it was cut off or
withheld. Pictures have numbers, `image_0` on: so they are named in messages and bound as variables. Videos are not
shown; code finds their paths in `video_0_path` and so on. This is no published dialect: it promises no wire format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from saccade.dialects.base import (
    Dialect,
    Fault,
    LeftInText,
    Observation,
    Opening,
    join_texts,
    labelled,
    question_parts,
    reject_lost,
    system_message,
    with_notes,
)
from saccade.dialects.boxes import BoxSpace
from saccade.dialects.calls import CallShape, ReadCall, dump_json, read_call
from saccade.dialects.left_calls import LeftCall, left_call
from saccade.dialects.prompt_texts import CORRECTION, LAST, SYSTEM, USER, Prompts
from saccade.dialects.question import TagGuard, question_values
from saccade.dialects.text import blocks, checked
from saccade.models.base import ToolSpec
from saccade.record.content import (
    Action,
    Answer,
    Code,
    ImagePart,
    Message,
    ParseError,
    TextPart,
    ToolCall,
    VideoPart,
    clean_text,
)
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, FinishReason
from saccade.sandbox.base import Limits, SessionOptions

PYTHON = ToolSpec(
    name="python",
    description=(
        "Runs Python code in a notebook that keeps its variables. Returns what is printed, the value of the last "
        "expression, and every picture that is shown (plt.show(), display(picture), or a picture as last expression)."
    ),
    parameters={
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The code of one cell."}},
        "required": ["code"],
        "additionalProperties": False,
    },
)

SYSTEM_PROMPT = """\
You answer questions about pictures. Look closer with the functions where the first look is not enough: cut out and
enlarge, rotate, enhance, measure, count.
Every picture has a name, image_0, image_1 and so on, and Python has a Pillow image under that name.
Think before each call, and make one call at a time. When you are sure, write the answer inside <answer> and </answer>.
"""
OWN = Prompts(
    {
        SYSTEM: SYSTEM_PROMPT,
        USER: "{query}",
        CORRECTION: "{reason} Call one function, or write the answer inside <answer> and </answer>.",
        LAST: "No further call is possible. Write your best answer now, inside <answer> and </answer>.",
    },
    "Saccade's own prompts",
)

_LABEL = "image_"
_CUT_CALL = "The call was cut off by the token limit."
_GUARD = TagGuard((r"tool_call(?:\s[^>]*)?", "answer"))
_CALL_LINE = re.compile(r'<tool_call(?: id=(?P<id>"(?:[^"\\]|\\.)*"))?>(?P<call>\{.*\})</tool_call>')
_SESSION = SessionOptions(preload=("np", "plt", "Image", "cv2"))
_SANDBOX = Limits()
_LIMITS = EpisodeLimits(turns=12, idle_turns=4)


def with_calls(text: str, calls: Sequence[ToolCall]) -> str:
    """Return the canonical text of a turn in which the model wrote `text` and made `calls`."""
    lines = []
    for call in calls:
        identifier = "" if call.call_id is None else f" id={dump_json(call.call_id)}"
        data = {"name": call.name, "arguments": dict(call.arguments)}
        lines.append(f"<tool_call{identifier}>{dump_json(data)}</tool_call>")
    return "\n".join([*([text] if text else []), *lines])


@dataclass(frozen=True, slots=True)
class NativeDialect(Dialect):
    """The dialect; see the module's head."""

    offers_tools: ClassVar[bool] = True
    id: str = "native@1"
    tools: tuple[ToolSpec, ...] = ()
    """Offered next to `python`."""
    stop: tuple[str, ...] = ()
    session: SessionOptions = _SESSION
    sandbox: Limits = _SANDBOX
    limits: EpisodeLimits = _LIMITS
    boxes: BoxSpace = BoxSpace.FULL
    prompts: Prompts = OWN

    @property
    def functions(self) -> tuple[ToolSpec, ...]:
        return (PYTHON, *self.tools)

    def transcribe(self, text: str, calls: Sequence[ToolCall]) -> str:
        return with_calls(text, calls)

    def open(self, task: Task) -> Opening:
        """Return the first messages."""
        pictures = [(item.name, item.part) for item in task.media if isinstance(item.part, ImagePart)]
        videos = [item for item in task.media if isinstance(item.part, VideoPart)]
        paths = {f"video_{number}.{item.part.mime.rpartition('/')[2]}": item.name for number, item in enumerate(videos)}
        paths_text = "".join(f"\nThe path of video {number} is in video_{number}_path." for number in range(len(paths)))
        values = question_values(task)
        text = self.prompts.fill(USER, {**values, "query": values["query"] + paths_text})
        question = question_parts(text, [part for _, part in pictures], _LABEL)
        return Opening(
            messages=(*system_message(self.prompts), Message(role="user", parts=question)),
            bindings={f"{_LABEL}{number}": name for number, (name, _) in enumerate(pictures)},
            files=paths,
            pictures=len(pictures),
            strings={f"video_{number}_path": path for number, path in enumerate(paths)},
        )

    def parse(self, text: str, finish: FinishReason) -> Action:
        """Return the first call at the end of the text, or the answer; else a call that the server left in the text."""
        text = clean_text(text)
        if finish is FinishReason.FILTERED:
            return ParseError(reason="The provider withheld the text.")
        call = _first_of_the_last_calls(text)
        if call is not None and finish is FinishReason.LENGTH:
            return ParseError(reason=_CUT_CALL)
        left = self._left(text)
        if call is not None and not (isinstance(read := _of_line(call), ParseError) and left is not None):
            return read
        answer = next((block.body.strip() for block in reversed(blocks(text, "answer")) if block.closed), None)
        if answer is not None and left is None:
            return Answer(text=answer)
        if left is not None:
            return ParseError(reason=_CUT_CALL) if finish is FinishReason.LENGTH else _action(left.call)
        if finish is FinishReason.LENGTH:
            return ParseError(reason="The text was cut off by the token limit before there was a call or an answer.")
        if "<answer>" in text or not text.strip():
            return ParseError(reason="There is neither a call nor an answer in <answer> and </answer>.")
        return Answer(text=text.strip())

    def left_in_text(self, text: str) -> LeftInText | None:
        """Return which parser of calls the server lacks."""
        left = self._left(clean_text(text))
        return None if left is None else LeftInText(left.note, left.several)

    def _left(self, text: str) -> LeftCall | None:
        """Return the call after the last answer in tags, in whatever form the model's family writes calls."""
        return left_call(text.rpartition("</answer>")[2], self.functions)

    def write(self, action: Action, thought: str = "") -> str:
        """Return the canonical text. Raises ValueError for an action that cannot be said in this dialect."""
        if isinstance(action, Code):
            text = with_calls(thought, (ToolCall(name=PYTHON.name, arguments={"code": action.code}),))
        elif isinstance(action, ToolCall):
            text = with_calls(thought, (action,))
        elif isinstance(action, Answer):
            text = f"{thought}\n<answer>{action.text}</answer>" if thought else f"<answer>{action.text}</answer>"
        else:
            raise ValueError(f"native cannot say an action of kind {action.kind!r}")
        return checked(self, text, action)

    def observe(self, execution: Execution, pictures: int) -> Observation:
        """Return what was printed, the last value, the traceback, and the pictures.

        Raises ValueError for a lost execution.
        """
        reject_lost(execution)
        images = tuple(picture.image for picture in execution.pictures)
        bindings = {f"{_LABEL}{number}": image for number, image in enumerate(images, pictures)}
        printed = [execution.stdout, execution.stderr, execution.value or "", execution.traceback or ""]
        text = with_notes("\n".join(piece.removesuffix("\n") for piece in printed if piece), execution)
        if execution.status is not Status.OK and not execution.traceback:
            text += f"\nThe call ended as {execution.status.value}."
        text = text.strip("\n") or ("" if images else "(nothing was printed or shown)")
        parts = [TextPart(text=_GUARD.escape(text) + "\n" if text else ""), *labelled(images, _LABEL, pictures)]
        return Observation(Message(role="tool", parts=join_texts(parts)), bindings, pictures + len(images))

    def correct(self, reason: str, pictures: int) -> Observation:
        """Return the reason, a sentence of `parse`, and what to do."""
        text = self.prompts.fill(CORRECTION, {"reason": reason})
        return Observation(Message(role="user", parts=(TextPart(text=text),)), {}, pictures)


def _first_of_the_last_calls(text: str) -> re.Match[str] | None:
    """Return the first of the lines of calls that end the text; None if its last line is no call."""
    first = None
    for line in reversed(text.split("\n")):
        match = _CALL_LINE.fullmatch(line)
        if match is None:
            break
        first = match
    return first


def _of_line(line: re.Match[str]) -> Action:
    read = read_call(line["call"], {CallShape.ARGUMENTS})
    if not isinstance(read, ReadCall):
        return ParseError(reason=read.reason)
    return _action(read.call.model_copy(update={"call_id": _identifier(line["id"])}))


def _action(call: ToolCall | Fault) -> Action:
    if isinstance(call, Fault):
        return ParseError(reason=call.reason)
    if call.name != PYTHON.name:
        return call
    code = call.arguments.get("code")
    if not isinstance(code, str) or len(call.arguments) != 1 or not code.strip():
        return ParseError(reason='The function python takes one argument, "code", a text that is not empty.')
    return Code(code=code)


def _identifier(text: str | None) -> str | None:
    """Return the id that the JSON string `text` holds; None without one, or if it is not JSON."""
    try:
        return None if text is None else clean_text(json.loads(text))
    except ValueError:
        return None


PRESETS: Mapping[str, NativeDialect] = MappingProxyType({"": NativeDialect()})
