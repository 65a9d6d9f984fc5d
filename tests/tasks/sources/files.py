"""Files of rows in the forms of this field, with pictures and videos, for the tests of sources."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image


def picture(path: Path, colour: str = "red", mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (64, 48), colour).save(path)
    return path


def png(colour: str = "red") -> bytes:
    data = BytesIO()
    Image.new("RGB", (32, 32), colour).save(data, "PNG")
    return data.getvalue()


def video(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=8)
        stream.width, stream.height = 64, 48
        for number in range(16):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), number * 15, np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def parquet(path: Path, rows: Sequence[Mapping[str, Any]], **options: Any) -> Path:
    import pyarrow
    from pyarrow import parquet as files

    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), path, **options)
    return path


def deepeyes_row(number: int, **more: Any) -> dict[str, Any]:
    """As DeepEyes-Datasets-47k and verl's image data sets have it."""
    row: dict[str, Any] = {
        "data_source": "vstar",
        "prompt": [
            {"role": "system", "content": "You may call a tool."},
            {"role": "user", "content": f"<image>\nWhat colour is sign {number}?\nThink first."},
        ],
        "images": [{"bytes": png(), "path": None}],
        "env_name": "visual_toolbox_v2",
        "ability": "vl_reasoning",
        "reward_model": {"style": "model", "ground_truth": "red"},
        "extra_info": {
            "index": number,
            "question": f"What colour is sign {number}?",
            "answer": "red",
            "split": "train",
        },
    }
    return row | more


def pyvision_row(number: int, kind: str, path: str) -> dict[str, Any]:
    """As PyVision-RL's JSON lists have it."""
    return {
        "prompt": [{"role": "user", "content": "instructions ... <image> What happens?"}],
        "data_source": "spacer" if kind == "video" else "mmk12",
        "ability": "vl",
        "env_name": f"pyvision_gym_wo_{kind}_hint",
        "reward_model": {"ground_truth": "7", "style": "model"},
        "extra_info": {"answer": "7", "index": number, "question": "How many are there?", "split": "train"},
        "mm_hint": {"hint_path": path, "hint_type": kind},
    }
