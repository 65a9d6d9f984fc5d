"""What a run says about a step: numbers by name, for metrics.jsonl and the screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from saccade.record.stop_facts import Broken
from saccade.record.trajectory import Trajectory
from saccade.rewards.reading import accuracy, calls, returned_pictures
from saccade.rl.train.collector import RolloutBatch
from saccade.rl.train.scoring import ScoredRollout
from saccade.rl.train.update import UpdateMetrics

Metrics = Mapping[str, float | int]


class RlCallback:
    """Is called as a run progresses and decides nothing; override what you need, each method does nothing."""

    def takes(self, tasks: int, total: int | None) -> None:
        """The run takes `tasks` of the `total` that its source has; None: it has no end."""

    def choosing(self, done: int, total: int) -> None:
        """A curriculum has rolled out `done` of `total` tasks."""

    def chose(self, tasks: int, total: int) -> None:
        """It leaves `tasks` of `total`."""

    def begins(self, done: int, total: int) -> None:
        """Training begins after `done` of `total` steps."""

    def step(self, number: int, values: Metrics) -> None:
        """Step `number` (from 1) is done."""

    def validated(self, number: int, values: Metrics) -> None:
        """Held-out tasks were answered after `number` steps."""

    def saved(self, path: Path) -> None:
        """A checkpoint, or the trained model, was written there."""


def rollout_metrics(scored: Sequence[ScoredRollout]) -> dict[str, float]:
    """Means over rollouts that were not lost: reward and its parts, accuracy, calls, lengths."""
    completed = [item for item in scored if not item.trajectory.lost]
    values = {"lost": len(scored) - len(completed), "reward": _mean(item.reward.total for item in completed)}
    values["accuracy"] = _mean(accuracy(item.trajectory) for item in completed)
    values["tool_calls"] = _mean(len(calls(item.trajectory)) for item in completed)
    values["turns"] = _mean(len(item.trajectory.turns) for item in completed)
    values["pictures"] = _mean(returned_pictures(item.trajectory) for item in completed)
    values["response_length"] = _mean(_written(item.trajectory) for item in completed)
    names = dict.fromkeys(part.name for item in completed for part in item.reward.parts)
    for name in names:
        parts = [part.value for item in completed for part in item.reward.parts if part.name == name]
        values[f"reward/{name}"] = _mean(parts)
    return {name: value for name, value in values.items() if value is not None}


def step_metrics(batch: RolloutBatch, sums: UpdateMetrics, rate: float) -> dict[str, float]:
    """Every number that is logged of a step."""
    scored = list(batch.scored.values())
    values = rollout_metrics(scored)
    rollouts = [rollout for group in batch.groups for rollout in group.rollouts]
    broken = Counter(kind for rollout in rollouts for kind in rollout.broken)
    values |= {f"broken/{kind.value}": broken[kind] / len(rollouts) for kind in Broken}
    values |= {f"dropped/{reason.value}": count for reason, count in batch.selection.reasons().items()}
    right = {rollout.id for rollout in rollouts if rollout.right}
    signs = [item.sequence < 0 for item in batch.advantages if item.id in right]
    if sums.updates:  # without one these have no value
        values |= {
            "loss": sums.loss,
            "gradient_norm": sums.gradient_norm,
            "clip_fraction": sums.clipped / sums.tokens,
            "kl": sums.kl / sums.tokens,
            "entropy": sums.entropy / sums.tokens,
            "logprob_gap": sums.max_logprob_diff,
        }
    if signs:
        values["right_with_negative_advantage"] = sum(signs) / len(signs)
    seconds = batch.seconds
    sampled = sum(_written(item.trajectory) for item in scored)
    return values | {
        "rollouts": len(rollouts),
        "trained_rollouts": len(batch.advantages),
        "replayed": batch.replayed,
        "updates": sums.updates,
        "learning_rate": rate,
        "sampled_tokens": sampled,
        "sampled_tokens_per_second": sampled / max(1e-9, seconds.decoding + seconds.sandbox),
        "seconds/decoding": seconds.decoding,
        "seconds/sandbox": seconds.sandbox,
        "seconds/scoring": seconds.scoring,
        "seconds/update": seconds.update,
        "seconds/others": seconds.others,
    }


def _written(trajectory: Trajectory) -> int:
    return sum(len(turn.token_ids or ()) for turn in trajectory.turns)


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None
