"""The processes of an environment's sandbox end with it; a Gymnasium that is absent is said to be."""

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.training.env.support import CODE, tasks

from saccade.media.store import MediaStore
from saccade.training.env import LookAgainEnv


def children() -> set[str]:
    """Ids of the processes that any thread of this one has started."""
    return {
        child
        for listed in Path(f"/proc/{os.getpid()}/task").glob("*/children")
        for child in listed.read_text(encoding="ascii").split()
    }


@pytest.mark.slow
@pytest.mark.own_sandbox
@pytest.mark.parametrize("dropped", [pytest.param(False, marks=pytest.mark.slow), True])
def test_no_process_stays(tmp_path: Path, dropped: bool) -> None:
    before = children()
    store = MediaStore(tmp_path)
    env = LookAgainEnv(tasks(store), store=store)
    env.reset(seed=0)
    assert env.step(CODE)[4]["status"] == "ok"
    started = children() - before
    assert started
    if not dropped:
        env.close()
    del env
    gc.collect()
    deadline = time.monotonic() + 100
    while started & children() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not started & children()


def test_making_one_starts_nothing(tmp_path: Path) -> None:
    before = children()
    store = MediaStore(tmp_path)
    env = LookAgainEnv(tasks(store), store=store)
    env.reset(seed=0)
    assert children() == before
    env.close()


def test_without_gymnasium() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import saccade.training.env"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "UnavailableError: saccade.training.env needs Gymnasium" in run.stderr
    assert "saccade[env]" in run.stderr
