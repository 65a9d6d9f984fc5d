from __future__ import annotations

import time

import pytest

from saccade.training.sft.synth.outcome import SynthProgress
from saccade_tiny.screen import Screen


def test_the_screen_says_when_what_began(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    screen = Screen()
    screen.part("17 demonstrations")
    now += 3725.4
    screen.part("stage look")
    assert capsys.readouterr().out == "0:00  17 demonstrations\n62:05  stage look\n"
    assert screen.elapsed() == "62:05"


def test_the_screen_tells_every_fifth_of_a_run_of_demonstrations(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    for done in range(1, 11):
        screen.demonstrations("echo", SynthProgress(total=10, kept=done, right=done - (done > 6)))
    assert capsys.readouterr().out.splitlines() == [
        "  echo 2/10",
        "  echo 4/10",
        "  echo 6/10",
        "  echo 8/10, 1 wrong and left out",
        "  echo 10/10, 1 wrong and left out",
    ]
