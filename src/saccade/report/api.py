"""Reports from Python: one call for the page of any runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from saccade.evals.api import Evaluation
from saccade.report.runs.open import open_runs
from saccade.report.site import Written
from saccade.report.write import write_report

RunLike = str | os.PathLike[str] | Evaluation


def make_report(runs: RunLike | Sequence[RunLike], out: str | os.PathLike[str], *, title: str = "") -> Written:
    """Write the report of one or more runs, evaluations or training runs, to the page `out`.

    Raises:
        SettingsError: one of them is no run.
        RecordError: a run's failures or findings cannot be read.
    """
    listed = [runs] if isinstance(runs, str | os.PathLike | Evaluation) else list(runs)
    paths = [run.path if isinstance(run, Evaluation) else Path(run) for run in listed]
    return write_report(open_runs(paths), Path(out), title=title)
