"""The blocks of a page of docs that are marked `face`, which run with the interpreter that runs the test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"
_FENCE = re.compile(r"^```(python|sh) face\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAMS = {"python": [sys.executable], "sh": ["bash", "-euo", "pipefail"]}


def run_page(name: str, folder: Path, **variables: str) -> list[str]:
    """What each block of `docs/NAME.md` printed; they run in order in `folder`."""
    blocks = _FENCE.findall((DOCS / f"{name}.md").read_text(encoding="utf-8"))
    assert blocks, f"docs/{name}.md has no block marked `face`"
    environment = {**os.environ, **variables, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    said = []
    for number, (language, text) in enumerate(blocks):
        program = folder / f"block_{number}.{language}"
        program.write_text(text, encoding="utf-8")
        command = [*_PROGRAMS[language], str(program)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        said.append(done.stdout)
    return said
