"""A leaf and a keeper without a jail: what they do with each message, and what stays of a call."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.guest.children import in_child

from saccade.guest import inspection, wire
from saccade.guest.session import remap

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


PAGE = mmap.PAGESIZE
READ, WRITE = mmap.PROT_READ, mmap.PROT_WRITE


def test_mappings_show_the_files_of_the_present_workspace(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_bytes(b"0" * PAGE + name.encode() * PAGE)

    def move() -> Any:
        os.chdir(tmp_path / "old")
        fd = os.open("f", os.O_RDWR)
        kinds = ((mmap.MAP_SHARED, READ | WRITE), (mmap.MAP_SHARED, READ), (mmap.MAP_PRIVATE, READ | WRITE))
        shared, readable, private = (mmap.mmap(fd, PAGE, flags, prot, offset=PAGE) for flags, prot in kinds)
        private[:4] = b"mine"
        maps = inspection.workspace_maps(os.getpid(), str(tmp_path / "old"))
        before = shared[:3].decode()
        os.dup2(os.open(tmp_path / "new", os.O_RDONLY), wire.WORKSPACE_FD)
        os.chmod(tmp_path / "new" / "f", 0o400)
        open_before = len(os.listdir("/proc/self/fd"))
        remap(maps)
        shared[3:6] = b"xyz"
        private[4:8] = b"mind"
        after = [view[:8].decode() for view in (shared, readable, private)]
        left = inspection.workspace_maps(os.getpid(), str(tmp_path / "old"))
        now = inspection.workspace_maps(os.getpid(), str(tmp_path / "new"))
        same = [(m.start, m.end, m.mode, m.offset) for m in now] == [
            (m.start, m.end, m.mode, m.offset) for m in maps if m.mode.endswith("s")
        ]
        return len(maps), before, after, left, same, len(os.listdir("/proc/self/fd")) - open_before

    count, before, after, left, same, opened = in_child(move)
    assert (count, before) == (3, "old")
    assert after == ["newxyzne", "newxyzne", "minemind"]
    assert left == [], "nothing of the old workspace is mapped any more"
    assert same
    assert opened == 0
    assert (tmp_path / "new" / "f").read_bytes()[PAGE : PAGE + 8] == b"newxyzne"
    assert (tmp_path / "old" / "f").read_bytes()[PAGE : PAGE + 8] == b"oldoldol"
