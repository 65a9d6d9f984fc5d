"""Grades the answer of an agent in Harbor: `python -m saccade.plugins.integrations.harbor_verify TASK ANSWER REWARD`.

TASK is the task's record as JSON, ANSWER the file that the agent wrote, REWARD the file for the credit, from 0 to 1. An
answer that is missing is worth 0. Without a verdict there is no reward, and the exit status is 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

from saccade.grading.registry import grade_of, scored_by_rule
from saccade.record.codec import loads
from saccade.record.task import Task

LONGEST = 100_000
"""Bytes of an answer that are read."""


def verify(task: Path, answer: Path, reward: Path) -> str:
    """Write the credit of the answer; gives the reason for it.

    Raises `ValueError`: the grader gave no verdict; `RecordError`: TASK is no task.
    """
    read = loads(task.read_bytes(), Task)
    said = answer.read_bytes()[:LONGEST].decode("utf-8", "replace").strip() if answer.is_file() else None
    score = scored_by_rule(said, read)
    reason = grade_of(score.detail).reason
    if score.value is None:
        raise ValueError(f"the grader gave no verdict: {reason}")
    reward.write_text(f"{score.value:g}\n", encoding="utf-8")
    return reason if said is not None else "there is no answer"


def main(arguments: list[str]) -> int:
    """Return the program: 0 with a reward, 1 without a verdict, 2 for other arguments."""
    if len(arguments) != 3:
        sys.stderr.write("usage: python -m saccade.plugins.integrations.harbor_verify TASK ANSWER REWARD\n")
        return 2
    task, answer, reward = map(Path, arguments)
    try:
        sys.stdout.write(verify(task, answer, reward) + "\n")
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
