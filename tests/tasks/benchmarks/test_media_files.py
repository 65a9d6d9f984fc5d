"""Media that very many rows name: a folder is listed once, and says the same as a look for each file."""

import os
from pathlib import Path

import pytest

from saccade.tasks.benchmarks import row_files
from saccade.tasks.benchmarks.row_files import FieldError, MediaFiles

NAMED = [
    "0.jpg",
    "1",
    "sub/2.jpg",
    "there.jpg",
    "folder.jpg",
    "gone.jpg",
    "/elsewhere/sub/2.jpg",
    "",
    "a\0b",
    "?" * 2000,
]


def found(files: MediaFiles, name: str) -> bool:
    try:
        files.named(name)
    except FieldError:
        return False
    return True


def test_a_folder_that_is_asked_for_often_is_listed_and_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("0.jpg", "1.jpg", "sub/2.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "there.jpg").symlink_to(tmp_path / "0.jpg")
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nothing")
    one_by_one = MediaFiles(tmp_path, anywhere=True)
    wanted = [found(one_by_one, name) for name in NAMED]
    assert wanted == [True, True, True, True, False, False, True, False, False, False]
    monkeypatch.setattr(row_files, "_OFTEN", 2)
    listing = MediaFiles(tmp_path, anywhere=True)
    assert all([found(listing, name) for name in NAMED] == wanted for _ in range(4))
    assert {str(tmp_path), str(tmp_path / "sub")} <= set(listing._listed)
    scanned: list[object] = []
    monkeypatch.setattr(os.path, "isfile", scanned.append)
    assert found(listing, "0.jpg")
    assert not scanned
