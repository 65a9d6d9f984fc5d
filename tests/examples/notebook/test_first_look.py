"""The notebook: stored with its outputs, and in a real kernel it runs to its end and shows what it speaks of."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tools.notebook import FILE, as_stored, executed

ROOT = Path(__file__).resolve().parents[3]


def cells(notebook: Any) -> dict[str, Any]:
    return {cell.id: cell for cell in notebook.cells}


def shown(cell: Any, kind: str) -> list[str]:
    """What a cell displayed in one form, such as image/png."""
    return [output.data[kind] for output in cell.outputs if kind in output.get("data", {})]


def printed(cell: Any) -> str:
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def test_it_is_stored_with_what_it_shows_and_nothing_of_the_machine_that_ran_it() -> None:
    notebook = nbformat.read(FILE, as_version=4)
    nbformat.validate(notebook)
    assert as_stored(notebook) == nbformat.read(FILE, as_version=4), "python tools/notebook.py stores it"
    silent = {cell.id for cell in notebook.cells if cell.cell_type == "code" and not cell.outputs}
    assert silent == {"install", "page"}
    assert len(FILE.read_bytes()) < 1 << 20
    assert not re.search(r"/(home|root|tmp|work)/|Traceback", FILE.read_text(encoding="utf-8"))
    assert set(notebook.metadata) == {"colab", "kernelspec", "language_info"}


def test_what_it_installs_is_there_to_be_installed() -> None:
    install = cells(nbformat.read(FILE, as_version=4))["install"].source
    ((name, extras),) = re.findall(r"else '([\w-]+)'\}\[([\w,]+)\]", install)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert name == project["name"]
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    first = next(cell for cell in nbformat.read(FILE, as_version=4).cells if cell.cell_type == "code")
    assert first.id == "install"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
def test_it_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    work = tmp_path / "work"
    work.mkdir()
    ran, stored = cells(executed(work)), cells(nbformat.read(FILE, as_version=4))
    assert ran["install"].outputs == []
    assert re.search(r"^seccomp +on$", printed(ran["doctor"]), re.MULTILINE)
    assert len(shown(ran["draw"], "image/png")) == 1
    assert len(shown(ran["ask"], "image/png")) >= 1, "no picture came back while it looked"
    assert len(shown(ran["ask"], "text/markdown")) >= 3
    answer, gold = re.findall(r"answer: (\S.*?) \| gold: (\S.*?) \|", printed(ran["ask"]))[0]
    assert answer == gold
    looking, at_once = re.findall(r"([\d.]+)% right of 8 tasks", printed(ran["eval"]))
    assert float(looking) > float(at_once)
    assert "points by looking" in printed(ran["compare"])
    for name in ("draw", "compare"):
        assert printed(ran[name]) == printed(stored[name]), "run python tools/notebook.py"
    assert len(shown(ran["call"], "image/png")) == 1
    assert '"x":' in "".join(shown(ran["call"], "text/markdown"))
    (page,) = shown(ran["page"], "text/html")
    assert "&lt;!doctype html&gt;" in page.lower()
    assert (work / "runs" / "report.html").is_file()
