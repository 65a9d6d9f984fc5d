r"""Plan what a run asks for besides GPU memory: rollouts, tokens, pictures, sandboxes, disk, judges and hours.

    plan = RunPlan(settings, processes=8, weights=PlannedWeights(8_292_166_656, 7_615_616_512, 2))
    print(*plan.lines(), sep="\n")

The numbers of a step are bounds: every rollout takes all turns, tokens and pictures that its limits allow, in all
rounds. With numbers that a run of the same kind measured, those follow, and hours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from saccade.dialects.base import load_dialect
from saccade.episode.run_folder import MEDIA
from saccade.errors import SettingsError
from saccade.rewards.reward import needs_judge, pays_for_consistency
from saccade.training.memory import PlannedWeights
from saccade.training.rl.settings import OWN, RlSettings

PICTURE_BYTES: Final = 1.1e6
"""Of a picture in the store where none was measured: 1024x768 pixels as PNG (docs/scale.md)."""
TURN_CPU: Final = 0.138
"""Seconds of a core for a turn, sandbox and host together (docs/scale.md: 59 and 79 ms)."""
BUSY: Final = 0.7
"""Share of the time that cores are to be busy."""


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """Means of a run, for a step or a rollout."""

    seconds: float
    """Of a rollout: all of a step divided by its rollouts."""
    tokens: float
    """Sampled in a rollout."""
    turns: float
    pictures: float
    calls: float
    picture_bytes: float

    @classmethod
    def read(cls, run: Path) -> Self:
        """Read the run in a folder. Raises `SettingsError`: it has made no step."""
        path = run / "metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
        steps = [line for line in lines if line.get("rollouts")]
        if not steps:
            raise SettingsError(
                f"{run} holds no step of `saccade rl` ({path.name}), so nothing was measured there. Name the folder of "
                "a run that made some, or say sampled tokens a second."
            )
        rollouts = sum(line["rollouts"] for line in steps)

        def mean(name: str) -> float:
            return float(sum(line.get(name, 0.0) * line["rollouts"] for line in steps) / rollouts)

        seconds = sum(value for line in steps for name, value in line.items() if name.startswith("seconds/"))
        sizes = [file.stat().st_size for file in (run / "rollouts" / MEDIA).rglob("*") if file.is_file()]
        each = sum(sizes) / len(sizes) if sizes else PICTURE_BYTES
        return cls(
            seconds / rollouts,
            mean("response_length"),
            mean("turns"),
            mean("pictures"),
            mean("tool_calls"),
            each,
        )


@dataclass(frozen=True)
class RunPlan:
    """What a run asks for, by its settings."""

    settings: RlSettings
    processes: int
    """That train; each plays its share of the episodes."""
    weights: PlannedWeights | None = None
    """None: their numbers are not known."""
    measured: MeasuredRun | None = None
    tokens_per_second: float = 0.0
    """Sampled by the whole run; 0: not said."""

    @property
    def rollouts(self) -> tuple[int, int]:
        """Rollouts of a step that needs one round, and of one that needs all."""
        rounds, size = self.settings.recipe.rounds, self.settings.recipe.rollout.group_size
        return rounds.tasks * size, rounds.tasks * size * rounds.rounds

    @property
    def tokens(self) -> int | None:
        """Most tokens that a rollout samples; None: no limit."""
        limits, sampled = self.settings.recipe.limits, self.settings.recipe.rollout.sampling.max_tokens
        turns = None if limits.turns is None or sampled is None else limits.turns * sampled
        known = [most for most in (limits.context_tokens, limits.response_tokens, turns) if most is not None]
        return min(known, default=None)

    @property
    def calls(self) -> int | None:
        """Most calls of a rollout; None: no limit. In its last turn nothing is run."""
        turns = self.settings.recipe.limits.turns
        return None if turns is None else max(0, turns - 1)

    @property
    def pictures(self) -> int | None:
        """Most pictures that come back in a rollout; None: no limit."""
        images, each = self.settings.recipe.limits.images, load_dialect(self.settings.recipe.dialect).sandbox.pictures
        known = [most for most in (images, None if self.calls is None else self.calls * each) if most is not None]
        return min(known, default=None)

    @property
    def episodes(self) -> int:
        """Most episodes at once."""
        players = self.processes if self.settings.trainer.name == OWN else 1
        return min(players * self.settings.generation.max_concurrency, self.rollouts[0])

    @property
    def sessions(self) -> int:
        """Most sessions of sandboxes at once: one for each episode, and one for each group, of which they branch."""
        return self.episodes + math.ceil(self.episodes / self.settings.recipe.rollout.group_size)

    def requests(self, calls: float) -> dict[str, float]:
        """Return the most requests of a rollout with `calls` to each model that judges."""
        reward = self.settings.recipe.reward
        preset, asked = reward.load(), dict[str, float]()
        if reward.judge not in ("none", "boxes") and needs_judge(preset):
            asked[reward.judge_model] = calls
        if reward.answer_judge:
            asked[reward.answer_judge] = asked.get(reward.answer_judge, 0) + 1
        if reward.consistency_judge and pays_for_consistency(preset):
            asked[reward.consistency_judge] = asked.get(reward.consistency_judge, 0) + 1
        return asked

    def checkpoint_bytes(self) -> tuple[int, int] | None:
        """Return the bytes of a checkpoint (float32 weights, AdamW's two moments), and the most there are at once."""
        if self.weights is None:
            return None
        keep, steps = self.settings.keep, self.settings.recipe.steps
        kept = min(keep.checkpoints, math.ceil(steps / keep.every))
        if keep.milestones:
            kept += steps // math.lcm(keep.milestones, keep.every)
        return 12 * self.weights.trained, kept + 1  # one more while it is written

    def hours(self) -> tuple[float, float] | None:
        """Return the hours of the run if each step needs one round, and if each needs all; None: no throughput."""
        one, every = (self.settings.recipe.steps * rollouts / 3600 for rollouts in self.rollouts)
        if self.measured is not None:
            return one * self.measured.seconds, every * self.measured.seconds
        if self.tokens_per_second and self.tokens is not None:
            return one * self.tokens / self.tokens_per_second, every * self.tokens / self.tokens_per_second
        return None

    def lines(self) -> Iterator[str]:
        recipe, (one, every) = self.settings.recipe, self.rollouts
        rounds, size = recipe.rounds, recipe.rollout.group_size
        yield "a step, at most"
        yield _row("rollouts", f"{every:,}", f"{rounds.tasks} tasks x {size} x {rounds.rounds} rounds; {one:,} in one")
        yield _most("sampled tokens", every, self.tokens)
        yield _most("pictures that come back", every, self.pictures)
        asked = self.requests(math.inf if self.calls is None else self.calls)
        for model, requests in asked.items():
            yield _row("requests to a judge", f"{every * requests:,.0f}".replace("inf", "no limit"), model)
        if not asked:
            yield _row("requests to judges", "0", "the reward asks no model")
        cores = f"each uses at most a core while it computes; {self.settings.generation.max_concurrency} episodes"
        yield _row("sandboxes at once", f"{self.sessions:,}", f"{cores} of each process, groups of {size}")
        if self.measured is not None:
            yield from self._measured_lines(self.measured)
        yield "disk"
        kept = self.checkpoint_bytes()
        if kept is None or self.weights is None:
            yield _row(
                "checkpoints",
                "not known",
                "neither the shape of the model nor what the trainer keeps of it is known here",
            )
        else:
            each, number = kept
            yield _row("checkpoints", _gb(each * number), f"{number} of {_gb(each)}, one of them written from memory")
            exported = self.weights.all * self.weights.exported_bytes
            yield _row("model", _gb(exported), "the trained one; as much again in served/ where servers sample")
        yield from self._media_lines()
        yield "the run"
        yield _row("rollouts", f"{recipe.steps * one:,} to {recipe.steps * every:,}", f"{recipe.steps} steps")
        if recipe.curriculum is not None:
            yield _row("before the first step", f"{size:,} of each task", "to choose the tasks (curriculum)")
        hours = self.hours()
        if hours is None:
            yield _row("hours", "not known", "say --throughput TOKENS_PER_SECOND, or the folder of a run like it")
        else:
            how = (
                "as measured" if self.measured else "if every rollout takes all its tokens; without updates and judges"
            )
            yield _row("hours", f"{hours[0]:,.1f} to {hours[1]:,.1f}", how)

    def _measured_lines(self, run: MeasuredRun) -> Iterator[str]:
        one, _ = self.rollouts
        yield "a round, as measured"
        yield _row("sampled tokens", f"{one * run.tokens:,.0f}", f"{run.tokens:,.0f} of each rollout")
        yield _row("pictures that come back", f"{one * run.pictures:,.0f}", f"{run.pictures:.1f} of each")
        for model, requests in self.requests(run.calls).items():
            yield _row("requests to a judge", f"{one * requests:,.0f}", model)
        yield _row("minutes", f"{one * run.seconds / 60:,.1f}", f"{run.seconds:.2f} s of each rollout")
        cores = run.turns / run.seconds * TURN_CPU / BUSY if run.seconds else 0.0
        yield _row("cores that they keep busy", f"{cores:,.1f}", f"{run.turns:.1f} turns of each, {TURN_CPU} s a turn")

    def _media_lines(self) -> Iterator[str]:
        one, every = (self.settings.recipe.steps * rollouts for rollouts in self.rollouts)
        if self.measured is not None:
            each, size = self.measured.pictures, self.measured.picture_bytes
            said = f"{_gb(one * each * size)} to {_gb(every * each * size)}"
            yield _row("pictures of all steps", said, f"{size / 1e6:.2f} MB each, as measured")
        elif self.pictures is None:
            yield _row("pictures of all steps", "no limit", "rollout.limits.turns or .images set one")
        else:
            said = _gb(every * self.pictures * PICTURE_BYTES)
            yield _row("pictures of all steps", f"at most {said}", f"if each has {PICTURE_BYTES / 1e6:g} MB")


def _row(what: str, value: str, why: str) -> str:
    return f"  {what:<28}{value:>26}  {why}"


def _most(what: str, rollouts: int, each: int | None) -> str:
    if each is None:
        return _row(what, "no limit", "rollout.limits sets one")
    return _row(what, f"{rollouts * each:,}", f"{each:,} of each rollout")


def _gb(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"


def throughput_of(said: str) -> dict[str, Any]:
    """Read `--throughput`: sampled tokens a second, or the folder of a run; return fields of `RunPlan`.

    Raises `SettingsError`: it is neither.
    """
    try:
        number = float(said)
    except ValueError:
        return {"measured": MeasuredRun.read(Path(said))}
    if not 0 < number < math.inf:
        raise SettingsError(f"--throughput is {said}: say how many tokens are sampled a second, or name a run.")
    return {"tokens_per_second": number}
