"""CodeDance: fenced Python, results as tool responses, pictures wherever the program shows them.

Presets: `paper` (the default: a failed call is rolled back, as the paper says) and `repo` (a failed call clears the
session, as the released code does). In both 6 turns and 15 seconds a call; evaluation takes 10 turns in the paper, 7
turns and 30 seconds in the code: settings of the run.

Kept exactly: the first Python fence of a turn is run, in code tags or not, else a JSON call of `execute_python_code`;
`input_image` and the file `input_image.jpg`, with `input_image_path`; the tool response and, in it, the blocks for
printed text, warnings, pictures and errors, with nothing between them but what is written here; last expressions,
`display`, `plt.show` and `Image.show` show pictures, saved files do not. Further pictures of a task are
`input_image_1` and so on. The sentence that ends a result is `reminder` in a prompt file. The response has the user's
role, which is how the published chat template renders it.

Not kept, on purpose (what the released code does, and what happens here):
- code that prints and shows nothing gets no word about that: here it is told so;
- a time-out can be swallowed by the program, and one of a hung worker counts as success: here it is a typed status;
- trajectories share one interpreter and its folders: here each has its own;
- any 2 x 3 array of numbers is returned as a picture: here what the sandbox takes for one;
- small pictures are enlarged and odd ones dropped without a word: here the sandbox says what it drops;
- `exit()` is reported as a success: here it is an error;
- the picture is saved as JPEG after a resize: here the file has its own bytes and full size;
- a turn with neither code nor answer is dropped and the same prompt sent again: here the model is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from saccade.dialects.base import (
    Dialect,
    Observation,
    Opening,
    failure,
    join_texts,
    question_parts,
    reject_lost,
    shown,
    system_message,
)
from saccade.dialects.prompt_texts import CORRECTION, LAST, REMINDER, SYSTEM, USER, Prompts
from saccade.dialects.question import TagGuard, pictures_of, question_values
from saccade.dialects.text import CUT, answers_in, blocks, checked, fenced_code, tagged_code, was_cut
from saccade.record.content import Action, Answer, Code, Message, ParseError, Part, TextPart, clean_text
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, FinishReason
from saccade.sandbox.base import Limits, SessionOptions, StatePolicy

GUARD = TagGuard(("think", "code", "answer", "tool_call", "tool_response", "image"))
TOOL = "execute_python_code"
SOURCES = ("figure", "show", "display", "value")
_SYSTEM = (
    "You answer questions about pictures. You may write Python, which a sandbox runs for you: the picture is there as "
    "the PIL image `input_image` and as the file 'input_image.jpg' in the working folder (further pictures as "
    "`input_image_1` and 'input_image_1.jpg', and so on). Print what you want to read, and end with an image, display "
    "it or use plt.show() when you want to see it. The results come back as a tool response."
)
OWN = Prompts(
    {
        SYSTEM: _SYSTEM,
        CORRECTION: "Error: {reason}",
        LAST: "No more code can be run. Think about what you have seen and give your final answer in "
        "<answer></answer>.",
        USER: "{query}\nThink step by step inside <think></think>. Where it helps, write Python that looks closer or "
        "computes; give each piece of code as <code>\n```python\nyour code\n```\n</code>. Give the final answer in "
        "<answer></answer>.",
        REMINDER: "\nThink about what the tool has shown, then go on or answer.",
    },
    "Saccade's own prompts",
)
_NO_ACTION = (
    "Your text holds neither code nor an answer. Write code as <code>\n```python\nyour code\n```\n</code>, "
    "or the final answer in <answer></answer>."
)


@dataclass(frozen=True, slots=True)
class CodeDanceDialect(Dialect):
    """The dialect of CodeDance; see the module."""

    id: str
    session: SessionOptions
    prompts: Prompts = OWN
    stop: tuple[str, ...] = ()
    sandbox: Limits = field(default_factory=lambda: Limits(wall_seconds=15, cpu_seconds=15))
    limits: EpisodeLimits = field(default_factory=lambda: EpisodeLimits(turns=6))

    def open(self, task: Task) -> Opening:
        """Return a system and a user message, pictures first. Raises `SettingsError` for a task with a video."""
        named = pictures_of(task, self.id)
        variables = ["input_image" + (f"_{number}" if number else "") for number in range(len(named))]
        size = {"width": str(named[0][1].width), "height": str(named[0][1].height)} if named else {}
        text = self.prompts.fill(USER, {**question_values(task), **size})
        bindings = {variable: name for variable, (name, _) in zip(variables, named, strict=True)}
        return Opening(
            messages=(
                *system_message(self.prompts),
                Message(role="user", parts=question_parts(text, [image for _, image in named])),
            ),
            bindings=bindings,
            files={f"{variable}.jpg": name for variable, name in bindings.items()},
            pictures=len(named),
            strings={f"{variable}_path": f"{variable}.jpg" for variable in variables},
        )

    def parse(self, text: str, finish: FinishReason) -> Action:
        """Return the first Python fence; else code in tags, or in a JSON call; else the last answer."""
        text = clean_text(text)
        code = fenced_code(text, finish, last=False) or tagged_code(text, finish, last=False) or _called(text)
        if code is not None:
            return code
        answers = answers_in(text)
        if answers and answers[-1]:
            return Answer(text=answers[-1])
        return ParseError(reason=CUT if was_cut(finish) else _NO_ACTION)

    def write(self, action: Action, thought: str = "") -> str:
        """Return the thought in its tags, then fenced code in code tags, or the answer in answer tags."""
        before = f"<think>{thought}</think>\n"
        match action:
            case Code(code=code):
                return checked(self, f"{before}<code>\n```python\n{code}\n```\n</code>", action)
            case Answer(text=text):
                return checked(self, f"{before}<answer>{text}</answer>", action)
        raise ValueError(f"an action of kind {action.kind} cannot be said in {self.id}")

    def observe(self, execution: Execution, pictures: int) -> Observation:
        """Return a tool response with all that came back, in the user's role."""
        reject_lost(execution)
        printed, warned = execution.stdout.strip(), execution.stderr.strip()
        if execution.status is not Status.OK:
            found = failure(execution)
            before = f"Output before error:\n{printed}" if printed else ""
            after = f"\n\nStderr output:\n{warned}" if warned else ""
            error = f"--- Execution Error ({found.kind}) ---\n{found.message}{after}"
            return _response((TextPart(text=GUARD.escape(before + error)),), pictures)
        images = shown(execution, SOURCES)
        text = f"Code execution successful, output:\n{printed}" if printed else ""
        text += f"Stderr output:\n```\n{warned}\n```" if warned else ""
        text = "\n".join([*([text] if text else []), *execution.notes])
        if not text and not images:
            text = "Code execution successful, but it printed and showed nothing."
        parts: list[Part] = [TextPart(text=GUARD.escape(text))]
        for image in images:
            parts += [TextPart(text="Output image:"), image]
        return _response((*parts, TextPart(text=self.prompts.fill(REMINDER))), pictures + len(images))

    def correct(self, reason: str, pictures: int) -> Observation | None:
        return _response((TextPart(text=self.prompts.fill(CORRECTION, {"reason": reason})),), pictures)

    def ask_for_answer(self) -> Message | None:
        return _message((TextPart(text=self.prompts.fill(LAST)),))


def _called(text: str) -> Code | None:
    """Return the code of the first JSON call of the Python tool, or None."""
    for block in blocks(text, "tool_call"):
        try:
            call = json.loads(block.body)
        except (ValueError, RecursionError):
            continue
        if isinstance(call, dict) and call.get("name") == TOOL and isinstance(call.get("arguments"), dict):
            code = call["arguments"].get("code")
            if isinstance(code, str) and code.strip():
                return Code(code=clean_text(code))
    return None


def _response(parts: tuple[Part, ...], pictures: int) -> Observation:
    return Observation(_message(parts), {}, pictures)


def _message(parts: tuple[Part, ...]) -> Message:
    inside = (TextPart(text="<tool_response>\n"), *parts, TextPart(text="\n</tool_response>"))
    return Message(role="user", parts=join_texts(inside))


PRESETS: Mapping[str, Dialect] = {
    "paper": CodeDanceDialect("codedance@1:paper", SessionOptions(state=StatePolicy.ROLLBACK)),
    "repo": CodeDanceDialect("codedance@1:repo", SessionOptions(state=StatePolicy.CLEAR)),
}
