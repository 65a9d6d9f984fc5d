"""What a sandbox or a tool gave back, as it is recorded: pixels go into the media store, the record names them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from saccade.media.store import MediaStore
from saccade.record.base import clean_text
from saccade.record.content import ImagePart
from saccade.record.execution import (
    Execution,
    ExecutionFile,
    ExecutionPicture,
    ExecutionRepair,
    ExecutionTimings,
)
from saccade.record.status import Status
from saccade.sandbox.result import RunResult

if TYPE_CHECKING:
    from PIL.Image import Image

    from saccade.tools.result import ToolResult


async def of_run(result: RunResult, store: MediaStore) -> Execution:
    """The record of a sandbox's call. Its pictures are stored, and on the disk, when this returns."""
    parts = await _stored([picture.image() for picture in result.pictures], store)
    return Execution(
        status=result.status,
        stdout=clean_text(result.stdout),
        stderr=clean_text(result.stderr),
        value=None if result.value is None else clean_text(result.value),
        traceback=None if result.traceback is None else clean_text(result.traceback),
        pictures=tuple(
            ExecutionPicture(image=part, source=picture.source, path=_path(picture.path))
            for picture, part in zip(result.pictures, parts, strict=True)
        ),
        files=tuple(ExecutionFile(path=clean_text(file.path), size=file.size) for file in result.files),
        repairs=tuple(ExecutionRepair(name=repair.name, note=clean_text(repair.note)) for repair in result.repairs),
        notes=tuple(clean_text(note) for note in result.notes),
        committed=result.committed,
        timings=ExecutionTimings(
            wall=result.timings.wall, run=result.timings.run, cpu=result.timings.cpu, capture=result.timings.capture
        ),
        layers=result.layers,
    )


async def of_tool(result: ToolResult, store: MediaStore) -> Execution:
    """The record of a tool's call. What the model may read of a failure stands where a traceback would."""
    parts = await _stored([picture.image for picture in result.pictures], store)
    failed = result.status is not Status.OK
    text = clean_text(result.text)
    return Execution(
        status=result.status,
        value=None if failed else text,
        traceback=f"ToolError: {text}" if failed and text else None,
        problem=None if result.problem is None else result.problem.kind.value,
        pictures=tuple(ExecutionPicture(image=part, source="tool") for part in parts),
        committed=not failed,
    )


async def _stored(images: Sequence[Image], store: MediaStore) -> list[ImagePart]:
    if not images:
        return []
    # Encoding and waiting for the disk would hold up every other episode of this loop.
    return await asyncio.to_thread(lambda: [store.put_image(image) for image in images])


def _path(path: str | None) -> str | None:
    return None if path is None else clean_text(path)
