"""A leaf and a keeper without a jail: what they do with each message, and what stays of a call."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.guest.children import in_child

from saccade.guest import inspection, wire
from saccade.guest.cell import Interpreter
from saccade.guest.session import make_own, remap
from saccade.guest.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


PAGE = mmap.PAGESIZE
READ, WRITE = mmap.PROT_READ, mmap.PROT_WRITE


def test_mappings_show_the_files_of_the_present_workspace(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_bytes(b"0" * PAGE + name.encode() * PAGE)

    def move() -> Any:
        os.chdir(tmp_path / "old")
        own = inspection.Belongings(str(tmp_path / "old"), str(tmp_path), 0, frozenset())
        fd = os.open("f", os.O_RDWR)
        kinds = ((mmap.MAP_SHARED, READ | WRITE), (mmap.MAP_SHARED, READ), (mmap.MAP_PRIVATE, READ | WRITE))
        shared, readable, private = (mmap.mmap(fd, PAGE, flags, prot, offset=PAGE) for flags, prot in kinds)
        private[:4] = b"mine"
        maps = inspection.in_workspace(inspection.shared_maps(os.getpid()), own)
        before = shared[:3].decode()
        os.dup2(os.open(tmp_path / "new", os.O_RDONLY), wire.WORKSPACE_FD)
        workspace = Workspace(wire.WORKSPACE_FD)
        workspace.commit()
        state = cast(Interpreter, SimpleNamespace(maps=[(each, 0) for each in maps], workspace=workspace))
        os.chmod(tmp_path / "new" / "f", 0o400)
        open_before = len(os.listdir("/proc/self/fd"))
        remap(state)
        make_own(inspection.private_maps(os.getpid(), own, {}))
        os.truncate("f", 0)
        shared[3:6] = b"xyz"
        private[4:8] = b"mind"
        after = [view[:8].decode() for view in (shared, readable, private)]
        left = [line for line in Path("/proc/self/maps").read_text().splitlines() if "old/f" in line]
        now = dataclasses.replace(own, workspace=str(tmp_path / "new"))
        same = inspection.in_workspace(inspection.shared_maps(os.getpid()), now) == maps
        os.unlink(tmp_path / "new" / "f")
        remap(state)  # those of present files stay, and so none is looked for
        return len(maps), before, after, left, same, len(os.listdir("/proc/self/fd")) - open_before

    count, before, after, left, same, opened = in_child(move)
    assert (count, before) == (2, "old")
    assert after == ["newxyzne", "newxyzne", "minemind"]
    assert left == [], "nothing of the old workspace is mapped any more"
    assert same
    assert opened == 0


def test_private_memory_of_a_file_becomes_the_programs_own_with_gaps_and_rights(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a" * 2 * PAGE + b"end")
    libc = ctypes.CDLL(None)

    def copy() -> Any:
        view = mmap.mmap(os.open(path, os.O_RDWR), 2 * PAGE + 3, flags=mmap.MAP_PRIVATE, prot=READ | WRITE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(view))
        view[PAGE : PAGE + 4] = b"mine"
        libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(3 * PAGE), 0)
        os.truncate(path, 2 * PAGE)  # its last page is no more
        make_own([[start, start + 3 * PAGE, "---p", 0, str(path)]])
        with pytest.raises(OSError, match="Bad address"):
            os.write(os.pipe()[1], (ctypes.c_char * 9).from_address(start))
        libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(3 * PAGE), READ)
        os.truncate(path, 0)
        return view[:2].decode(), view[PAGE : PAGE + 6].decode(), view[2 * PAGE :] == bytes(3)

    assert in_child(copy) == ["aa", "mineaa", True]
