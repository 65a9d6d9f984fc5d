"""Small data sets for these tests, written in their sources' own formats."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from saccade.media.store import MediaStore
from saccade.record.task import Task
from saccade.tasks.benchmarks.benchmark import open_benchmark
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.registry import load_card
from saccade.tasks.benchmarks.row_files import RowProblem


def png(colour: str = "red", size: tuple[int, int] = (12, 9)) -> bytes:
    file = BytesIO()
    Image.new("RGB", size, colour).save(file, "PNG")
    return file.getvalue()


def base64_png(colour: str = "red") -> str:
    return base64.b64encode(png(colour)).decode()


def write_png(path: Path, colour: str = "red", size: tuple[int, int] = (12, 9)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(colour, size))


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_json(path: Path, data: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")


def write_tsv(path: Path, rows: list[Mapping[str, str]]) -> None:
    """As pandas writes it: cells with tabs, quotes or line breaks are quoted."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in '\t"\n') else text

    lines = ["\t".join(rows[0]), *("\t".join(cell(row[name]) for name in rows[0]) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def read(card: Card | str, folder: Path, store: Path) -> list[Task | RowProblem]:
    loaded = load_card(card) if isinstance(card, str) else card
    return list(open_benchmark(loaded, folder).tasks(MediaStore(store)))


def only_tasks(items: Iterable[Task | RowProblem]) -> list[Task]:
    kept = list(items)
    problems = [str(item) for item in kept if isinstance(item, RowProblem)]
    assert not problems, problems
    return [item for item in kept if isinstance(item, Task)]


def place_of(item: Task | RowProblem) -> tuple[int | None, str]:
    """Row and field of a problem."""
    assert isinstance(item, RowProblem), item
    return item.row, item.field


def card_of(**changes: Any) -> Card:
    """A card of one picture, a question and an answer in JSON lines, with some tables changed."""
    data: dict[str, Any] = {
        "id": "made-up@1",
        "title": "Made up",
        "split": "test",
        "media": "image",
        "prompt": "short",
        "answer_type": "text",
        "source": {"name": "nobody/made-up", "url": "https://example.org/made-up", "get": "write it to {folder}"},
        "loader": {"id": "rows@1", "files": ["data.jsonl"], "media": ["images"]},
        "fields": {"id": "id", "question": "question", "images": "image", "answer": "answer"},
        "graders": {"text": "text@1", "choice": "choice@1"},
    }
    for name, value in changes.items():
        data[name] = {**data[name], **value} if isinstance(data.get(name), dict) else value
    return Card.model_validate(data)
