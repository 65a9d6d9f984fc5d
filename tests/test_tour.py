"""The excerpts of docs/tour.md are the code as it stands."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXCERPT = re.compile(r"^```py (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = re.compile(r"^ *# …\n", re.MULTILINE)
EXCERPTS = EXCERPT.findall((ROOT / "docs" / "tour.md").read_text(encoding="utf-8"))


def place(part: str, source: str, start: int) -> int:
    """Where `part` ends in `source`, from `start` on; -1 if it is not there, at any depth."""
    wanted = textwrap.dedent(part.strip("\n")).splitlines()
    lines = source.splitlines()
    for at in range(start, len(lines) - len(wanted) + 1):
        if textwrap.dedent("\n".join(lines[at : at + len(wanted)])).splitlines() == wanted:
            return at + len(wanted)
    return -1


@pytest.mark.parametrize(
    ("path", "text"), EXCERPTS, ids=[f"{n}-{Path(path).stem}" for n, (path, _) in enumerate(EXCERPTS)]
)
def test_an_excerpt_is_the_code(path: str, text: str) -> None:
    source, at = (ROOT / path).read_text(encoding="utf-8"), 0
    for part in LEFT_OUT.split(text):
        at = place(part, source, at)
        assert at >= 0, f"docs/tour.md: this is not in {path}, or not in this order:\n{part}"


def test_the_tour_has_excerpts() -> None:
    assert len(EXCERPTS) > 10
