"""`vista`: each turn thinks and then makes one typed tool call or gives the answer.

    <think>...</think><tool_call>{"tool": "...", "task": "..."}</tool_call>
    <think>...</think><answer>...</answer>

Every published shape of a call is read (see `calls`), names that published code gives to one tool lead to the tool that
is offered. A call that is no JSON for a full stop after it or for LaTeX's single backslashes, as the paper prints its
own, is read and has a fault. `faults` lists what is wrong with the form of a turn (E1 of the paper's errors), also
where the turn was understood all the same; a `strict` dialect takes no turn with a fault. Tools are data:
`replace(dialect, tools=...)`; the prompt has a short line for each, and a prompt file can ask for the whole schema.
Pictures have numbers, `image_0` on, under which tools find them.

Presets: `paper` (flat calls, results in an `output` fence, three turns, a call next to an answer is a fault) and `repo`
(the released environment: `parameters`, results without a wrapper, ten turns, a call next to an answer wins), and
`tools-only` (the paper's ablation: the same without thoughts; its other one, thoughts only, is the dialect `direct`).
Not reproduced: text without tags taken for an answer, gold answers in feedback, cut-outs that the model never sees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from saccade.dialects.base import (
    Dialect,
    Fault,
    FaultKind,
    Observation,
    Opening,
    ends_inside,
    failure,
    find_tag_faults,
    join_texts,
    labelled,
    question_parts,
    reject_lost,
    system_message,
    with_notes,
)
from saccade.dialects.boxes import BoxSpace
from saccade.dialects.calls import ALL_SHAPES, SHORT, CallShape, ReadCall, listed, read_call, resolve_name, write_call
from saccade.dialects.prompt_texts import CORRECTION, LAST, SYSTEM, TOOL, USER, Prompts, as_written
from saccade.dialects.question import TagGuard, pictures_of, question_values
from saccade.dialects.text import answers_in, checked, outside_thoughts
from saccade.models.base import ToolSpec
from saccade.record.content import Action, Answer, Message, ParseError, TextPart, ToolCall, clean_text
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, FinishReason
from saccade.sandbox.base import Limits, SessionOptions

_TAGS = ("think", "tool_call", "answer")
_GUARD = TagGuard((*_TAGS, "image"))
_CALL = re.compile(r"<tool_call>(.*?)</?tool_call>", re.DOTALL)
_LABEL = "image_"
_SESSION = SessionOptions()
_SANDBOX = Limits()
_LIMITS = EpisodeLimits(turns=3)
_SYSTEM = """\
You answer questions about pictures with the help of tools.

{begins}
1. It calls a tool in <tool_call> and </tool_call>, as JSON: {call}.
2. It answers in <answer> and </answer>.
Never do both in one turn. Use a fitting tool before you answer, and rest the answer on what it returned.
Pictures are named image_0, image_1 and so on.

Tools (a question mark follows what may be left out; a box is [left, top, right, bottom]):
"""


def own_prompts(shape: CallShape = CallShape.FLAT, *, thinks: bool = True) -> Prompts:
    """Return Saccade's own texts, for calls in that shape and turns with or without thoughts."""
    begins = (
        "Every turn opens with your thoughts in <think> and </think> and then does one of two things:"
        if thinks
        else "Every turn does one of two things, without any thoughts or other text before it:"
    )
    call = {
        CallShape.FLAT: '{"tool": "NAME", "ARGUMENT": VALUE, ...}',
        CallShape.PARAMETERS: '{"tool": "NAME", "parameters": {"ARGUMENT": VALUE, ...}}',
    }.get(shape, '{"name": "NAME", "arguments": {"ARGUMENT": VALUE, ...}}')
    form = "Think in <think>, then write" if thinks else "Write"
    return Prompts(
        {
            SYSTEM: as_written(_SYSTEM.format(begins=begins, call=call), ()) + "{tools}",
            USER: "{query}",
            TOOL: SHORT,
            CORRECTION: f"Error: {{reason}} {form} one <tool_call> or one <answer>.",
            LAST: "No further tool call is possible. Answer now, with what you have seen, in <answer> and </answer>.",
        },
        "Saccade's own prompts",
    )


@dataclass(frozen=True, slots=True)
class VistaDialect(Dialect):
    """The dialect; see the module's head."""

    offers_tools: ClassVar[bool] = True
    id: str = "vista@1"
    tools: tuple[ToolSpec, ...] = ()
    """Offered in the system prompt."""
    prompts: Prompts = field(default_factory=own_prompts)
    shapes: tuple[CallShape, ...] = (CallShape.FLAT, CallShape.PARAMETERS)
    """How calls are written: the first of them that can hold the call. A strict dialect reads only these."""
    strict: bool = False
    call_beside_answer: bool = False
    """Whether a call is run although the turn answers too; otherwise that is a parse error."""
    thinks: bool = True
    """Whether turns open with a thought; without, `write` leaves it out."""
    fenced: bool = True
    """Whether results stand in an `output` fence."""
    stop: tuple[str, ...] = ("</tool_call>", "</answer>")
    session: SessionOptions = _SESSION
    sandbox: Limits = _SANDBOX
    limits: EpisodeLimits = _LIMITS
    boxes: BoxSpace = BoxSpace.FULL

    def open(self, task: Task) -> Opening:
        """Return the first messages. Raises `SettingsError` for a task with a video."""
        pictures = pictures_of(task, self.id)
        text = self.prompts.fill(USER, question_values(task))
        question = question_parts(text, [part for _, part in pictures], _LABEL)
        system = system_message(self.prompts, listed(self.tools, self.prompts))
        return Opening(
            messages=(*system, Message(role="user", parts=question)),
            bindings={f"{_LABEL}{number}": name for number, (name, _) in enumerate(pictures)},
            files={},
            pictures=len(pictures),
        )

    def parse(self, text: str, finish: FinishReason) -> Action:
        """Return the first call, or the first answer; in a strict dialect only of a turn without faults."""
        action, faults = self._read(text, finish)
        return ParseError(reason=faults[0].reason) if self.strict and faults else action

    def faults(self, text: str, finish: FinishReason = FinishReason.STOP) -> tuple[Fault, ...]:
        """Return everything that is wrong with the form of a turn; empty for one that is exactly as it should be."""
        return self._read(text, finish)[1]

    def call_shape(self, text: str) -> str:
        """Return the shape of the first call; empty if there is none that can be read."""
        body = next(iter(_CALL.findall(outside_thoughts(clean_text(text)))), None)
        read = None if body is None else read_call(body)
        return str(read.shape) if isinstance(read, ReadCall) else ""

    def write(self, action: Action, thought: str = "") -> str:
        """Return the canonical text. Raises ValueError for an action that cannot be said in this dialect."""
        opening = f"<think>{thought}</think>" if self.thinks else ""
        if isinstance(action, ToolCall):
            text = f"{opening}<tool_call>{self._call_text(action)}</tool_call>"
        elif isinstance(action, Answer):
            text = f"{opening}<answer>{action.text}</answer>"
        else:
            raise ValueError(f"vista cannot say an action of kind {action.kind!r}; it knows tool calls and answers")
        return checked(self, text, action)

    def observe(self, execution: Execution, pictures: int) -> Observation:
        """Return what the tool returned and its pictures with their numbers. Raises ValueError for a lost execution."""
        reject_lost(execution)
        text = with_notes("".join(filter(None, (execution.stdout, execution.stderr, execution.value))), execution)
        if execution.status is not Status.OK:
            text += ("\n" if text and not text.endswith("\n") else "") + f"Error: {failure(execution).message}"
        images = tuple(picture.image for picture in execution.pictures)
        parts = [TextPart(text=self._result(_GUARD.escape(text))), *labelled(images, _LABEL, pictures)]
        bindings = {f"{_LABEL}{number}": image for number, image in enumerate(images, pictures)}
        return Observation(Message(role="user", parts=join_texts(parts)), bindings, pictures + len(images))

    def correct(self, reason: str, pictures: int) -> Observation:
        text = self._result(self.prompts.fill(CORRECTION, {"reason": reason}))
        return Observation(Message(role="user", parts=(TextPart(text=text),)), {}, pictures)

    def _read(self, text: str, finish: FinishReason) -> tuple[Action, tuple[Fault, ...]]:
        text = clean_text(text)
        faults = list(find_tag_faults(text, _TAGS))
        outside = outside_thoughts(text)
        calls = _CALL.findall(outside)
        answers = answers_in(outside)
        if len(calls) > 1:
            faults.append(Fault(FaultKind.SEVERAL_CALLS, "One turn makes one tool call, and this one makes several."))
        if calls and answers:
            both = Fault(FaultKind.CALL_AND_ANSWER, "A turn either calls a tool or answers, and this one does both.")
            faults.append(both)
            if not self.call_beside_answer:
                return ParseError(reason=both.reason), tuple(faults)
        cut = ends_inside(outside, ("tool_call", "answer")) if finish is FinishReason.LENGTH else None
        if cut is not None:
            truncated = Fault(FaultKind.TRUNCATED, f"The token limit came inside <{cut}>.")
            return ParseError(reason=truncated.reason), (*faults, truncated)
        if calls:
            call, fault = self._call(calls[0])
            return call, (*faults, *([fault] if fault else []))
        if answers:
            return Answer(text=answers[0]), tuple(faults)
        fault = _nothing(outside, finish)
        return ParseError(reason=fault.reason), (*faults, fault)

    def _call(self, body: str) -> tuple[Action, Fault | None]:
        read = read_call(body, self.shapes if self.strict else ALL_SHAPES)
        fault = None
        if isinstance(read, Fault) and read.kind is FaultKind.NOT_JSON and not self.strict:
            whole = body.strip().removesuffix(".")
            mended = next((r for text in (whole, _mended(whole)) if isinstance(r := read_call(text), ReadCall)), None)
            fault, read = (None, read) if mended is None else (read, mended)
        if not isinstance(read, ReadCall):
            return ParseError(reason=read.reason), read
        name = resolve_name(read.call.name, [tool.name for tool in self.tools])
        return read.call.model_copy(update={"name": name}), fault

    def _call_text(self, call: ToolCall) -> str:
        for shape in self.shapes[:-1]:
            try:
                return write_call(call, shape)
            except ValueError:
                continue  # a later shape may hold it
        return write_call(call, self.shapes[-1])

    def _result(self, text: str) -> str:
        if not self.fenced:
            return text if not text or text.endswith("\n") else text + "\n"
        body = re.sub(r"^([ \t]*)```", r"\1\\```", text.removesuffix("\n"), flags=re.MULTILINE)
        return f"```output\n{body}\n```\n"


def _mended(body: str) -> str:
    r"""Return a call in which LaTeX's single backslashes stand for themselves, also in `\frac` and `\times`."""
    return re.sub(r"(?<!\\)((?:\\\\)*)\\(?=[A-Za-z({}\[\]),;:!%$&# ])", r"\1\\\\", body)


def _nothing(text: str, finish: FinishReason) -> Fault:
    for tag in ("tool_call", "answer"):
        if f"<{tag}>" in text:
            return Fault(
                FaultKind.TRUNCATED, f"<{tag}> is never closed with </{tag}>, so what it holds may be cut off."
            )
    if finish is FinishReason.LENGTH:
        return Fault(FaultKind.TRUNCATED, "The token limit came before there was a tool call or an answer.")
    return Fault(FaultKind.NO_ACTION, "There is neither a call in <tool_call> nor an answer in <answer>.")


PRESETS: Mapping[str, VistaDialect] = MappingProxyType(
    {
        "paper": VistaDialect(),
        "repo": VistaDialect(
            id="vista@1:repo",
            prompts=own_prompts(CallShape.PARAMETERS),
            shapes=(CallShape.PARAMETERS,),
            call_beside_answer=True,
            fenced=False,
            limits=EpisodeLimits(turns=10),
        ),
        "tools-only": VistaDialect(id="vista@1:tools-only", prompts=own_prompts(thinks=False), thinks=False),
    }
)
