"""Everything that decides a training run, resolved from a recipe and saved beside what it made."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from saccade.record.settings import Settings
from saccade.tokens.build import SampledIds

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]


class DataSettings(Settings):
    """Which trajectories, and how they become tokens."""

    runs: tuple[str, ...] = ()
    """Run folders, each with `trajectories.jsonl` and `media/`."""
    sampled_ids: SampledIds = "recorded"
    """`recorded`: the ids that were sampled, where the record has them; `text`: always from the turn's text."""
    most_tokens: PositiveInt = 16_384
    """Longer trajectories lose their last turns; those whose first turn does not fit are left out. Never more than the
    checkpoint's context."""
    picture_cache_mib: PositiveInt = 2048
    """Memory for pictures that were read once."""


class LossSettings(Settings):
    """Which turns are learned. Observations never are."""

    error_turns: Literal["learn", "skip"] = "learn"
    """Turns whose code or call failed, or in which no action was found."""
    earlier_rounds: Literal["learn", "skip"] = "learn"
    """`skip`: with two or more observations, only what follows the last but one is learned (Thyme's SFT)."""


class LoraSettings(Settings):
    """Low-rank adapters on the language model."""

    rank: PositiveInt = 32
    alpha: PositiveInt = 64
    dropout: Fraction = 0.05
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """Names of the linear layers that get one."""


class ModelSettings(Settings):
    """The checkpoint, and which of its weights are trained."""

    source: str = ""
    """A folder, or a name on the hub."""
    revision: str = ""
    """Branch, tag or commit on the hub; empty for its default."""
    language: Literal["full", "lora"] = "full"
    lora: LoraSettings = LoraSettings()
    vision: Literal["frozen", "projector", "full"] = "frozen"
    """What of the vision tower is trained: nothing, what maps its features to the language model, everything."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the arithmetic. `bfloat16` keeps trained weights in float32. `auto`: bfloat16 on a GPU, float32 on a CPU."""
    attention: str = "sdpa"
    """As transformers names it: `sdpa`, `eager`, `flash_attention_2`, ..."""
    gradient_checkpointing: bool = False
    """Less memory for a third more time."""
    picture_pixels: NonNegativeInt = 0
    """Most pixels of a picture as the model sees it; saved with the trained model. 0: what the checkpoint says."""


class OptimiserSettings(Settings):
    """The optimiser, with linear warm-up and cosine decay."""

    method: Literal["adamw", "muon"] = "adamw"
    """`muon` is for models trained from nothing."""
    learning_rate: PositiveFloat = 1e-5
    vision_learning_rate: NonNegativeFloat = 0.0
    """Of the vision tower's trained weights; 0: the same."""
    final_fraction: Fraction = 0.0
    """Learning rate at the last step, as a fraction."""
    warmup: Fraction = 0.03
    """Fraction of the steps."""
    weight_decay: NonNegativeFloat = 0.0
    """On matrices alone."""
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: PositiveFloat = 1e-8
    clip: NonNegativeFloat = 1.0
    """Largest norm of the gradient; 0 for no limit."""


class BatchSettings(Settings):
    """What goes into one step, and into one forward pass of it."""

    trajectories: PositiveInt = 128
    """Trajectories of a step, over all GPUs. The loss is the mean over all their learned tokens."""
    tokens: PositiveInt = 16_384
    """Most tokens of a forward pass, padding included; gradients are accumulated over as many as a step needs."""
    layout: Literal["auto", "padded", "packed"] = "auto"
    """`packed`: trajectories end to end, seeing themselves alone. `auto`: packed with flash attention, else padded."""


class ValidationSettings(Settings):
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


class KeepSettings(Settings):
    """What is written."""

    every: PositiveInt = 200
    """Steps between checkpoints."""
    checkpoints: PositiveInt = 2
    """How many of them stay."""
    tensorboard: bool = True
    """Where the package is installed."""
    tracker: Literal["none", "wandb", "trackio"] = "none"
    project: str = "saccade"
    """Name of the tracker's project."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the exported weights; `auto`: that of the arithmetic."""


class SftSettings(Settings):
    """The settings of `saccade sft`."""

    data: DataSettings = DataSettings()
    model: ModelSettings = ModelSettings()
    loss: LossSettings = LossSettings()
    optimiser: OptimiserSettings = OptimiserSettings()
    batch: BatchSettings = BatchSettings()
    validation: ValidationSettings = ValidationSettings()
    keep: KeepSettings = KeepSettings()
    epochs: PositiveFloat = 1.0
    steps: NonNegativeInt = 0
    """Steps; 0: as `epochs` says."""
    seed: NonNegativeInt = 0
    threads: NonNegativeInt = 0
    """Threads of torch on a CPU; 0: one for each core."""
