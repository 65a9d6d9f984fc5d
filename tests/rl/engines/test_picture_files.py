"""Pictures that are sent with every turn are made once, lie on the disk, and arrive as JSON would have them."""

from __future__ import annotations

import asyncio
import errno
import json
from pathlib import Path

import pytest

from saccade.errors import ModelLostError
from saccade.models.pictures import EncodedPicture
from saccade.record.content import ImagePart
from saccade.rl.engines import picture_files
from saccade.rl.engines.picture_files import PictureFiles, streamed_body


def part(number: int) -> ImagePart:
    return ImagePart(sha256=f"{number:064x}", width=1, height=1, mode="RGB", mime="image/png")


class Encoder:
    def __init__(self) -> None:
        self.calls = 0
        self.broken = False

    def __call__(self, wanted: ImagePart) -> EncodedPicture:
        self.calls += 1
        if self.broken:
            raise OSError(errno.EIO, "no")
        return EncodedPicture("image/png", wanted.sha256.encode() * 3)


async def test_each_is_encoded_once_however_many_there_are() -> None:
    encode = Encoder()
    files = PictureFiles(encode)
    parts = [part(number) for number in range(300)]
    for _ in range(3):  # three turns, whose pictures are asked for by two episodes at once
        await asyncio.gather(*(files.file_of(item) for item in (*parts, *parts)))
    assert encode.calls == 300
    file = await files.file_of(parts[7])
    assert file.path.read_text() == encode(parts[7]).url
    assert file.size == file.path.stat().st_size
    files.clear()
    assert not file.path.parent.exists()
    assert (await files.file_of(parts[7])).path.exists()
    files.clear()


async def test_what_failed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = Encoder()
    files = PictureFiles(encode)
    encode.broken = True
    with pytest.raises(OSError, match="no"):
        await files.file_of(part(1))
    encode.broken = False
    assert (await files.file_of(part(1))).size > 0

    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ModelLostError, match="TMPDIR"):
        await files.file_of(part(2))
    files.clear()


async def test_a_body_is_what_json_makes_of_the_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_files, "_PIECE", 50)
    encode = Encoder()
    files = PictureFiles(encode)
    pictures = [await files.file_of(part(number)) for number in (3, 4, 3)]  # the same twice
    body = streamed_body({"ids": [1, 2], "urls": [picture.mark for picture in pictures], "end": "}"}, pictures)
    pieces = [piece async for piece in body.pieces()]
    assert max(map(len, pieces)) <= 50
    expected = {"ids": [1, 2], "urls": [encode(part(number)).url for number in (3, 4, 3)], "end": "}"}
    assert json.loads(b"".join(pieces)) == expected
    assert body.size == sum(map(len, pieces))
    assert [piece async for piece in body.pieces()] == pieces  # a request is tried again
    with pytest.raises(ValueError, match="does not hold"):
        streamed_body({"urls": []}, pictures)
    files.clear()
