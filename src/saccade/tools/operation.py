"""Name what a call does to a picture: the operations of PyVision's taxonomy, for typed tools and code alike."""

from __future__ import annotations

from enum import StrEnum


class Operation(StrEnum):
    """What a call does."""

    CROP = "crop"
    ZOOM = "zoom"
    """A picture or a part of it is enlarged."""
    ROTATE = "rotate"
    """Turned or mirrored."""
    ENHANCE = "enhance"
    """Contrast, brightness, sharpness, noise, colours."""
    SEGMENT = "segment"
    """Pixels are told apart: thresholds, colour masks, clusters, connected parts."""
    DETECT_EDGES = "detect_edges"
    """Edges, contours, lines, circles, corners."""
    HISTOGRAM = "histogram"
    """Of colours or brightness."""
    NUMERICAL_ANALYSIS = "numerical_analysis"
    """Numbers are computed and printed."""
    OCR = "ocr"
    DRAW = "draw"
    """Marks on a picture: boxes, points, lines, labels, a grid."""
    SKETCH = "sketch"
    """A picture or a chart is drawn that is not the task's."""
    FRAME_FETCH = "frame_fetch"
    """Frames of a video."""
    COMPARE = "compare"
    """Pictures or parts are put beside each other, or their difference or likeness is computed."""
    NO_OPERATION = "no_operation"
    """A picture is shown as it is, or nothing is done to one."""
    OTHER = "other"
    """Something is done that is none of these."""
    UNREADABLE = "unreadable"
    """The code is no Python, or too long to be read."""
