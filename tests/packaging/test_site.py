"""The documentation site builds in an environment of its own, strictly, and its reference has every public name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.packaging.environments import ROOT

import saccade


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_site_builds_without_a_warning_and_has_every_public_name(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    tools = tmp_path / "venv" / "bin"
    wanted = ROOT / "requirements" / "docs.txt"
    subprocess.run([tools / "python", "-m", "pip", "install", "--quiet", "--requirement", wanted], check=True)
    command = [tools / "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = "".join(page.read_text(encoding="utf-8") for page in (tmp_path / "site" / "reference").glob("*.html"))
    for homes in saccade.PUBLIC.values():
        for home, names in homes.items():
            for name in names.split():
                assert f'id="saccade.{home}.{name}"' in pages, f"the reference does not have saccade.{name}"
    start = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "runnable" not in (tmp_path / "site" / "tutorial.html").read_text(encoding="utf-8")
    assert 'href="source/README.md.html"' in start
