"""What the protocols found in a run: as it is stored beside it, or found now where no model has to be asked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from saccade.core import sync
from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import SaccadeError
from saccade.evals.protocols.findings import Findings
from saccade.evals.protocols.plain import Data, plain_data
from saccade.evals.protocols.registry import PROTOCOLS, protocol_names, recorded_protocol
from saccade.evals.protocols.stored import FOLDER, read_findings
from saccade.evals.protocols.study import CountCallback, Study, study
from saccade.report.runs.eval_run import EvalRun


@dataclass(frozen=True, slots=True)
class Own:
    """Findings of a protocol that has no panel of its own here."""

    title: str
    data: Data


def own_findings(run: EvalRun, shown: tuple[str, ...]) -> dict[str, Own]:
    """The findings of all protocols but those `shown` otherwise, by name: stored beside the run, or registered.

    A registered one is applied now if its findings are not stored or not of the whole run. What fails is left out and
    named among the run's problems.
    """
    folder = run.stored.file.parent
    if run.stored.file.name != TRAJECTORIES or not run.rows:
        return {}
    names = dict.fromkeys(name for name in protocol_names() if name not in shown)
    titles = {name: _title(name, run) for name in names}
    findings = {
        file.stem: _read(file, run) for file in sorted((folder / FOLDER).glob("*.json")) if file.stem not in shown
    }
    for name in names:
        if findings.get(name) is None:
            made = findings_of(run, (name,))
            findings |= {key: plain_data(one) for key, one in made.items()}
    return {name: Own(titles.get(name, name), data) for name, data in findings.items() if data is not None}


def _title(name: str, run: EvalRun) -> str:
    try:
        return recorded_protocol(name).title
    except SaccadeError:
        return name  # said when it is applied


def _read(file: Path, run: EvalRun) -> Data | None:
    """Stored findings; None, with a problem noted, if they cannot be read or are of fewer samples."""
    try:
        data = json.loads(file.read_bytes())
        seen = data["about"]["samples"] + data["about"]["lost"]
    except (OSError, ValueError, KeyError, TypeError):
        run.stored.problems.append(f"{FOLDER}/{file.name} of {run.name} holds no findings; it is left out.")
        return None
    if seen == len(run.rows):
        return dict(data)
    if not PROTOCOLS.has(file.stem):
        note = f"are of {seen:,} of its {len(run.rows):,} samples and are left out; apply the protocol again."
        run.stored.problems.append(f"The stored findings on {file.stem} of {run.name} {note}")
    return None


def findings_of(
    run: EvalRun, names: tuple[str, ...], watch: CountCallback = lambda done, of: None
) -> dict[str, Findings]:
    """The findings of the protocols `names` in a run that was read, by name.

    Stored findings count while they are of as many samples as the run holds; those that a model judged count always,
    and their number is shown. What cannot be found is listed among the run's problems and left out.
    """
    folder = run.stored.file.parent
    if run.stored.file.name != TRAJECTORIES or not run.rows:
        return {}
    try:
        findings = {name: one for name in names if (one := read_findings(folder, name)) is not None}
        stale = {name: one for name, one in findings.items() if one.about.samples + one.about.lost != len(run.rows)}
        for name, one in stale.items():
            if one.about.judge:
                note = f"{one.about.samples:,} of its {len(run.rows):,} samples; `saccade protocols` judges the others."
                run.stored.problems.append(f"The stored findings on {name} of {run.name} are of {note}")
            else:
                del findings[name]
        missing = tuple(recorded_protocol(name) for name in names if name not in findings)
        if missing:
            findings |= sync.run(study(folder, Study(missing), watch))
    except SaccadeError as error:
        run.stored.problems.append(f"Protocols are left out for {run.name}: {error}")
        return {}
    return {name: findings[name] for name in names}
