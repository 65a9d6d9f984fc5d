"""The settings of `saccade eval`: which samples a run holds and how they are played."""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import Field, NonNegativeInt, model_validator

from saccade.core.retry import RETRY_SETTINGS
from saccade.core.settings import without_address
from saccade.episode.settings import EpisodeSettings
from saccade.errors import SettingsError
from saccade.rewards.judges.client import ASK_LIMITS
from saccade.rewards.judges.prompt import ScoreRules
from saccade.tasks.sources.settings import MOST_BROKEN, Share

_SHARD = re.compile(r"[1-9][0-9]{0,5}/[1-9][0-9]{0,5}")


class AnswerJudgeRules(ScoreRules):
    """How the judge of answers is asked."""

    concurrent: NonNegativeInt = 0
    """Requests at once; 0: as many as there are workers."""

    def with_workers(self, workers: int) -> ScoreRules:
        """Return the rules where so many answers are judged at once."""
        return ScoreRules.model_validate({**self.model_dump(), "concurrent": self.concurrent or workers})


class EvalSettings(EpisodeSettings):
    """One run of an evaluation."""

    sources: tuple[str, ...] = Field(min_length=1)
    """As `saccade.evals.run` reads them."""
    published: str = ""
    """Name of a paper's settings in the cards of the sources; they apply to what the user does not set."""
    data: str = ""
    """Folder of the data, where a source needs one."""
    split: Literal["train", "validation", "test"] = "test"
    """Of generated worlds."""
    n: int | None = Field(None, ge=1)
    """Tasks of each source: the same ones for every model, and those of a smaller `n` among them. None: all."""
    k: int = Field(1, ge=1)
    """Samples of each task."""
    seed: int = 0
    """Of the choice of `n` tasks and of the samples' own seeds."""
    seeded: bool = True
    """Whether each sample is asked for with a seed of its own; false for a backend that knows no seed."""
    circular: bool = False
    """Whether every task with choices is asked once for each rotation of them: right only if all rotations are."""
    knobs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Of generated worlds: world without its version -> knob -> value."""
    grader: str = ""
    """Grader of all tasks; empty: the one that the source names, or else the one for the type of the answer."""
    judge: str = ""
    """A model that is asked about every answer when all are played; empty: none is."""
    judge_rules: AnswerJudgeRules = AnswerJudgeRules()
    """How it is asked: prompt, time, attempts, requests at once, tokens, dollars."""
    headline: Literal["", "rule", "judge"] = ""
    """Whose verdict is `correct` where there is a judge; empty: the rule's, but for benchmarks that say otherwise."""
    keep_requests: bool = False
    """Whether every request to a model behind HTTP is kept as it went over the wire; see `saccade.evals.requests`."""
    most_broken: Share = MOST_BROKEN
    """Share of the tasks that may come to nothing since they cannot be made, as of a broken picture; more end it."""
    shard: str = "1/1"
    """`i/n`: the i-th of n parts of the tasks."""

    @property
    def shards(self) -> tuple[int, int]:
        """Number of the shard, from 0, and how many there are."""
        number, _, count = self.shard.partition("/")
        return int(number) - 1, int(count)

    @property
    def asked(self) -> str:
        """The model without the address of its server."""
        return without_address(self.model)

    @property
    def judge_name(self) -> str:
        """The judge without the address of its server."""
        return without_address(self.judge)

    def continues(self, before: EvalSettings) -> bool:
        """Return whether `n` and `k` are no smaller than before: what is there stays as it is."""
        return self.k >= before.k and (self.n is None or (before.n is not None and self.n >= before.n))

    def continuing(self, before: EvalSettings) -> EvalSettings:
        """Return these settings, with the dialect, grader, judge and headline of `before` where they name none."""
        kept = {
            name: getattr(before, name)
            for name in ("dialect", "grader", "judge", "headline")
            if not getattr(self, name)
        }
        if not self.judge and self.judge_rules == AnswerJudgeRules():
            kept["judge_rules"] = before.judge_rules
        return self.model_copy(update=kept)

    def may_differ(self, other: EvalSettings) -> tuple[str, ...]:
        """Name the settings that say where things are, how many tasks or who grades them, and not what is played."""
        names = ["n", "k", "data", "sandbox", "grader", "headline", "keep_requests", "most_broken", *RETRY_SETTINGS]
        names += [f"judge_rules.{name}" for name in ASK_LIMITS]
        if self.asked == other.asked:
            names.append("model")
        if not other.judge or self.judge_name == other.judge_name:  # a run gets a judge, and does not lose it
            names.append("judge")
        return tuple(names)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not _SHARD.fullmatch(self.shard):
            raise ValueError(f"shard {self.shard}: write I/N, from 1/N to N/N, as in 1/4 for the first of four")
        number, count = self.shards
        if number >= count:
            raise ValueError(f"shard {self.shard}: shards are 1/{count} to {count}/{count}")
        return self

    def check_headline(self) -> None:
        """Raises `SettingsError` if a judge's verdict is to count, and no judge is named, here or by the run so far."""
        if self.headline == "judge" and not self.judge:
            raise SettingsError(
                "the headline is to be a judge's verdict, and there is no judge: name one with --judge."
            )
