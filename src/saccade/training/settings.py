"""Settings that every trainer shares: the checkpoint and what of it is trained, the optimizer, what is kept."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from saccade.core.settings import Settings

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]


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
    """Part of the vision tower that is trained: none, the projector to the language model, all."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the arithmetic. `bfloat16` keeps trained weights in float32. `auto`: bfloat16 on a GPU, float32 on a CPU."""
    attention: str = "auto"
    """`auto`: torch's own, over rows of several lengths (`saccade.training.weights`); or as transformers names it:
    `sdpa`, `eager`, `flash_attention_2`, ..."""
    vision_attention: str = ""
    """The same for the vision tower only; empty: as `attention`. On a CPU `eager` is faster for tiny pictures."""
    gradient_checkpointing: bool | PositiveInt | Literal["auto"] = False
    """Less memory for up to a third more time: all layers compute their activations again in the backward pass, or so
    many of the language model. `auto`: as many as `--plan` finds that this GPU's memory needs."""
    logit_chunk: PositiveInt = 1024
    """Tokens whose logits exist at once, forward and backward: 14 bytes for each of them and each id there is."""
    shard: bool = False
    """Over several processes: each keeps a part of the weights, gradients and optimizer's state (FSDP2)."""
    picture_pixels: NonNegativeInt = 0
    """Most pixels of a picture as the model sees it; saved with the trained model. 0: what the checkpoint says."""


class OptimizerSettings(Settings):
    """The optimizer, with linear warm-up and cosine decay."""

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
    """On matrices only."""
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: PositiveFloat = 1e-8
    clip: NonNegativeFloat = 1.0
    """Largest norm of the gradient; 0 for no limit."""


class KeepSettings(Settings):
    """Files that the run writes."""

    every: PositiveInt = 200
    """Steps between checkpoints."""
    checkpoints: PositiveInt = 2
    """How many of the newest stay."""
    milestones: NonNegativeInt = 0
    """Checkpoints of steps divisible by this stay too; 0: none."""
    tensorboard: bool = True
    """Where the package is installed."""
    tracker: Literal["none", "wandb", "trackio"] = "none"
    project: str = "saccade"
    """Name of the tracker's project."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the exported weights; `auto`: that of the arithmetic."""
