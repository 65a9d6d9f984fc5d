"""Which lines of text stand on their heads is asked only where they were not surely read.

Most text is upright, and the classifier of direction takes some short words, such as Fri, to be on their heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

_SURE: Final = 0.9
"""Confidence from which a line is taken as upright."""
_TURNED: Final = "180"


class UprightRecognizer:
    """RapidOCR's recogniser in its place: lines that it cannot read surely are turned where the classifier says so."""

    def __init__(self, recognizer: Callable[[Any], Any], classifier: Callable[[list[Any]], Any]) -> None:
        self._recognizer: Any = recognizer
        self._classifier: Any = classifier

    def __call__(self, asked: Any) -> Any:
        """What the recogniser gives for the lines, each upright.

        Where one is turned, so may be others that can be read either way; then all are asked for.
        """
        read = self._recognizer(asked)
        unsure = [place for place, score in enumerate(read.scores) if score < _SURE]
        turned = self._turned(asked.img, unsure)
        if turned:
            turned |= self._turned(asked.img, [place for place in range(len(read.scores)) if place not in unsure])
        if not turned:
            return read
        again = self._recognizer(type(asked)(img=list(turned.values()), return_word_box=asked.return_word_box))
        texts, scores = list(read.txts), list(read.scores)
        for place, text, score in zip(turned, again.txts, again.scores, strict=True):
            texts[place], scores[place] = text, score
        read.txts, read.scores = tuple(texts), tuple(scores)
        return read

    def _turned(self, lines: Sequence[Any], places: Sequence[int]) -> dict[int, Any]:
        """Place -> the line upright, of those that are not."""
        if not places:
            return {}
        least = self._classifier.cls_thresh
        said = self._classifier([lines[place] for place in places]).cls_res
        return {
            place: np.ascontiguousarray(np.rot90(lines[place], 2))
            for place, (label, score) in zip(places, said, strict=True)
            if _TURNED in label and score > least
        }
