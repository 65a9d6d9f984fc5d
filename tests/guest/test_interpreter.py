from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from saccade.guest.nursery import interpreter_paths, too_wide


def test_what_the_interpreter_needs_is_covered() -> None:
    import numpy as np

    paths = [os.path.realpath(path) for path in interpreter_paths()]
    for needed in (sysconfig.get_path("stdlib"), np.__file__, os.__file__):
        real = os.path.realpath(needed)
        assert any(real == path or real.startswith(path + "/") for path in paths), needed


def test_shared_libraries_in_unusual_places_are_found() -> None:
    paths = [os.path.realpath(path) for path in interpreter_paths()]
    with open("/proc/self/maps") as file:
        fields = [line.split(maxsplit=5) for line in file]
    libraries = {words[5].strip() for words in fields if len(words) == 6 and ".so" in words[5]}
    assert libraries
    for library in libraries:
        assert any(library == path or library.startswith(path + "/") for path in paths), library


def test_nothing_private_is_shown_as_a_whole() -> None:
    for path in interpreter_paths():
        assert os.path.isabs(path)
        assert os.path.exists(path)
        assert not too_wide(path), path
        assert not os.path.exists(os.path.join(path, "passwd"))
        assert not path.startswith(("/var/", "/run/", "/sys/", "/proc/")) or path.startswith(sys.prefix), path
        assert path != "/tmp"


def test_the_current_folder_is_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    assert str(tmp_path) not in interpreter_paths()


@pytest.mark.parametrize("path", ["/", "/etc", "/home", "/root", "/usr", "/tmp", "~"])
def test_folders_that_hold_more_than_an_interpreter_are_too_wide(path: str, tmp_path: Path) -> None:
    assert too_wide(os.path.expanduser(path))
    link = tmp_path / "link"
    link.symlink_to(os.path.expanduser(path))
    assert too_wide(str(link))
