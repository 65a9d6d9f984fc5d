"""Write the requests to the models of the two-model recipes, and read their replies strictly.

A text that does not follow the asked form exactly gives a `DiscardedError` of kind `invalid output`; nothing of it is
used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from saccade.dialects.base import Opening
from saccade.dialects.question import question_text
from saccade.record.task import Task
from saccade.rewards.judges.prompt import JudgePrompt, judge_prompt
from saccade.training.sft.synth.made import DiscardedError

LONGEST_THOUGHT = 6000
"""Characters."""

RecipeText = Literal["reason", "codify", "conclude", "densify", "question"]
_OWN: Final[Mapping[RecipeText, str]] = {
    "reason": """\
Answer the question about the pictures. You have no tools: reason in words, step by step, with every calculation, \
measurement and comparison written out.""",
    "codify": """\
Below is how the question was reasoned about in words. Turn the reasoning into steps in which code does the work: \
wherever something is counted, measured, compared, cut out or calculated, write Python that does it and prints or \
shows the result. Where nothing is to be run, keep the words of the reasoning: they are the thoughts of the steps. Do \
not write results into the code, and do not answer yet: the steps will be run, and you \
will see what really comes back.""",
    "conclude": """\
Your steps were run; the conversation above holds what really came back. Where it differs from the reasoning, what \
came back is right.""",
    "densify": """\
Below is how an agent answered a question about the pictures: its turns with what it thought, what it did and what \
came back. Its thoughts are too thin to learn from. Write each of them again.

- Say what is known so far, what is still missing, and why this very action is the next step.
- Use only what could be seen before the turn; never hint at results that come later.
- Keep every action as it is: you write thoughts only, no code, no calls, no tags but those below.""",
    "question": """\
Write questions about the picture above ({width} pixels wide, {height} high) that cannot be answered by a glance: \
about lettering, counts, colours, positions and relations of things that are small or partly hidden. At most {most}, \
fewer if the picture gives less, none if it gives nothing.

Each question has exactly one right answer, a word, a number or a short phrase, that the picture itself shows and that \
needs no other knowledge. Do not say in the question where to look.""",
}
_FORMS: Final[Mapping[RecipeText, str]] = {
    "reason": """\
Write nothing but:
<reasoning>...</reasoning>
<answer>...</answer>
""",
    "codify": """\
Write nothing but one or more blocks of this form:
<step>
<thought>why this step, in a few sentences</thought>
<code>Python, without a fence</code>
</step>
""",
    "conclude": """\
Give the last thought and the answer, and write nothing but:
<thought>...</thought>
<answer>...</answer>
""",
    "densify": """\
Write nothing but one block for each turn, in order, numbered as below:
<thought turn="1">...</thought>
""",
    "question": """\
Reply with a JSON array and nothing else, an empty one for no question. Each entry:
{"question": "...", "answer": "...", "choices": ["...", "..."], "bbox_2d": [left, top, right, bottom]}
`choices` is left out or holds the answer and wrong ones; `bbox_2d` is the region that shows the answer, in pixels \
from the upper left corner.
""",
}
"""How a reply is to be written; it is added to every text."""
_FIELDS: Final[Mapping[RecipeText, tuple[str, ...]]] = {"question": ("width", "height", "most")}
TEXTS_OF: Final[Mapping[str, tuple[RecipeText, ...]]] = {
    "reason": ("reason",),
    "codify": ("reason", "codify", "conclude"),
    "densify": ("densify",),
    "rewrite": ("densify",),
    "question": ("question",),
}
"""The texts of each recipe that asks in its own words."""


@dataclass(frozen=True, slots=True)
class RecipeTexts:
    """The texts of the recipes, a user's files in place of Saccade's own."""

    prompts: Mapping[str, JudgePrompt]

    def text(self, name: RecipeText, **values: str) -> str:
        """Return a text with its fields filled in, and the form of the reply."""
        return f"{self.prompts[name].fill(values).rstrip()}\n\n{_FORMS[name]}"


def recipe_texts(files: Mapping[RecipeText, str]) -> RecipeTexts:
    """Read the `files` of texts, by their names.

    Raises `PromptFileError`: one cannot be read, or has a field that cannot be filled in.
    """
    return RecipeTexts(
        {name: judge_prompt(files.get(name, ""), own, (), _FIELDS.get(name, ())) for name, own in _OWN.items()}
    )


_THOUGHT = re.compile(r'<thought turn="(\d+)">(.*?)</thought>', re.DOTALL)
_REASONED = re.compile(r"\s*<reasoning>(?P<first>.*?)</reasoning>\s*<answer>(?P<answer>.*?)</answer>\s*", re.DOTALL)
_CONCLUDED = re.compile(r"\s*<thought>(?P<first>.*?)</thought>\s*<answer>(?P<answer>.*?)</answer>\s*", re.DOTALL)
_STEP = re.compile(r"<step>\s*<thought>(.*?)</thought>\s*<code>(.*?)</code>\s*</step>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CodeStep:
    """A thought and the code that follows from it."""

    thought: str
    code: str


def thoughts_in(text: str, count: int) -> tuple[str, ...]:
    """Return the rewritten thoughts of all `count` turns."""
    thoughts = _THOUGHT.findall(text)
    if _THOUGHT.sub("", text).strip():
        raise invalid("text outside of the thoughts")
    if [int(number) for number, _ in thoughts] != list(range(1, count + 1)):
        raise invalid(f"thoughts of turns {[int(number) for number, _ in thoughts]}, not of 1 to {count}")
    return tuple(_inside(thought) for _, thought in thoughts)


def reasoning_in(text: str) -> tuple[str, str]:
    """Return the reasoning in words, and its answer."""
    return _pair(_REASONED, text)


def conclusion_in(text: str) -> tuple[str, str]:
    """Return the last thought and the answer."""
    return _pair(_CONCLUDED, text)


def steps_in(text: str) -> tuple[CodeStep, ...]:
    """Return the steps; at least one."""
    steps = _STEP.findall(text)
    if not steps or _STEP.sub("", text).strip():
        raise invalid("no step" if not steps else "text outside of the steps")
    return tuple(CodeStep(_inside(thought), _code(code)) for thought, code in steps)


def names_of(opening: Opening) -> str:
    """Describe the variables and functions that code finds in the sandbox."""
    bound = [f"`{variable}`: {name}" for variable, name in opening.bindings.items()]
    files = [f"the file '{path}': {name}" for path, name in opening.files.items()]
    texts = [f"`{variable}`: the text '{text}'" for variable, text in opening.strings.items()]
    return "Code finds: " + "; ".join([*bound, *files, *texts]) + ". Pictures that are bound are Pillow images."


def question_of(task: Task) -> str:
    """Return the question as both models read it."""
    return f"Question: {question_text(task)}"


def invalid(why: str) -> DiscardedError:
    """Return the error for output that does not follow the asked form."""
    return DiscardedError("invalid output", why)


def _pair(form: re.Pattern[str], text: str) -> tuple[str, str]:
    match = form.fullmatch(text)
    if match is None:
        raise invalid("the text does not have the two blocks that were asked for, and nothing else")
    return _inside(match["first"]), _inside(match["answer"])


def _inside(
    body: str, forbidden: Sequence[str] = ("<thought", "<code", "<answer", "<step", "<tool_call", "```")
) -> str:
    stripped = body.strip()
    if not stripped or len(stripped) > LONGEST_THOUGHT:
        raise invalid("a block is empty" if not stripped else f"a block has more than {LONGEST_THOUGHT} characters")
    if any(mark in stripped for mark in forbidden):
        raise invalid("a block holds tags or a fence")
    return stripped


def _code(body: str) -> str:
    code = body.strip("\n").rstrip()
    if "```" in code or "<code>" in code or not code.strip():
        raise invalid("a step's code is empty, fenced or nested")
    try:
        compile(code, "<step>", "exec")
    except (SyntaxError, ValueError) as error:
        raise invalid(f"a step's code is no Python: {error}") from error
    return code
