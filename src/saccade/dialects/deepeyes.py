"""`deepeyes`: a typed call of a zoom tool in `<tool_call>`, the cut-out back in `<tool_response>`.

`bbox_2d` counts in pixels of the task's first picture as it is shown, and is cut out of that picture at its full size
(`boxes` says so of a model that counts otherwise): the call names no picture, and a cut-out is never cut again. Role
`user` brings the response; an error comes bare, `Error: ...`, without the wrapper.
Presets differ in which of several calls in one turn is run: `train` the last, `eval` the first.

Not reproduced of the released code: an answer or a call inside a closed thought counts only if there is none outside;
the schema requires `bbox_2d` (theirs asks for `bbox`, which their tool refuses; both are read here); a text without a
call or an answer is told so and does not end the episode; nothing evaluates model text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Final, Literal, Self, cast

from saccade.dialects.base import (
    Dialect,
    Observation,
    Opening,
    failure,
    join_texts,
    question_parts,
    reject_lost,
    system_message,
    with_notes,
)
from saccade.dialects.boxes import SENTENCES, BoxSpace
from saccade.dialects.calls import CallShape, ReadCall, listed, read_call, write_call
from saccade.dialects.prompt_texts import CORRECTION, REMINDER, SYSTEM, TOOL, USER, Prompts, as_written
from saccade.dialects.question import TagGuard, pictures_of, question_values
from saccade.dialects.text import answers_in, blocks, checked, outside_thoughts
from saccade.models.base import ToolSpec
from saccade.record.content import Action, Answer, Message, ParseError, Part, TextPart, ToolCall, clean_text
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, FinishReason
from saccade.sandbox.base import Limits, SessionOptions

ZOOM_BOX: Final[Mapping[str, object]] = {
    "type": "array",
    "items": {"type": "number"},
    "minItems": 4,
    "maxItems": 4,
    "description": "The box as [x1, y1, x2, y2] in pixels of the picture: left, top, right, bottom.",
}
ZOOM = ToolSpec(
    name="image_zoom_in_tool",
    description="Cuts a box out of the picture, so that small things in it can be seen.",
    parameters={
        "type": "object",
        "properties": {
            "bbox_2d": dict(ZOOM_BOX),
            "label": {"type": "string", "description": "What is looked for in the box."},
        },
        "required": ["bbox_2d"],
    },
)

USER_PROMPT = (
    "\nThink in <think>...</think>. Then call **image_zoom_in_tool** in <tool_call>...</tool_call> if you must look "
    "closer, or answer in <answer>...</answer>."
)

_CALLING = """\
</tools>

A call is a JSON object with the function's name and its arguments:
<tool_call>
{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [x1, y1, x2, y2], "label": "..."}}
</tool_call>"""
OWN = Prompts(
    {
        SYSTEM: "You answer questions about a picture and may look closer at parts of it.\n\n"
        "# Tools\nThese functions can be called; each line is one JSON Schema:\n<tools>\n{tools}\n"
        + as_written(_CALLING, ()),
        USER: "{query}",
        REMINDER: USER_PROMPT,
        TOOL: "{function}",
        CORRECTION: "Error: {reason}",
    },
    "Saccade's own prompts",
)
"""The reminder follows the question, and each result."""

_GUARD = TagGuard(("think", "tool_call", "tool_response", "tools", "answer", "image"))
_SESSION = SessionOptions()
_SANDBOX = Limits()
_LIMITS = EpisodeLimits(turns=5, images=32, response_tokens=20_480)


@dataclass(frozen=True, slots=True)
class DeepEyesDialect(Dialect):
    """The dialect; see the module's head."""

    offers_tools: ClassVar[bool] = True
    id: str = "deepeyes@1"
    runs: Literal["first", "last"] = "last"
    """Which call is run if one turn holds several."""
    tools: tuple[ToolSpec, ...] = (ZOOM,)
    """Offered in the system prompt."""
    prompts: Prompts = OWN
    stop: tuple[str, ...] = ()
    session: SessionOptions = _SESSION
    sandbox: Limits = _SANDBOX
    limits: EpisodeLimits = _LIMITS
    boxes: BoxSpace = BoxSpace.SHOWN

    def open(self, task: Task) -> Opening:
        """Return the first messages. Raises `SettingsError` for a task with a video."""
        pictures = pictures_of(task, self.id)
        text = self.prompts.fill(USER, question_values(task))
        question = question_parts(text, [part for _, part in pictures])
        reminder = TextPart(text=self.prompts.fill(REMINDER))
        return Opening(
            messages=(
                *system_message(self.prompts, listed(self.tools, self.prompts)),
                Message(role="user", parts=join_texts([*question, reminder])),
            ),
            bindings={f"image_{number}": name for number, (name, _) in enumerate(pictures)},
            files={},
            pictures=len(pictures),
        )

    def with_boxes(self, boxes: BoxSpace) -> Self:
        """Return the same dialect for a model whose boxes count that; the description of the zoom says so."""
        if boxes is self.boxes:
            return self
        bbox = {**ZOOM_BOX, "description": f"The box as [x1, y1, x2, y2]: left, top, right, bottom. {SENTENCES[boxes]}"}
        properties = {**cast(dict[str, object], ZOOM.parameters["properties"]), "bbox_2d": bbox}
        zoom = replace(ZOOM, parameters={**ZOOM.parameters, "properties": properties})
        return replace(self, boxes=boxes, tools=tuple(zoom if tool == ZOOM else tool for tool in self.tools))

    def parse(self, text: str, finish: FinishReason) -> Action:
        """Return an answer that is not empty wins; else the first or last call; else a parse error."""
        outside = outside_thoughts(clean_text(text))
        answers = answers_in(outside)
        answer = next(filter(None, answers), None)
        if answer is not None:
            return Answer(text=answer)
        calls = blocks(outside, "tool_call")
        cut = [tag for tag in ("answer", "tool_call") if any(not block.closed for block in blocks(outside, tag))]
        if cut and (finish is FinishReason.LENGTH or self.runs == "last" or not calls or not calls[0].closed):
            return ParseError(reason=f"<{cut[0]}> is never closed with </{cut[0]}>.")
        if not calls:
            return ParseError(reason="There is neither a call in <tool_call> nor an answer in <answer>.")
        read = read_call(calls[-1 if self.runs == "last" else 0].body)
        return _named_box(read.call) if isinstance(read, ReadCall) else ParseError(reason=read.reason)

    def call_shape(self, text: str) -> str:
        """Return the shape of the call that counts; empty if there is none that can be read."""
        calls = blocks(outside_thoughts(clean_text(text)), "tool_call")
        read = read_call(calls[-1 if self.runs == "last" else 0].body) if calls else None
        return str(read.shape) if isinstance(read, ReadCall) else ""

    def write(self, action: Action, thought: str = "") -> str:
        """Return the canonical text. Raises ValueError for an action that cannot be said in this dialect."""
        opening = f"<think>{thought}</think>\n" if thought else ""
        if isinstance(action, ToolCall):
            text = f"{opening}<tool_call>\n{write_call(action, CallShape.ARGUMENTS)}\n</tool_call>"
        elif isinstance(action, Answer):
            text = f"{opening}<answer>{action.text}</answer>"
        else:
            raise ValueError(f"deepeyes cannot say an action of kind {action.kind!r}; it knows tool calls and answers")
        return checked(self, text, action)

    def observe(self, execution: Execution, pictures: int) -> Observation:
        """Return the cut-out in its wrapper, or the bare error. Raises ValueError for a lost execution."""
        reject_lost(execution)
        if execution.status is not Status.OK:
            return self._error(f"Error: {_GUARD.escape(failure(execution).message)}", pictures)
        images = tuple(picture.image for picture in execution.pictures)
        text = "" if images else execution.value or execution.stdout
        result = _GUARD.escape(with_notes(text, execution)).removesuffix("\n")
        ending = f"{result}{self.prompts.fill(REMINDER)}</tool_response>"
        parts: tuple[Part, ...] = (TextPart(text="<tool_response>"), *images, TextPart(text=ending))
        return Observation(Message(role="user", parts=join_texts(parts)), {}, pictures + len(images))

    def correct(self, reason: str, pictures: int) -> Observation:
        """Return the error as a bare text; `reason` is a sentence of `parse`."""
        return self._error(self.prompts.fill(CORRECTION, {"reason": reason}), pictures)

    def _error(self, text: str, pictures: int) -> Observation:
        return Observation(Message(role="user", parts=(TextPart(text=text),)), {}, pictures)


def _named_box(call: ToolCall) -> ToolCall:
    """Return the call with its box under the name `bbox_2d`, for one that says `bbox`."""
    if call.name != ZOOM.name or "bbox" not in call.arguments or "bbox_2d" in call.arguments:
        return call
    renamed = {"bbox_2d" if key == "bbox" else key: value for key, value in call.arguments.items()}
    return call.model_copy(update={"arguments": renamed})


PRESETS: Mapping[str, DeepEyesDialect] = MappingProxyType(
    {
        "train": DeepEyesDialect(),
        "eval": DeepEyesDialect(id="deepeyes@1:eval", runs="first", limits=EpisodeLimits(turns=11, images=32)),
    }
)
