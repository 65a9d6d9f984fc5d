"""Folders that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from saccade.core.disk import begin_folder, finish_folder, new_folder
from saccade.errors import RecordError


def test_a_new_folder_appears_when_its_block_ends_well(tmp_path: Path) -> None:
    target = tmp_path / "new" / "set"
    with new_folder(target) as partial:
        (partial / "a").write_text("1")
        assert not target.exists()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["new", "new/set", "new/set/a"]


def test_a_new_folder_leaves_nothing_of_a_block_that_fails(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), new_folder(tmp_path / "set") as partial:
        (partial / "no" / "such" / "folder").write_text("1")
    assert not list(tmp_path.iterdir())


def test_a_new_folder_holds_nothing_of_a_killed_run_that_had_the_same_number(tmp_path: Path) -> None:
    stale = tmp_path / f".set.{os.getpid()}.part"
    stale.mkdir()
    (stale / "old").write_text("1")
    with new_folder(tmp_path / "set") as partial:
        assert list(partial.iterdir()) == []


def test_a_new_folder_may_be_there_empty_and_not_otherwise(tmp_path: Path) -> None:
    target = tmp_path / "set"
    target.mkdir()
    with new_folder(target) as partial:
        (partial / "a").write_text("1")
    with pytest.raises(RecordError, match="exists already"), new_folder(target):
        pass
    with pytest.raises(RecordError, match="exists already"), new_folder(target / "a"):
        pass
    assert (target / "a").read_text() == "1"


def test_a_folder_that_was_begun_takes_the_place_of_the_old_one_and_of_what_a_kill_left(tmp_path: Path) -> None:
    target = tmp_path / "model"
    for text in ("old", "killed", "new"):
        partial = begin_folder(target)
        assert not list(partial.iterdir())
        (partial / text).write_text(text)
        if text != "killed":
            finish_folder(target)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["model", "model/new"]
