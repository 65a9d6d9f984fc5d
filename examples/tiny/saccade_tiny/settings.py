"""The recipe of a tiny model: demonstrations, tokenizer, shape, stages of training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from saccade.core.settings import Settings
from saccade.plugins.worlds.cli import Exam

RECIPE = Path(__file__).resolve().parent.parent / "tiny.toml"
"""Of the bundled weights."""
Share = Annotated[float, Field(gt=0, le=1)]


class DemonstrationRun(Settings):
    """A run folder of demonstrations: what `saccade synth` takes, by the names that it has there."""

    name: str = Field(pattern=r"[a-z0-9-]+")
    """Of the folder."""
    worlds: tuple[str, ...] = Field(min_length=1)
    dialect: str = "tiny:look"
    n: PositiveInt
    """Tasks of each world."""
    start: int = Field(0, ge=0)
    """Index of the first task."""
    turns: PositiveInt | None = None
    """Tasks whose demonstration takes more turns are left out; None: as many as the dialect allows."""
    knobs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    reword: bool = False
    """Whether questions of the counting and touching families get other wordings."""


class TokenizerSettings(Settings):
    """How texts are cut."""

    vocabulary: PositiveInt = 1500
    """Pieces of words, at most; lines of code come on top."""
    line_share: Share = 0.05
    """A line of code becomes a token if so large a share of a world's demonstrations hold it."""


class TextShape(Settings):
    """The language model."""

    hidden: PositiveInt = 192
    layers: PositiveInt = 4
    heads: PositiveInt = 4
    key_heads: PositiveInt = 2
    intermediate: PositiveInt = 512
    context: PositiveInt = 2048
    """Tokens of prompt and answer together."""
    rope_theta: PositiveFloat = 20.0
    """Small: with the usual 10 000 and more, places a few visual tokens apart would look the same."""
    rope_sections: tuple[int, int, int] = (2, 11, 11)
    """Pairs of dimensions of a head for time, height and width."""


class VisionShape(Settings):
    """The vision tower; patches of 14 pixels, four of them a token."""

    hidden: PositiveInt = 128
    layers: PositiveInt = 3
    heads: PositiveInt = 4
    intermediate: PositiveInt = 256
    least_pixels: PositiveInt = 3136
    most_pixels: PositiveInt = 56_448
    """Larger pictures are shrunk to so many pixels: details are lost, places and colours stay."""


class Stage(Settings):
    """One run of `saccade sft`, which continues from the weights of the stage before."""

    name: str = Field(pattern=r"[a-z0-9-]+")
    demonstrations: tuple[str, ...] = Field(min_length=1)
    """Names of runs of demonstrations, each as often as it is named."""
    steps: PositiveInt
    trajectories: PositiveInt = 32
    """Of a step."""
    average: Literal["tokens", "trajectories"] = "tokens"
    """As `loss.average` of `saccade sft`: with `trajectories` a picture that is named counts as much as a program."""
    vision: Literal["frozen", "projector", "full"] = "full"
    """What of the vision tower learns, as `model.vision` of `saccade sft`."""
    method: Literal["adamw", "muon"] = "muon"
    learning_rate: PositiveFloat = 1.5e-3
    final_fraction: float = Field(0.05, ge=0, lt=1)
    """Of the learning rate, at the last step."""
    warmup: float = Field(0.02, ge=0, lt=1)
    weight_decay: float = Field(0.05, ge=0)


class TinySettings(Settings):
    """Everything that decides what comes out of a build."""

    demonstrations: tuple[DemonstrationRun, ...] = Field(min_length=1)
    tokenizer: TokenizerSettings = TokenizerSettings()
    text: TextShape = TextShape()
    vision: VisionShape = VisionShape()
    stages: tuple[Stage, ...] = Field(min_length=1)
    exams: tuple[Exam, ...] = ()
    precision: Literal["auto", "float32", "bfloat16"] = "float32"
    """Of the arithmetic."""
    seed: int = Field(0, ge=0)
    """Of the first weights and of the order of the demonstrations."""
