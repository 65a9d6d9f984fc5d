"""Find the weights of `saccade-tiny`, if this installation has them."""

from __future__ import annotations

from pathlib import Path

from saccade.errors import UnavailableError

FOLDER = Path(__file__).parent / "weights" / "tiny"


def tiny_weights() -> Path:
    """The folder of the checkpoint.

    Raises:
        UnavailableError: it is not there.
    """
    if not (FOLDER / "model.safetensors").is_file():
        raise UnavailableError(
            "this installation has no weights of saccade-tiny. Build them with `python examples/tiny/build.py "
            "--out runs/tiny` in the repository and name them: --model local:runs/tiny/model"
        )
    return FOLDER
