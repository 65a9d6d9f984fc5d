"""Choices in another order, for sources whose gold option always stands in the same place (V* lists it first).

The gold answer is the text of its option, so it follows. The order depends on the seed and the task's id alone.
"""

from __future__ import annotations

import random
import re

from saccade.record.task import Task

_KEPT = "choices-kept"
_SEED = "choices-seed="
# Options that speak of others by place or letter would change their meaning.
_BY_PLACE = re.compile(
    r"\b(?:above|below|these|preceding|following|previous)\b|\b(?:both|neither|either|all|only)\s+\(?[A-H]\)?(?:\W|$)"
    r"|\b[A-H]\)?\s(?:and|or|&)\s\(?[A-H]\b",
    re.IGNORECASE,
)


def shuffled(task: Task, seed: int) -> Task:
    """`task` with its choices in the order that `seed` gives, and a tag that records it.

    Choices that speak of others by place ("all of the above", "both A and B") keep their order; the tag says so. A task
    that was shuffled before is shuffled from the order it has now. The text of the question is not looked at.
    """
    if len(task.choices) < 2:
        return task
    if any(_BY_PLACE.search(choice) for choice in task.choices):
        return task.model_copy(update={"tags": (*task.tags, _KEPT)})
    choices = list(task.choices)
    random.Random(f"{seed}:{task.id}").shuffle(choices)
    return task.model_copy(update={"choices": tuple(choices), "tags": (*task.tags, f"{_SEED}{seed}")})
