"""What the protocols found in a run: as it is stored beside it, or found now where no model has to be asked."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import SaccadeError
from saccade.evals.protocols.findings import Findings
from saccade.evals.protocols.registry import load_protocol
from saccade.evals.protocols.stored import read_findings
from saccade.evals.protocols.study import Study, Watch, study
from saccade.report.runs.eval_run import EvalRun


def findings_of(run: EvalRun, names: tuple[str, ...], watch: Watch = lambda done, of: None) -> dict[str, Findings]:
    """The findings of the protocols `names` in a run that was read, by name.

    Stored findings count while they are of as many samples as the run holds; those that a model judged count always,
    and how many they are of is told. What cannot be found is told among the run's problems and left out.
    """
    folder = run.stored.file.parent
    if run.stored.file.name != TRAJECTORIES or not run.rows:
        return {}
    try:
        found = {name: one for name in names if (one := read_findings(folder, name)) is not None}
        stale = {name: one for name, one in found.items() if one.about.samples + one.about.lost != len(run.rows)}
        for name, one in stale.items():
            if one.about.judge:
                told = f"{one.about.samples:,} of its {len(run.rows):,} samples; `saccade protocols` judges the others."
                run.stored.problems.append(f"The stored findings on {name} of {run.name} are of {told}")
            else:
                del found[name]
        missing = tuple(load_protocol(name) for name in names if name not in found)
        if missing:
            with ThreadPoolExecutor(1) as thread:  # a notebook has a loop of its own in this one
                found |= thread.submit(asyncio.run, study(folder, Study(missing), watch)).result()
    except SaccadeError as error:
        run.stored.problems.append(f"Protocols are left out for {run.name}: {error}")
        return {}
    return {name: found[name] for name in names}
