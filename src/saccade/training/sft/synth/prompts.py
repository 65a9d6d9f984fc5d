"""Write the requests to the models of the two-model recipes, estimate their cost, and read the replies strictly.

A text that does not follow the asked form exactly gives a `DiscardedError` of kind `invalid output`; nothing of it is
used.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Final, Literal, TypeVar

from saccade.dialects.base import Opening
from saccade.dialects.question import question_text
from saccade.errors import SaccadeError
from saccade.grading.registry import scored_by_rule
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.models.hosted import HostedModel
from saccade.record.content import ImagePart, MediaPart
from saccade.record.task import Task
from saccade.record.trajectory import CORRECT, Trajectory
from saccade.rewards.judges.prompt import JudgePrompt, judge_prompt
from saccade.rewards.reward import ExactMatch


@dataclass(frozen=True, slots=True)
class Made:
    """The outcome of one job."""

    trajectory: Trajectory | None
    discarded: str = ""
    """The kind of reason for which there is nothing to keep: `invalid output`, `code failed`, a stop reason, ..."""
    detail: str = ""
    final: bool = False
    """Whether it is of no use to try again: the episode was played to its end, and what came of it is not wanted."""


class DiscardedError(SaccadeError):
    """A trajectory that must not be kept."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


def graded(trajectory: Trajectory, *, exactly: bool) -> Trajectory:
    """Return the trajectory with its score `correct`: by strict equality, or by the grader that the task names."""
    if exactly:
        return trajectory.with_scores(ExactMatch()(trajectory))
    return trajectory.with_scores([scored_by_rule(trajectory.answer, trajectory.task)])


def is_right(trajectory: Trajectory) -> bool:
    """Return whether the score `correct` is 1."""
    return any(score.name == CORRECT and score.value == 1.0 for score in trajectory.scores)


# Work on many items at once, results in the order of the items.


T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 8
"""How many times as many results as workers may wait for an earlier one that is slow."""


async def in_order(items: Iterable[T], work: Callable[[T], Awaitable[R]], workers: int) -> AsyncIterator[R]:
    """Yield the results, in order; at most `workers` items are worked on at once.

    What is under way is cancelled at the end.

    The first exception of `work` ends it, at its place in the order.
    """
    gate = asyncio.Semaphore(workers)
    waiting: deque[asyncio.Task[R]] = deque()

    async def guarded(item: T) -> R:
        async with gate:
            return await work(item)

    try:
        for item in items:
            waiting.append(asyncio.create_task(guarded(item)))
            if len(waiting) >= _AHEAD * workers:
                yield await waiting.popleft()
        while waiting:
            yield await waiting.popleft()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


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


LOOKED_AT = 3
_CHARACTERS, _PIXELS, _MEDIA = 4, 784, 4096
_TURNS, _SHOWN = 3, 300
"""Turns of an episode, and tokens of what comes back in one."""
_PROMPT = 800
"""Tokens of a dialect's own prompt."""


@dataclass(frozen=True, slots=True)
class RequestSize:
    """Requests to one of the models for one job, with all their tokens."""

    role: str
    """`teacher` or `writer`."""
    requests: int
    prompt_tokens: int
    sampled_tokens: int


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The sums of a run."""

    jobs: int
    requests: int
    prompt_tokens: int
    sampled_tokens: int
    dollars: float | None
    """None if the price of a model is not known."""
    unpriced: tuple[str, ...] = ()
    """Names of the models without a price."""

    def line(self, limit: float | None) -> str:
        size = (
            f"about {self.requests:,} requests for {self.jobs:,} jobs, {_thousands(self.prompt_tokens)} tokens read "
            f"and {_thousands(self.sampled_tokens)} written"
        )
        if self.dollars is None:
            cost = f"the price of {' and '.join(self.unpriced)} is not known"
        else:
            cost = f"about {self.dollars:.2f} dollars"
        above = self.dollars is not None and limit is not None and self.dollars > limit
        held = "no limit (teacher.dollars)" if limit is None else f"limit {limit:g} dollars"
        return f"{size}: {cost}; {held}" + (", which will not be enough for all" if above else "")


def job_size(recipe: str, work: Task | Trajectory, reply: int, turns: int) -> tuple[RequestSize, ...]:
    """Return the requests of one job; `reply` is the tokens of one reply, `turns` the most that the limits allow."""
    task = work.task if isinstance(work, Trajectory) else work
    asked = _text(question_of(task)) + sum(_media(item.part) for item in task.media)
    turns = min(turns, _TURNS)
    episode = sum(_PROMPT + asked + turn * (reply + _SHOWN) for turn in range(turns))
    solve = RequestSize("teacher", turns, episode, turns * reply)
    densify = asked + _own("densify") + turns * (reply + _SHOWN)
    match recipe:
        case "reason":
            return (RequestSize("teacher", 1, asked + _own("reason"), reply),)
        case "codify":
            writes = 2 * asked + _own("codify") + _own("conclude") + _PROMPT + 3 * reply + _SHOWN
            return (
                RequestSize("teacher", 1, asked + _own("reason"), reply),
                RequestSize("writer", 2, writes, 2 * reply),
            )
        case "densify":
            return (solve, RequestSize("writer", 1, densify, turns * reply))
        case "rewrite" if isinstance(work, Trajectory):
            said = sum(_text(turn.text) + (_SHOWN if turn.observation else 0) for turn in work.turns)
            return (RequestSize("teacher", 1, asked + _own("densify") + said, len(work.turns) * reply),)
        case "question":
            return (RequestSize("teacher", 1, asked + _SHOWN, reply),)
    return (solve,)


def _own(name: RecipeText) -> int:
    return _text(recipe_texts({}).text(name))


def estimated(jobs: int, looked_at: Sequence[tuple[RequestSize, ...]], models: dict[str, Model]) -> CostEstimate:
    """Estimate the cost of a run from the jobs that were looked at; `models` are teacher and writer by their roles.

    A token is taken for four characters or 784 pixels (at most 4,096 for a picture or video), a reply for
    `teacher.expect_tokens`, an episode for three turns at most. Providers count otherwise: `teacher.dollars` holds.
    """
    sizes = [size for job in looked_at for size in job]
    scale = jobs / max(1, len(looked_at))
    unpriced, dollars = dict[str, None](), 0.0
    for size in sizes:
        model = models[size.role]
        price = model.price if isinstance(model, HostedModel) else None
        if price is None:
            unpriced[model.name] = None
        else:
            dollars += (size.prompt_tokens * price.input + size.sampled_tokens * price.output) / 1_000_000
    return CostEstimate(
        jobs,
        round(scale * sum(size.requests for size in sizes)),
        round(scale * sum(size.prompt_tokens for size in sizes)),
        round(scale * sum(size.sampled_tokens for size in sizes)),
        None if unpriced else scale * dollars,
        tuple(unpriced),
    )


def scratch_store() -> tuple[TemporaryDirectory[str], MediaStore]:
    """Return a store for the media of the tasks that are looked at, and the folder to remove afterwards."""
    folder = TemporaryDirectory(prefix="saccade-estimate-")
    return folder, MediaStore(folder.name)


def _text(text: str) -> int:
    return -(-len(text) // _CHARACTERS)


def _media(part: MediaPart) -> int:
    return min(_MEDIA, part.width * part.height // _PIXELS) if isinstance(part, ImagePart) else _MEDIA


def _thousands(tokens: int) -> str:
    return f"{tokens:,}" if tokens < 10_000 else f"{tokens / 1000:,.0f}k"
