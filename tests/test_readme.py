"""The file map names every file; links and commands of README and docs lead somewhere."""

import importlib.util
import re
from pathlib import Path

from saccade.cli.main import verbs

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAP = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")


def test_file_map_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("file_map", ROOT / "tools" / "file_map.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.HEAD + tool.file_map() == MAP, "run `make map`"


def test_file_map_names_every_file() -> None:
    listed = set(re.findall(r"^(\S+\.py) {2,}\S", MAP, re.MULTILINE))
    source = ROOT / "src" / "saccade"
    files = {p.relative_to(source).as_posix() for p in source.rglob("*.py") if p.read_text(encoding="utf-8").strip()}
    assert listed == files


def test_links_lead_somewhere() -> None:
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for target in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_commands_are_verbs_and_targets() -> None:
    named = set(
        re.findall(r"\bsaccade ([a-z]+)\b(?= |`|$)", "\n".join(re.findall(r"^saccade .*", README, re.MULTILINE)))
    )
    assert named
    assert named <= verbs().keys()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    texts = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = re.findall(r"^(?: {4})?make ([a-z-]+)|`make ([a-z-]+)`", texts, re.MULTILINE)
    assert targets
    for target in filter(None, (name for pair in targets for name in pair)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"
