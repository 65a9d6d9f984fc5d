"""Run the notebook of examples/notebook from top to bottom and store it with its outputs: `python tools/notebook.py`.

Stored are what cells print and show, pictures as JPEG alone; left out are warnings, the page of the report (GitHub has
no frames), and when and by which Python the cells were run.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FILE = Path(__file__).resolve().parent.parent / "examples" / "notebook" / "first_look.ipynb"


def executed(folder: Path) -> Any:
    """Return the notebook after a run in `folder`. Raises `CellExecutionError` if a cell fails."""
    notebook = nbformat.read(FILE, as_version=4)  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    return notebook


def as_stored(notebook: Any) -> Any:
    """Return the notebook without what differs from run to run or what GitHub does not show."""
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [output for output in cell.outputs if not _is_left_out(output)]
            for output in cell.outputs:
                if "image/jpeg" in output.get("data", {}):
                    output.data.pop("image/png", None)
    return notebook


def _is_left_out(output: Any) -> bool:
    return output.get("name") == "stderr" or "text/html" in output.get("data", {})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        ran = as_stored(executed(Path(work)))
    nbformat.write(ran, FILE)  # type: ignore[no-untyped-call]
