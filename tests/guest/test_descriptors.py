"""Every open descriptor is found, whatever it stands for."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import pytest

from saccade.guest import descriptors
from saccade.guest.descriptors import program_fds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


@pytest.fixture(params=["told", "not told"])
def _count_of_descriptors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a kernel that tells how many are open, and on an older one."""
    if request.param == "not told":
        monkeypatch.setattr(descriptors, "_count", lambda: 0)


@pytest.mark.usefixtures("_count_of_descriptors")
def test_files_pipes_and_mere_paths_are_found(tmp_path: Path) -> None:
    before = program_fds()
    reader, writer = os.pipe()
    file = os.open(tmp_path / "f", os.O_CREAT | os.O_RDWR)
    path = os.open(tmp_path, os.O_PATH)
    try:
        assert sorted({*before, reader, writer, file, path}) == program_fds()
    finally:
        for fd in (reader, writer, file, path):
            os.close(fd)
    assert program_fds() == before


@pytest.mark.usefixtures("_count_of_descriptors")
def test_what_was_known_is_looked_at_again(tmp_path: Path) -> None:
    before = program_fds()
    file, path = os.open(tmp_path, os.O_RDONLY), os.open(tmp_path, os.O_PATH)
    try:
        known = program_fds()
        assert program_fds(known) == known == sorted({*before, file, path})
        os.dup2(path, file)
        assert program_fds(known) == known
        os.close(file)
        assert program_fds(known) == sorted({*before, path})
        # As many as were known, but others.
        other = os.open(tmp_path, os.O_PATH)
        moved = fcntl.fcntl(other, fcntl.F_DUPFD_CLOEXEC, other + 1)
        os.close(other)
        assert program_fds(known) == sorted({*before, path, moved})
        os.close(moved)
    finally:
        os.close(path)
    assert program_fds(before) == before
