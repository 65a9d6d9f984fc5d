"""Other wordings for the counting and touching families: people do not ask as a generated world does.

What is asked for stays the same; where the wording settles how the answer is written, the gold answer is written so.
"""

from __future__ import annotations

import re

from saccade.plugins.worlds.solvers import colours_in, solver_for
from saccade.record.task import Task
from saccade.tasks.worlds import Rng

_QUESTIONS = {
    "counting": (
        "Count the {shapes} in the image.",
        "How many {shapes} are in the image?",
        "How many {shapes} can you see here?",
        "Count all {shapes} and give their number.",
        "What is the total number of {shapes}?",
    ),
    "nested-squares": (
        "Count the total number of squares in the image.",
        "Count total number of squares in this picture.",
        "How many squares are there in the image?",
        "How many squares can you see?",
    ),
    "line-crossings": (
        "Count the intersection points where the {first} and {second} lines meet.",
        "How many times do the {first} and {second} lines touch each other?",
        "In how many places do the {first} line and the {second} line intersect?",
        "Count the crossings of the {first} and {second} lines.",
    ),
    "two-circles touching": (
        "Are the two circles touching each other?",
        "Do both circles touch or intersect?",
        "Are the two circles tangent or in contact?",
    ),
    "two-circles overlapping": (
        "Are the two circles overlapping?",
        "Do both circles overlap each other?",
        "Is it true that the two circles overlap?",
    ),
    "rows-columns": (
        "Count the number of rows and columns and answer with numbers.",
        "How many rows and columns does the table have?",
        "Give the number of rows and the number of columns.",
    ),
}
_NUMBER: tuple[str, ...] = (
    "", "", " Answer with only the number.", " Answer with a number in curly brackets, e.g. {{{example}}}.",
    " Answer with a number in curly brackets e.g. {{{example}}}.",
    " Put your answer in curly brackets, e.g., {{{example}}}.",
    " Answer with only the number in numerical format in curly brackets e.g. {{{example}}}.",
)  # fmt: skip
_YES_NO: tuple[str, ...] = ("", " Answer with Yes/No.", " Answer yes or no.")
_PAIRS: tuple[str, ...] = (
    " For example, rows={{{example}}} columns={{{other}}}",
    " Answer as rows={{{example}}} columns={{{other}}}.",
)


def reworded(task: Task, rng: Rng) -> Task:
    """Return the task in another wording; the same task if its family has none."""
    solver = solver_for(task.question)
    if solver is None:
        return task
    values = {"example": str(rng.integer(1, 9)), "other": str(rng.integer(1, 9))}
    kind, endings, answer = solver.family, _NUMBER, task.answer
    if kind == "two-circles":
        kind, endings = f"{kind} {solver.parameters['question']}", _YES_NO
    elif kind == "counting":
        match = re.search(r"\b(circle|ring|\w+gon|triangle)s\b", task.question.lower())
        if match is None:
            return task
        values["shapes"] = match[0]
    elif kind == "line-crossings":
        values["first"], values["second"] = colours_in(task.question.lower())
    elif kind == "rows-columns":
        pair = re.fullmatch(r"(\d+), (\d+)", task.answer or "")
        if pair is None:
            return task
        endings, answer = _PAIRS, f"rows={{{pair[1]}}} columns={{{pair[2]}}}"
    text = rng.choice(_QUESTIONS[kind]) + rng.choice(endings)
    return task.model_copy(update={"question": text.format(**values), "answer": answer})
