"""The BlindTest files beside the repository, where there are any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

FOLDER = Path(__file__).parents[5] / "shared/data/blindtest"
TASKS = ("counting_shapes", "line_intersection", "nested_squares", "rows_columns", "touching_circles")
needs_files = pytest.mark.skipif(not FOLDER.exists(), reason="there are no BlindTest files beside the repository")


def rows(task: str, step: int = 1) -> list[dict[str, Any]]:
    """Every `step`-th row of a task: question, answer, image."""
    lines = (FOLDER / "blindtest.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["task"] == task][::step]


def picture(row: dict[str, Any]) -> Image.Image:
    return Image.open(FOLDER / row["image"])
