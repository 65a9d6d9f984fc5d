"""A run that a test kills: `python killed.py TASKS OUT DIALECT`. Its model thinks for some milliseconds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from saccade.episode.flow import Plan
from saccade.evals.run import evaluate
from saccade.evals.settings import EvalSettings
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.scripted import speak
from saccade.record.content import Answer, Code


class Slow:
    """Prints the question's numbers with code where the dialect has any, and answers by the seed of the sample."""

    name = "slow"

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.asked = 0

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        seed = request.sampling.seed or 0
        await asyncio.sleep(0.005 + seed % 10 / 500)
        self.asked += 1
        if self.asked == 1 and self.plan.dialect.id != "direct@1:reason":
            return speak(self.plan.dialect.write(Code(code=f"print({seed})")), request, self.name)
        right = seed % 3 > 0
        answer = str(self.plan.task.answer) if right else str(seed)
        return speak(self.plan.dialect.write(Answer(text=answer)), request, self.name)

    async def close(self) -> None:
        pass


def main(tasks: str, out: str, dialect: str) -> None:
    settings = EvalSettings(model="slow", sources=(tasks,), dialect=dialect, k=2)
    asyncio.run(evaluate(settings, Path(out), workers=4, player=Slow))


if __name__ == "__main__":
    main(*sys.argv[1:])
