"""Pictures that are sent with every turn are made once, lie on the disk, and arrive as JSON would have them."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from saccade.errors import ModelLostError
from saccade.models.pictures import EncodedPicture
from saccade.record.content import ImagePart
from saccade.training.rl.engines import picture_files
from saccade.training.rl.engines.picture_files import PictureFile, PictureFiles, streamed_body


def part(number: int) -> ImagePart:
    return ImagePart(sha256=f"{number:064x}", width=1, height=1, mode="RGB", mime="image/png")


async def first(files: PictureFiles, number: int) -> PictureFile:
    async with files.files_of([part(number)]) as (file,):
        return file


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
        async with files.files_of(parts), files.files_of(parts):
            pass
    assert encode.calls == 300
    async with files.files_of(parts[7:8]) as (file,):
        assert file.path.read_text() == encode(parts[7]).url
        assert file.size == file.path.stat().st_size
    files.clear()
    assert not file.path.parent.exists()
    async with files.files_of(parts[7:8]) as (file,):
        assert file.path.exists()
    files.clear()


async def test_a_request_that_is_under_way_keeps_its_files() -> None:
    """One that waits for a server with old weights is sent, or sent again, after the update that clears them."""
    files = PictureFiles(Encoder())
    async with files.files_of([part(1)]) as (old,):
        async with files.files_of([part(1)]) as (same,):
            files.clear()
        assert old.path.exists()
        assert same.path == old.path
        async with files.files_of([part(1)]) as (new,):
            assert new.path != old.path
    assert not old.path.parent.exists()
    assert new.path.exists()
    files.clear()
    assert not new.path.parent.exists()


async def test_what_failed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = Encoder()
    files = PictureFiles(encode)
    encode.broken = True
    with pytest.raises(OSError, match="no"):
        await first(files, 1)
    encode.broken = False
    assert (await first(files, 1)).size > 0

    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ModelLostError, match="TMPDIR"):
        await first(files, 2)
    files.clear()


async def test_a_body_is_what_json_makes_of_the_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_files, "_PIECE", 50)
    encode = Encoder()
    files = PictureFiles(encode)
    pictures = [await first(files, number) for number in (3, 4, 3)]  # the same twice
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


async def test_a_picture_is_sent_a_quarter_of_a_mebibyte_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "picture"
    path.write_bytes(bytes(600_000))
    picture = PictureFile(path, 600_000)
    body = streamed_body({"url": picture.mark}, [picture])
    assert [len(piece) async for piece in body.pieces()][1:-1] == [2**18, 2**18, 600_000 - 2**19]
