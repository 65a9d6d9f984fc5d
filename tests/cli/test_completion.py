"""Completion: what is offered, and the lines for bash in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from saccade.cli.completion import SCRIPTS, candidates
from saccade.cli.main import VERBS, main


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([""], sorted(VERBS)),
        (["comp"], ["compare", "completion"]),
        (["worlds", "s"], ["sample", "sheet"]),
        (["worlds", "sample", "--sta"], ["--start"]),
        (["compare", "--gal"], ["--gallery"]),
        (["ask", ""], []),
        (["nothing", "--"], []),
    ],
)
def test_what_may_stand_at_the_cursor(words: list[str], offered: list[str]) -> None:
    assert candidates(words) == offered


def test_a_shell_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_a_verb_and_an_option() -> None:
    program = SCRIPTS["bash"] + (
        'COMP_WORDS=(saccade regr); COMP_CWORD=1; _saccade; echo "${COMPREPLY[*]}"\n'
        'COMP_WORDS=(saccade regrade --grad); COMP_CWORD=2; _saccade; echo "${COMPREPLY[*]}"\n'
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", program], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["regrade", "--grader"]
