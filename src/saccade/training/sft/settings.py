"""Everything that decides a training run, resolved from a recipe and saved next to what it made."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, NonNegativeInt, PositiveFloat, PositiveInt

from saccade.core.settings import Settings
from saccade.episode.settings import PromptSettings, SessionLimits
from saccade.media.decode import MediaSettings
from saccade.record.trajectory import Sampling
from saccade.tasks.benchmarks.card import as_tuple
from saccade.tasks.sources.settings import MOST_BROKEN, Share
from saccade.tokens.segments import SampledIds
from saccade.training.settings import Fraction, KeepSettings, ModelSettings, OptimizerSettings


class DataSettings(PromptSettings):
    """Which trajectories, and how they become tokens. With a prompt file (or tools, or a form of their list) they are
    learned with the prompt that it gives, in place of their own.
    """

    runs: tuple[str, ...] = ()
    """Run folders, each with `trajectories.jsonl` and `media/`."""
    sampled_ids: SampledIds = "recorded"
    """`recorded`: the ids that were sampled, where the record has them; `text`: always from the turn's text."""
    most_tokens: PositiveInt = 16_384
    """Longer trajectories lose their last turns; those whose first turn does not fit are left out. Never more than the
    checkpoint's context."""
    most_broken: Share = MOST_BROKEN
    """Share of the trajectories that are left out where a picture or video of theirs is gone; more end the run."""
    picture_cache_mib: PositiveInt = 2048
    """Memory for pictures that were read once."""


class SftLossSettings(Settings):
    """Which turns are learned, and what each counts. Observations never are learned."""

    average: Literal["tokens", "trajectories"] = "tokens"
    """Over what the loss of a step is the mean: all its learned tokens, or its trajectories, each the mean of its own
    learned tokens. With `trajectories` short answers count as much as long programs."""

    error_turns: Literal["learn", "skip"] = "learn"
    """Turns whose code or call failed, or in which no action was found."""
    earlier_rounds: Literal["learn", "skip"] = "learn"
    """`skip`: with two or more observations, only what follows the last but one is learned (Thyme's SFT)."""


class BatchSettings(Settings):
    """Examples of one step, and of one forward pass of it."""

    trajectories: PositiveInt = 128
    """Trajectories of a step, over all GPUs."""
    tokens: PositiveInt = 16_384
    """Most tokens of a forward pass, padding included; gradients are accumulated over as many as a step needs."""
    layout: Literal["auto", "padded", "packed"] = "auto"
    """`packed`: trajectories end to end, seeing themselves only. `auto`: packed where that needs no mask of all pairs
    of tokens, as with `model.attention` `auto` and `flash_attention_2`; else padded."""


class SftValidationSettings(Settings):
    """How the run is watched."""

    fraction: Fraction = 0.02
    """Of the tasks, held out by a hash of their names."""
    most: PositiveInt = 256
    """Most trajectories of it."""
    every: NonNegativeInt = 100
    """Steps; 0 for never. The last step always counts."""
    samples: NonNegativeInt = 4
    """Prompts that the model answers greedily each time, into samples.jsonl."""
    sample_tokens: PositiveInt = 256
    source: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Tasks that the model plays each time, of any sources; see `saccade.tasks.sources.settings`."""
    tasks: PositiveInt = 16
    """Most tasks of each source."""
    k: PositiveInt = 1
    """Episodes of each task."""
    most_broken: Share = MOST_BROKEN
    """Share of the tasks that are left out where they cannot be made, as of a broken picture; more end the run."""
    dialect: str = ""
    """How tasks are put; empty: the dialect of most of the trajectories."""
    sampling: Sampling = Sampling(temperature=0.0, max_tokens=1024)
    session: SessionLimits = SessionLimits()
    """Limits of the sandbox's sessions, where tasks are played, in place of the dialect's."""
    sandbox: str = "local"
    """Where their code runs: `local`, or addresses of `saccade sandbox serve` with commas between them."""


class SftSettings(Settings):
    """The settings of `saccade sft`."""

    data: DataSettings = DataSettings()
    media: MediaSettings = MediaSettings()
    """How large a picture of the prompt, or of a task that is played, may be and is shown."""
    model: ModelSettings = ModelSettings()
    loss: SftLossSettings = SftLossSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    batch: BatchSettings = BatchSettings()
    validation: SftValidationSettings = SftValidationSettings()
    keep: KeepSettings = KeepSettings()
    epochs: PositiveFloat = 1.0
    steps: NonNegativeInt = 0
    """Steps; 0: as `epochs` says."""
    seed: NonNegativeInt = 0
    threads: NonNegativeInt = 0
    """Threads of torch on a CPU; 0: one for each core."""
