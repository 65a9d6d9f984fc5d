"""Compute the numbers of a step for metrics.jsonl and the screen, and keep rollouts in OUT/rollouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import pstdev

from saccade.episode.run_folder import TRAJECTORIES, RunFolder
from saccade.record.codec import read_lines, recover_lines, write_lines
from saccade.record.trajectory import Broken, Score, Trajectory
from saccade.rewards.reward import accuracy, calls, with_reward
from saccade.training.rl.rollout import Rollout
from saccade.training.rl.select import Selection
from saccade.training.settings import TrainingCallback


class RlCallback(TrainingCallback):
    """Follows a run of reinforcement learning; each method does nothing until it is overridden."""

    def takes(self, sources: Sequence[str]) -> None:
        """Hear, as a line for each source, what the run takes of it, and what it leaves out and why."""

    def choosing(self, done: int, total: int) -> None:
        """Hear that a curriculum has rolled out `done` of `total` tasks."""

    def chose(self, tasks: int, total: int) -> None:
        """Note that the rule leaves `tasks` of `total`."""


@dataclass
class UpdateMetrics:
    """Sums over forward passes, and over the updates of a step."""

    loss: float = 0.0
    """Of a step: mean over updates."""
    gradient_norm: float = 0.0
    """Of a step: mean over updates."""
    tokens: float = 0.0
    clipped: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    max_logprob_diff: float = 0.0
    """Largest difference of log-probability between sampling and training; of a step: before any update."""
    updates: int = 0

    def add(self, other: UpdateMetrics) -> None:
        self.loss += other.loss
        self.gradient_norm += other.gradient_norm
        self.tokens += other.tokens
        self.clipped += other.clipped
        self.kl += other.kl
        self.entropy += other.entropy
        self.max_logprob_diff = max(self.max_logprob_diff, other.max_logprob_diff)
        self.updates += other.updates


@dataclass
class StepTiming:
    """Where the time of a step went, in seconds, and how often a lost rollout was played again."""

    decoding: float = 0.0
    sandbox: float = 0.0
    """Waiting for sandboxes and tools, without decoding."""
    scoring: float = 0.0
    update: float = 0.0
    others: float = 0.0
    """Waiting for other processes."""
    replayed: int = 0


def rollout_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Average over rollouts that were not lost: reward and its parts, accuracy, calls, lengths."""
    completed = [item for item in rollouts if not item.lost]
    values = {"lost": len(rollouts) - len(completed), "reward": _mean(item.reward.total for item in completed)}
    values["accuracy"] = _mean(accuracy(item.trajectory) for item in completed)
    values["tool_calls"] = _mean(len(calls(item.trajectory)) for item in completed)
    values["turns"] = _mean(len(item.trajectory.turns) for item in completed)
    values["pictures"] = _mean(item.pictures for item in completed)
    values["response_length"] = _mean(_written(item.trajectory) for item in completed)
    names = dict.fromkeys(part.name for item in completed for part in item.reward.parts)
    for name in names:
        parts = [part.value for item in completed for part in item.reward.parts if part.name == name]
        values[f"reward/{name}"] = _mean(parts)
    return {name: value for name, value in values.items() if value is not None}


def step_metrics(
    rollouts: Sequence[Rollout], selection: Selection, sums: UpdateMetrics, timing: StepTiming, rate: float
) -> dict[str, float]:
    """Return all that is logged of a step: its `rollouts` as they ended, update, time and learning rate."""
    values = rollout_metrics(rollouts)
    broken = Counter(kind for item in rollouts for kind in item.broken)
    values |= {f"broken/{kind.value}": broken[kind] / len(rollouts) for kind in Broken}
    values |= {f"dropped/{reason.value}": count for reason, count in selection.reasons().items()}
    if sums.updates:  # without one these have no value
        values |= {
            "loss": sums.loss,
            "gradient_norm": sums.gradient_norm,
            "clip_fraction": sums.clipped / sums.tokens,
            "kl": sums.kl / sums.tokens,
            "entropy": sums.entropy / sums.tokens,
            "logprob_gap": sums.max_logprob_diff,
        }
    trained = [(item, item.advantage) for item in rollouts if item.advantage is not None]
    signs = [advantage.sequence < 0 for item, advantage in trained if item.right]
    if signs:
        values["right_with_negative_advantage"] = sum(signs) / len(signs)
    if spread := sorted(advantage.sequence for _, advantage in trained):  # its distribution (PyVision-RL, figure 16)
        values["advantage/spread"] = pstdev(spread)
        values |= {f"advantage/{part:02}%": spread[(len(spread) - 1) * part // 100] for part in (10, 50, 90)}
    sampled = sum(_written(item.trajectory) for item in rollouts)
    return values | {
        "rollouts": len(rollouts),
        "trained_rollouts": len(trained),
        "replayed": timing.replayed,
        "updates": sums.updates,
        "learning_rate": rate,
        "sampled_tokens": sampled,
        "sampled_tokens_per_second": sampled / max(1e-9, timing.decoding + timing.sandbox),
        "seconds/decoding": timing.decoding,
        "seconds/sandbox": timing.sandbox,
        "seconds/scoring": timing.scoring,
        "seconds/update": timing.update,
        "seconds/others": timing.others,
    }


def validation_sample(rollout: Rollout) -> dict[str, str]:
    """Return a held-out answer as samples.jsonl has it."""
    wrote = "\n".join(turn.text for turn in rollout.trajectory.turns)
    return {"id": rollout.id, "wrote": wrote, "expected": rollout.trajectory.task.answer or ""}


def _written(trajectory: Trajectory) -> int:
    return sum(len(turn.token_ids or ()) for turn in trajectory.turns)


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


ADVANTAGE = "advantage"
"""Name of the score that holds the advantage of a sequence; its detail tells that of each turn's tokens."""


def open_rollout_store(root: Path, cursor: int) -> RunFolder:
    """Open the run folder, and remove rollouts from `cursor` in the sequence of epochs on, which are played again.

    Raises `RecordError`: it cannot be read.
    """
    path = root / TRAJECTORIES
    if path.exists():
        recover_lines(path)
        write_lines(path, [item for item in read_lines(path, Trajectory) if _place(item) < cursor])
    return RunFolder(root)


def with_worth(item: Rollout) -> Trajectory:
    """Return the trajectory with the parts of its reward and turns, and its advantage if there is one, as scores."""
    trajectory = with_reward(item.trajectory, item.reward)
    more = [
        Score(name=f"reward.{part.name}.turns", weight=0.0, detail=_by_turn(part.values)) for part in item.reward.turns
    ]
    if (advantage := item.advantage) is not None:
        turns = () if advantage.turns is None else tuple(advantage.sequence + term for term in advantage.turns.tolist())
        more.append(Score(name=ADVANTAGE, value=advantage.sequence, weight=0.0, detail=_by_turn(turns)))
    return trajectory.with_scores(more)


def _by_turn(values: Sequence[float | None]) -> str:
    shown = (f"turn {n}: {'none' if value is None else f'{value:+.4g}'}" for n, value in enumerate(values, 1))
    return ", ".join(shown)


def _place(trajectory: Trajectory) -> int:
    return int(trajectory.group.rpartition("@")[2])
