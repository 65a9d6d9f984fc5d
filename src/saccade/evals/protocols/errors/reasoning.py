"""E6, an estimate: what came back held the answer, and the answer given was wrong.

Three signals: a line of printed text states the gold answer as its result; a picture that came back holds a gold box; a
model says that a picture shows what the question asks about. None of them proves that the model could have known, and a
wrong sample without any of them is undecided, not free of the error. A sample without an answer failed in its form, and
one without a call reasoned about no tool: neither is an E6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isclose
from typing import Final

from saccade.evals.protocols.base import Studied
from saccade.evals.protocols.errors.records import ErrorClass, StepError
from saccade.evals.protocols.faithfulness.judges import JudgeVerdicts, box_verdicts
from saccade.grading.clean import folded
from saccade.record.execution import Execution
from saccade.record.score import CORRECT
from saccade.rewards.reading import succeeded

_RESULT: Final = re.compile(r"[:=]\s*(?P<result>[^:=]+)$")
_SHORTEST: Final = 3
"""Letters of a gold answer that is looked for inside a line; shorter ones must be all of it, or its result."""
_COMMON: Final = frozenset({"yes", "true", "false", "none"})
_SEEN: Final = "A picture of turn {} holds a gold box, and the answer is wrong."
_JUDGED: Final = "A model says that a picture of turn {} shows what the question asks about, and the answer is wrong."


def reasoning_errors(studied: Studied) -> tuple[tuple[StepError, ...], bool]:
    """The error, if a signal tells it, and whether the sample could be decided."""
    trajectory = studied.trajectory
    steps = [number for number, turn in enumerate(trajectory.turns) if succeeded(turn)]
    correct = next((score.value for score in trajectory.scores if score.name == CORRECT), None)
    if correct is None:
        return (), False
    if correct == 1 or trajectory.answer is None or not steps:
        return (), True
    signal = next(_signals(studied, steps), None)
    return ((signal,), True) if signal is not None else ((), False)


def states(text: str, gold: str) -> bool:
    """Whether a line of `text` is `gold`, ends with it as a result (`total = 7`), or holds it as a long enough word."""
    target = folded(gold)
    if not target:
        return False
    words = re.compile(rf"(?<!\w){re.escape(target)}(?!\w)") if _is_wordy(target) else None
    for line in map(folded, text.splitlines()):
        result = _RESULT.search(line)
        if _same(line, target) or (result is not None and _same(result["result"].strip(" ."), target)):
            return True
        if words is not None and words.search(line):
            return True
    return False


def _signals(studied: Studied, steps: list[int]) -> Iterator[StepError]:
    trajectory = studied.trajectory
    gold = trajectory.task.answer
    last = len(trajectory.turns) - 1
    for number in steps:
        run = trajectory.turns[number].execution
        if gold is not None and run is not None and states(_printed(run), gold):
            detail = f"Turn {number} printed the gold answer {gold!r:.80}; the answer was {trajectory.answer!r:.80}."
            yield _step(last, "gold_printed", detail)
    if trajectory.task.evidence:
        boxes = box_verdicts(trajectory, studied.regions)
        yield from (_step(last, "gold_box_seen", _SEEN.format(number)) for number in steps if _shows(boxes, number))
    if studied.verdicts is not None:
        yield from (
            _step(last, "model_judge", _JUDGED.format(number)) for number in steps if _shows(studied.verdicts, number)
        )


def _shows(verdicts: JudgeVerdicts, number: int) -> bool:
    return any(verdict.score is not None and verdict.score >= 1 for verdict in verdicts[number])


def _step(number: int, rule: str, detail: str) -> StepError:
    return StepError(error=ErrorClass.E6, turn=number, rule=rule, detail=detail)


def _printed(run: Execution) -> str:
    return "\n".join(filter(None, (run.stdout, run.value)))


def _is_wordy(text: str) -> bool:
    """Letters enough that it hardly stands in a line by chance; yes and no do."""
    return sum(letter.isalpha() for letter in text) >= _SHORTEST and text not in _COMMON


def _same(one: str, other: str) -> bool:
    if one.strip("'\"") == other:
        return True
    try:
        return isclose(float(one), float(other), rel_tol=1e-9)
    except ValueError:
        return False
