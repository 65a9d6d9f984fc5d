"""What may count as a mistake: only a move that really goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.plugins.worlds.experts.cases import part_for

from saccade.plugins.worlds.experts.expert import possible_slips
from saccade.plugins.worlds.experts.plays import program_cells
from saccade.record.content import Code


@pytest.mark.parametrize("dialect", ["pyvision", "codedance"])
@pytest.mark.parametrize("index", range(4))
def test_a_program_that_no_slip_changes_is_none(index: int, dialect: str, tmp_path: Path) -> None:
    part = part_for("echo", dialect, tmp_path, index=index)
    assert "Image" not in program_cells(part, 1)[0], "echo's programs read no picture"
    assert not [slip for slip in possible_slips(part, 5) if slip.window is None]


def test_a_program_that_reads_the_picture_can_go_wrong(tmp_path: Path) -> None:
    part = part_for("shape-count", "pyvision", tmp_path)
    right = program_cells(part, 1)[0]
    wrong = [slip.action.code for slip in possible_slips(part, 5) if isinstance(slip.action, Code)]
    assert wrong
    assert right not in wrong
