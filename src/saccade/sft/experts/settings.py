"""How experts write: which styles, how long their thoughts are, how they show pictures."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeFloat, model_validator

from saccade.record.settings import Settings

Style = Literal["crop", "compute", "consult", "mistake", "direct"]
STYLES: tuple[Style, ...] = ("crop", "compute", "consult", "mistake", "direct")


class StyleWeights(Settings):
    """How often each style is taken where it fits the sample; 0 for never."""

    crop: NonNegativeFloat = 4.0
    """Cut out where the answer can be seen, look, answer."""
    compute: NonNegativeFloat = 4.0
    """Run the world's program, read what it prints, answer."""
    consult: NonNegativeFloat = 2.0
    """Call a typed tool that measures or reads, answer what it returned. Reading (`ocr`) takes a second or more."""
    mistake: NonNegativeFloat = 1.5
    """A crop or a program with a slip that happens, is noticed and is repaired."""
    direct: NonNegativeFloat = 0.5
    """Answer at once, where the picture is small and the sample is easy."""


class ShowWeights(Settings):
    """How often a picture is shown in each way, in dialects where programs show pictures without saving them."""

    plt: NonNegativeFloat = 3.0
    """`plt.imshow` and `plt.show`: a figure, in matplotlib's own size."""
    show: NonNegativeFloat = 2.0
    """`Image.show`: the pixels as they are."""
    display: NonNegativeFloat = 1.0
    """`display` from IPython: the pixels as they are."""

    @model_validator(mode="after")
    def _some(self) -> ShowWeights:
        if not self.plt + self.show + self.display:
            raise ValueError("one way of showing pictures needs a weight above 0")
        return self


class ExpertSettings(Settings):
    """How an expert acts and what its thoughts are like."""

    styles: StyleWeights = StyleWeights()
    show: ShowWeights = ShowWeights()
    verbosity: Literal["short", "long"] = "long"
    """Thoughts of a few words for tiny models, of a few sentences for others."""
    crop_side: int = Field(448, ge=32, le=2048)
    """Longer side in pixels to which smaller crops are enlarged."""
    wide_percent: int = Field(30, ge=0, le=100)
    """In how many of 100 crops a wider one comes first."""
    cells_percent: int = Field(40, ge=0, le=100)
    """In how many of 100 programs several cells are written."""
    longest_program: int = Field(20_000, ge=0)
    """Characters; samples whose program is longer are not computed."""
    direct_difficulty: float = Field(0.45, ge=0, le=1)
    """Hardest sample (0 to 1 within its world) that is answered at once."""
    direct_pixels: int = Field(400_000, ge=0)
    """Largest picture that is answered at once: above, a model's input would be shrunk."""
