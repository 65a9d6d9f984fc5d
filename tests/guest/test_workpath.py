"""One name for the workspace, in a child that has the workspace's descriptor."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.guest.children import in_child

from saccade.guest import folders, wire

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


def test_paths_are_shown_below_the_alias(tmp_path: Path) -> None:
    for name in ("work/d", "workshop"):
        (tmp_path / name).mkdir(parents=True)

    def say() -> Any:
        os.dup2(os.open(tmp_path / "work", os.O_RDONLY), wire.WORKSPACE_FD)
        places = []
        folders.install("/workspace")
        for name in ("work", "work/d", "workshop"):
            os.chdir(tmp_path / name)
            places.append([folders.inside(), os.getcwd(), os.fsdecode(os.getcwdb()), os.path.realpath(".")])
        os.chdir(tmp_path / "work")
        odd = [os.fsdecode(os.path.realpath(b"d")), os.path.realpath(tmp_path), type(os.path.realpath(b"d")).__name__]
        with pytest.raises(FileNotFoundError):
            os.path.realpath("missing", strict=True)
        os.close(wire.WORKSPACE_FD)
        return places, odd, os.getcwd()

    places, odd, closed = in_child(say)
    assert places == [
        ["", "/workspace", "/workspace", "/workspace"],
        ["d", "/workspace/d", "/workspace/d", "/workspace/d"],
        [None, *[f"{tmp_path}/workshop"] * 3],
    ]
    assert odd == ["/workspace/d", str(tmp_path), "bytes"]
    assert closed == f"{tmp_path}/work", "whoever has closed it sees the real folder"
