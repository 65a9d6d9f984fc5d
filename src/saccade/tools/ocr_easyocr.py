"""EasyOCR in RapidOCR's place: eighty languages, on a GPU if there is one; it brings no models in its wheel.

Its models lie where `weights` of the setup says, or else in its own folder; nothing is downloaded here. The package is
under Apache 2.0 and needs torch and torchvision.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image

from saccade.errors import UnavailableError
from saccade.tools.setup import ToolSetup


def easyocr_engine(setup: ToolSetup) -> Callable[..., Any]:
    """A function that reads a picture, and gives boxes (four corners), texts and scores as RapidOCR does.

    Raises:
        UnavailableError: the package or its models are not there.
    """
    try:
        import easyocr
    except ImportError as error:
        raise UnavailableError(
            "the setup of tools names easyocr, which is not installed: pip install easyocr"
        ) from error
    try:
        reader = easyocr.Reader(
            list(setup.languages),
            gpu=setup.device != "cpu",
            model_storage_directory=setup.weights or None,
            download_enabled=False,
            verbose=False,
        )
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise UnavailableError(f"easyocr cannot load its models ({', '.join(setup.languages)}): {why}") from error

    def read(picture: Image.Image, *, text_score: float) -> SimpleNamespace:
        rows = [row for row in reader.readtext(np.asarray(picture)) if row[2] >= text_score]
        boxes, texts, scores = zip(*rows, strict=True) if rows else ((), (), ())
        return SimpleNamespace(boxes=boxes, txts=texts, scores=scores)

    return read
