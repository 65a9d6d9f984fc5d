"""Variants of a task that a protocol asks for, made here where the source does not hold them."""

from __future__ import annotations

from collections.abc import Iterator

from saccade.record.task import Task


def cycled(task: Task) -> Iterator[Task]:
    """A task once for every rotation of its choices, so that its gold answer stands in every place once.

    HR-Bench's protocol of four cycles, for four choices. Variants share the tag `group` and are told apart by the tag
    `variant`; a task with fewer than two choices has itself as its only variant.
    """
    count = max(1, len(task.choices))
    for turn in range(count):
        yield task.model_copy(
            update={
                "id": f"{task.id}/cycle-{turn}",
                "choices": (*task.choices[turn:], *task.choices[:turn]),
                "tags": (*task.tags, f"group={task.id}", f"variant=cycle-{turn}"),
            }
        )
