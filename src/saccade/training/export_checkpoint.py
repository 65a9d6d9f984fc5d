"""A checkpoint of a training run as a model folder of its own, to be asked, measured or trained on.

The checkpoint holds the trained weights alone; all others are those of the model that the run began with, which must
still be where its settings say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from saccade.errors import TrainingError
from saccade.training.checkpoints import read_checkpoint
from saccade.training.settings import ModelSettings
from saccade.training.weights import export, load_trainable


def export_checkpoint(
    checkpoint: Path, out: Path, settings: ModelSettings, dtype: str, dialects: Mapping[str, int]
) -> int:
    """Write the model of a checkpoint into the folder `out`, on the CPU; the step that it was made after.

    Args:
        checkpoint: `OUT/checkpoints/step-...`.
        out: what is there is replaced.
        settings: of the model that the run trains.
        dtype: `float32`, `bfloat16`, or `auto`: that of the run's arithmetic on a CPU.
        dialects: those that it learned, in place of those that the checkpoint names.

    Raises:
        TrainingError: it cannot be read, or holds other weights than the run trains.
        ModelRefusedError: the model that the run began with cannot be loaded.
    """
    state, weights = read_checkpoint(checkpoint, "Name another one.")
    trained = load_trainable(settings, torch.device("cpu"), seed=0)
    parameters = trained.parameters()
    if parameters.keys() != weights.keys():
        odd = min(parameters.keys() ^ weights.keys())
        raise TrainingError(
            f"{checkpoint} does not fit the run's settings: only one of them has the weight {odd}. The model that the "
            f"run began with ({settings.source}) may have been replaced; put the old one back."
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
    out.parent.mkdir(parents=True, exist_ok=True)
    export(trained, out, dtype, dialects or state.more.get("dialects", {}))
    return state.step
