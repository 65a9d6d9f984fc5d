"""Answer by the program that `saccade.plugins.worlds.solvers` has for a question, as a baseline without a model.

It knows the question's wording and nothing else of the task: neither its gold answer nor its program. A question of no
family that the solvers know, a dialect that writes no code and a program that fails are answered with `UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from saccade.episode.flow import Plan
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.registry import Provider
from saccade.plugins.worlds.experts.plays import read
from saccade.plugins.worlds.solvers.questions import solver_for
from saccade.record.content import Action, Answer, Code
from saccade.training.sft.synth.experts import completion

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
        """Return the next turn."""
        self._asked += 1
        code = self._program() if self._asked == 1 else None
        action, thought = (Code(code=code), "I measure it.") if code else (self._answer(request), "That is the result.")
        turn = completion(self._plan.dialect, action, thought, first=self._asked == 1, model=self.name)
        if on_text is not None and turn.text:
            on_text(turn.text)
        return turn

    async def close(self) -> None:
        """Holds nothing that needs closing."""

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
