"""Play a task in the plainest form, always the same, as a demonstration for a tiny model.

In one of three scripts. A task that is asked directly gets its gold answer. A detail to be looked for is closed in on:
a program shows the picture in overlapping parts, one after the other; of each the signs in it are named, and the
program goes closer where the asked one is; in the smallest part the sign is read. Anything else gets the program that
its wording asks for (`tasks.solvers` where a family of those fits, else the world's own), and the answer that the
program printed: the gold answer is not looked at.
So what is learned from these turns can be done without knowing the answer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from saccade.dialects.base import Opening
from saccade.episode.flow import Plan
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.registry import Provider
from saccade.plugins.worlds.canvas import GRIDS, SEARCH, Box, ViewBox, holds_middle, parts
from saccade.plugins.worlds.experts.plays import Seen, observed, read
from saccade.plugins.worlds.experts.scene import rename
from saccade.plugins.worlds.signs import PLATES, found_line
from saccade.plugins.worlds.solvers import solver_for
from saccade.record.content import Action, Answer, Code, ImagePart, Message
from saccade.record.task import Task, parse
from saccade.record.trajectory import FinishReason
from saccade.training.sft.synth.settings import ExpertStopped, completion

# A program that first says what it was given: names, numbers and choices out of its question.
#
# So a small model copies them at once, in the order in which they were read; the rest of the program is the same for
# every question of its kind.

_FUTURE = "from __future__ import annotations\n"


class _Place(NamedTuple):
    """A stretch of a program."""

    line: int
    start: int
    end: int
    text: str
    """Text that is there instead."""


def given_first(code: str, question: str, choices: Sequence[str]) -> str:
    """Return the program with its constants from the question in a list `asked`, and from the choices in `choices`.

    Of the choices it has all, or the first few where the program's own list has no more. Taken are texts, outside of
    functions, imports and tables; of numbers only those of the last statement. A program that has none of them stays
    as it is.
    """
    body = [node for node in parse(code).body if not isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom)]
    constants = [item for statement in body for item in _constants(statement, choices, statement is body[-1])]
    places = {node.value: _where(node.value, question) for node in constants if isinstance(node, ast.Constant)}
    given = sorted(
        (value for value, place in places.items() if place is not None), key=lambda value: places[value] or 0
    )
    taken = [_place(code, node, f"asked[{given.index(node.value)}]") for node in _known(constants, given)]
    lists = [node for node in constants if isinstance(node, ast.List)]
    taken += [_place(code, node, "choices") for node in lists]
    most = max((len(node.elts) for node in lists), default=0)
    first = [f"asked = {given!r}\n"] * bool(given) + [f"choices = {list(choices[:most])!r}\n"] * bool(lists)
    head, future, rest = _replaced(code, taken).rpartition(_FUTURE)
    return head + future + "".join(first) + rest


def _constants(statement: ast.stmt, choices: Sequence[str], last: bool) -> Iterator[ast.Constant | ast.List]:
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.List) and node.elts and _values(node) == list(choices[: len(node.elts)]):
            yield node
            continue
        if isinstance(node, ast.Constant) and (isinstance(node.value, str) or (last and _is_number(node.value))):
            yield node
        # Keys of a table are not from the question, and the inside of an f-string has no places of its own.
        elif not isinstance(node, ast.Dict | ast.JoinedStr):
            waiting += [child for child in ast.iter_child_nodes(node) if not _is_label(node, child)]


def _is_label(node: ast.AST, child: ast.AST) -> bool:
    """Tell whether `child` is a word printed before something, or an index: those are not from the question either."""
    printed = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    index = isinstance(node, ast.Subscript) and _is_number(getattr(child, "value", None))
    return isinstance(child, ast.Constant) and (printed or index)


def _values(node: ast.List) -> list[object]:
    return [item.value if isinstance(item, ast.Constant) else None for item in node.elts]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _known(constants: list[ast.Constant | ast.List], given: Sequence[object]) -> Iterator[ast.Constant]:
    yield from (node for node in constants if isinstance(node, ast.Constant) and node.value in given)


def _where(value: object, question: str) -> int | None:
    """Return the position of a word in the question, as a whole word; None if it is absent."""
    text = str(value)
    if not text.strip():
        return None
    match = re.search(rf"(?<![\w.]){re.escape(text)}(?!\w|\.\d)", question)
    return None if match is None else match.start()


def _place(code: str, node: ast.Constant | ast.List, text: str) -> _Place:
    assert node.end_col_offset is not None
    # Columns are counted in bytes.
    line = code.splitlines()[node.lineno - 1].encode()
    start, end = (len(line[:at].decode()) for at in (node.col_offset, node.end_col_offset))
    return _Place(node.lineno - 1, start, end, text)


def _replaced(code: str, places: list[_Place]) -> str:
    lines = code.splitlines(keepends=True)
    for line, start, end, text in sorted(places, reverse=True):
        lines[line] = lines[line][:start] + text + lines[line][end:]
    return "".join(lines)


DIRECT = "tiny@1:direct"
"""The dialect in which questions are answered without code."""
LOOKED_FOR = "visual-search"
"""The world whose details are found by eye."""


class Demonstrator:
    """Plays one plan; what it writes depends on nothing else."""

    name = "demonstrator@1"

    def __init__(self, plan: Plan, notes: Mapping[str, str]) -> None:
        """`notes` are those of the world's sample.

        Raises `ExpertStopped`: there is no demonstration of this task, or a longer one than is allowed.
        """
        self._task = plan.task
        self._dialect = plan.dialect
        looked = is_looked_for(plan.task) and plan.dialect.id != DIRECT
        self._plays = looks(plan, notes) if looked else [first_action(plan)]
        most = plan.limits.turns
        if most is not None and len(self._plays) > most:
            raise ExpertStopped(f"{plan.task.id} takes {len(self._plays)} turns, and {most} are allowed")

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the next turn. Raises `ExpertStopped`: the program printed nothing, or failed."""
        done = sum(message.role == "assistant" for message in request.messages)
        seen = self._seen(request.messages)
        if seen is not None and seen.error is not None:
            raise ExpertStopped(f"the program of {self._task.id} failed: {seen.error}")
        text = self._dialect.write(self._plays[done] if done < len(self._plays) else self._answer(seen))
        ended = any(text.endswith(mark) for mark in request.stop)
        return Completion(text, FinishReason.STOP_STRING if ended else FinishReason.STOP, model=self.name)

    async def close(self) -> None:
        """Do nothing: nothing is held that needs closing."""

    def _seen(self, messages: tuple[Message, ...]) -> Seen | None:
        if len(messages) == 1:
            return None
        last = observed(self._dialect, messages)
        shown, new = sum(len(message.media) for message in messages), len(last.media)
        return read(self._dialect, last.text, new, shown - new)

    def _answer(self, seen: Seen | None) -> Answer:
        if seen is None or not seen.last:
            raise ExpertStopped(f"the program of {self._task.id} printed nothing")
        return Answer(text=seen.last)


def first_action(plan: Plan) -> Action:
    """Return the first action for a task in which nothing is searched for."""
    if plan.dialect.id == DIRECT:
        return Answer(text=gold(plan.task))
    return Code(code=program_code(plan.task, plan.opening))


def is_looked_for(task: Task) -> bool:
    """Return whether the task is to be answered by eye, from a crop."""
    return is_search(task.source, len(task.evidence))


def is_search(world: str, boxes: int) -> bool:
    """Return the same of a task of `world` with so many boxes of evidence."""
    return world.partition("@")[0] == LOOKED_FOR and boxes == 1


def looks(plan: Plan, notes: Mapping[str, str]) -> list[Action]:
    """Return the actions that close in on the evidence; `notes` name its plate's colour, and which signs are where.

    Raises `ExpertStopped`: signs of the asked colour are several, or not to be seen in any part.
    """
    task = plan.task
    image = task.evidence[0].image
    variable = next(name for name, medium in plan.opening.bindings.items() if medium == image)
    part = next(item.part for item in task.media if item.name == image)
    assert isinstance(part, ImagePart)
    made = [f"asked = {[notes['plate']]!r}\n{SEARCH}\nfound = search({variable}, asked[0])\nshow(next(found))"]
    for seen in seen_on_the_way((part.width, part.height), notes):
        made.append(f"seen = {found_line(PLATES, seen)!r}\nshow(found.send(seen))")
    return [*(Code(code=code) for code in made), Answer(text=gold(task))]


def turns_to_look(size: tuple[int, int], notes: Mapping[str, str]) -> int:
    """Count the turns of closing in, in a picture of so many pixels: first program, one for each part, answer.

    Raises `ExpertStopped`: as `looks`.
    """
    return len(seen_on_the_way(size, notes)) + 2


def seen_on_the_way(size: tuple[int, int], notes: Mapping[str, str]) -> list[set[str]]:
    """Return the colours of the signs in each part of the picture that is looked at, until the asked one is near.

    Raises `ExpertStopped`: signs of the asked colour are several, or not to be seen in any part.
    """
    colour, signs = notes["plate"], sign_places(notes["signs"])
    if sum(name == colour for name, _ in signs) != 1:
        raise ExpertStopped(f"there are several {colour} signs, and only its colour names a sign")
    made = []
    view: ViewBox = (0, 0, *size)
    for n in GRIDS:
        for shown in parts(view, n):
            made.append({name for name, box in signs if holds_middle(shown, box)})
            if colour in made[-1]:
                view = shown
                break
        else:
            raise ExpertStopped(f"no part shows the {colour} sign well enough to read it")
    return made


def sign_places(note: str) -> list[tuple[str, Box]]:
    """Return colours and plates of signs, out of note `signs` of world `visual-search`."""
    rows = [line.split() for line in note.splitlines()]
    return [(name, (int(x0), int(y0), int(x1), int(y1))) for name, x0, y0, x1, y1 in rows]


def program_code(task: Task, opening: Opening) -> str:
    """Return the program with the dialect's names of the media; what it takes from the question comes first."""
    names = {medium: variable for variable, medium in opening.bindings.items()}
    solver = solver_for(task.question)
    if solver is not None and len(names) == 1:
        given = solver.parameters.get("colours", ())
        assert isinstance(given, tuple)
        return given_first(solver.program(next(iter(names.values()))), " ".join(given), ()).strip("\n")
    renamed = {medium: variable for medium, variable in names.items() if medium != variable}
    return given_first(rename(task.program or "", renamed), task.question, task.choices).strip("\n")


def gold(task: Task) -> str:
    """Return the gold answer; a generated task always has one."""
    assert task.answer is not None
    return task.answer


# Answer by the program that `saccade.plugins.worlds.solvers` has for a question, as a baseline without a model.
#
# It knows the question's wording and nothing else of the task: neither its gold answer nor its program. A question of
# no family that the solvers know, a dialect that writes no code and a program that fails are answered with `UNKNOWN`.


UNKNOWN = "unknown"


class SolverModel:
    """Plays one episode: the program, then its last line as the answer."""

    name = "solver"

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._asked = 0

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        self._asked += 1
        code = self._program() if self._asked == 1 else None
        action, thought = (Code(code=code), "I measure it.") if code else (self._answer(request), "That is the result.")
        turn = completion(self._plan.dialect, action, thought, first=self._asked == 1, model=self.name)
        if on_text is not None and turn.text:
            on_text(turn.text)
        return turn

    async def close(self) -> None:
        """Do nothing: nothing is held that needs closing."""

    def _program(self) -> str | None:
        """Return the program, or None if there is none for this question in this dialect."""
        solver = solver_for(self._plan.task.question)
        opening = self._plan.opening
        bound, path = next(iter(opening.bindings), None), next(iter(opening.files), None)
        if solver is None or (bound is None and path is None):
            return None
        if bound is not None:
            code = solver.program(bound)
        else:
            code = f"from PIL import Image\n\npicture = Image.open({path!r})\n{solver.program('picture')}"
        try:
            self._plan.dialect.write(Code(code=code))
        except ValueError:
            return None
        return code

    def _answer(self, request: Request) -> Action:
        if self._asked == 1:
            return Answer(text=UNKNOWN)
        seen = read(self._plan.dialect, request.messages[-1].text, 0, self._plan.opening.pictures)
        return Answer(text=UNKNOWN if seen.error else seen.last or UNKNOWN)


SOLVER: Final = Provider(
    name="solver",
    description="A baseline that writes a program from the question's wording, in `saccade eval`.",
    example="solver",
    takes_name=False,
    for_plan=SolverModel,
    samples=False,
)
