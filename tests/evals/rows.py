"""Rows made by hand."""

from __future__ import annotations

from typing import Any

from saccade.evals.rows import EvalRow


def row(task: str, correct: float | None, rollout: int = 0, **changes: Any) -> EvalRow:
    data: dict[str, Any] = {
        "id": f"{task}#{rollout}",
        "task": task,
        "rollout": rollout,
        "source": "s",
        "split": "test",
        "tags": (),
        "question": f"What is {task}?",
        "choices": (),
        "gold": "7",
        "answer": "7" if correct else "8",
        "correct": correct,
        "extracted": "7" if correct else "8",
        "reason": "",
        "grader": "number@1",
        "stop": "answered",
        "turns": 2,
        "calls": 1,
        "sampled_tokens": None,
        "context_tokens": None,
        **changes,
    }
    return EvalRow(**data)
