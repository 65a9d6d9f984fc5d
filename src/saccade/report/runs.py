"""Reads runs for a report: rows for figures, labels for filters, trajectories again for pages, curves of trainings.

The trajectories are read once for the rows and once more for the pages, never all kept. Of two of one id the later one
counts. What cannot be read is reported and left out, so a run that is still written can be looked at.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from saccade.core import sync
from saccade.episode.run_folder import (
    MEDIA,
    TRAJECTORIES,
    OtherCommandError,
    Unfinished,
    journals,
    note_empty,
    unfinished,
)
from saccade.errors import RecordError, SaccadeError, SettingsError
from saccade.evals.benchmarks import BROKEN_ROW
from saccade.evals.grades import SampleFailure, open_failures
from saccade.evals.protocols.base import (
    FOLDER,
    PROTOCOLS,
    Data,
    Findings,
    plain_data,
    protocol_names,
    read_findings,
    recorded_protocol,
)
from saccade.evals.protocols.study import CountCallback, Study, study
from saccade.evals.requests import RequestTry, read_requests
from saccade.evals.rows import EvalRow, row_of, row_order
from saccade.evals.settings import EvalSettings
from saccade.evals.stored import run_settings
from saccade.media.store import MediaStore
from saccade.record.codec import loads
from saccade.record.execution import Status
from saccade.record.trajectory import StopReason, Trajectory

# Reads a run from its folder: trajectories, media, kept requests, and what could not be read.


@dataclass
class StoredRun:
    """A file of trajectories and the folder of media next to it. `problems` grows while it is read."""

    file: Path
    store: MediaStore | None
    problems: list[str] = field(default_factory=list)
    """Parts that could not be read, for a person."""

    def trajectories(self) -> Iterator[Trajectory]:
        """Yield every trajectory that can be read, in the order of the file, then the episodes that have not ended."""
        ended = set()
        for number, line in enumerate(self._lines(), 1):
            if not line.strip():
                continue
            try:
                read = loads(line, Trajectory)
            except RecordError as error:
                self.problems.append(self._problem(number, line, error))
            else:
                ended.add(read.id)
                yield read
        unread = self.problems.append
        yield from (item.trajectory for item in self._unfinished(unread) if item.trajectory.id not in ended)

    def check_readable(self) -> None:
        """Raises `RecordError` if there is something to show, and nothing of it can be read."""
        probe = StoredRun(self.file, None)
        if next(probe.trajectories(), None) is None and probe.problems:
            raise RecordError(f"{self.file} holds no episode that can be shown. {probe.problems[0]}")

    def _lines(self) -> Iterator[bytes]:
        if self.file.is_file():
            with self.file.open("rb") as lines:
                yield from lines

    def _unfinished(self, unread: Callable[[str], None] = lambda said: None) -> Iterator[Unfinished]:
        if self.file.name == TRAJECTORIES:
            yield from unfinished(self.file.parent, unread)

    def _problem(self, number: int, line: bytes, error: RecordError) -> str:
        if line.endswith(b"\n") or _is_json(line):
            return f"Line {number} of {self.file.name} is not shown: {error}"
        return (
            f"The last line of {self.file.name} was cut short, as when the writer crashed or still writes; all lines "
            "before it are shown."
        )

    def count(self) -> int:
        """Return lines of the file, and episodes that have not ended."""
        return sum(1 for _ in self._lines()) + sum(1 for _ in self._unfinished())


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def open_run(path: Path) -> StoredRun:
    """Return the run in the folder `path`, or in the `.jsonl` file `path` with its media next to it.

    Raises:
        SettingsError: there is no such run.
    """
    file = path / TRAJECTORIES if path.is_dir() else path
    if not file.is_file() and not (path.is_dir() and journals(path)):
        raise SettingsError(
            f"{file} is not there. Give the folder of a run, which holds {TRAJECTORIES}, or a file of such lines."
        )
    if file.is_file():
        note_empty(file)
    media = file.parent / MEDIA
    run = StoredRun(file, MediaStore(media) if media.is_dir() else None)
    if run.store is None and b'"sha256"' in next(run._lines(), b""):
        run.problems.append(f"There is no folder {MEDIA} beside {file.name}: the page has no pictures.")
    return run


def wires_of(run: Path, sample: str, problems: list[str]) -> tuple[RequestTry, ...]:
    """Read the requests of `sample` that the folder `run` keeps; add to `problems` what cannot be read."""
    try:
        return tuple(read_requests(run, sample))
    except RecordError as error:
        problems.append(str(error))
        return ()


RIGHT, PARTLY, WRONG = "right", "partly right", "wrong"
NO_ANSWER, NOT_GRADED, LOST = "no answer", "not graded", "lost"
FAILED_CALL = "a call failed"
OUTCOMES = (RIGHT, PARTLY, WRONG, NO_ANSWER, NOT_GRADED, LOST)
"""Every sample has one of them."""

TrajectoryCallback = Callable[[Trajectory], None]
"""Called with every trajectory when it is read for the first time."""


@dataclass
class EvalRun:
    """One folder of episodes."""

    name: str
    stored: StoredRun
    settings: EvalSettings | None
    """None where the folder was not made by an evaluation."""
    rows: list[EvalRow] = field(default_factory=list)
    """In the order of tasks and rollouts."""
    labels: dict[str, set[str]] = field(default_factory=dict)
    """Of each sample, by its id: its outcome, and whatever else it can be looked up by."""
    dialects: dict[str, str] = field(default_factory=dict)
    """Of each sample."""
    models: Counter[str] = field(default_factory=Counter)
    failures: list[SampleFailure] = field(default_factory=list)
    """Samples that failed; rows of the data that gave no task are not among them."""
    broken_rows: int = 0
    _lines: Counter[str] = field(default_factory=Counter)

    @property
    def k(self) -> int:
        return self.settings.k if self.settings is not None else max((row.rollout + 1 for row in self.rows), default=1)

    @property
    def seed(self) -> int:
        """Of the bootstrap."""
        return self.settings.seed if self.settings is not None else 0

    def outcome(self, row: EvalRow) -> str:
        return next(name for name in OUTCOMES if name in self.labels[row.id])

    def read(self, look: TrajectoryCallback = lambda trajectory: None) -> None:
        rows = {}
        for trajectory in self.stored.trajectories():
            row = self.learn(trajectory)
            rows[row.id] = row
            look(trajectory)
        self.rows = sorted(rows.values(), key=row_order)
        failures = open_failures(self.stored.file.parent, set(rows)).values()
        self.failures = [failure for failure in failures if failure.kind != BROKEN_ROW]
        self.broken_rows = len(failures) - len(self.failures)

    def learn(self, trajectory: Trajectory) -> EvalRow:
        """Note labels, dialect and model of a trajectory, and return its row; `rows` is not changed."""
        row = row_of(trajectory)
        self._lines[row.id] += 1
        self.labels[row.id] = {_outcome(row, trajectory.lost), *_conduct(trajectory)}
        self.dialects[row.id] = trajectory.provenance.dialect
        self.models[trajectory.provenance.model] += 1
        return row

    def trajectories(self) -> Iterator[Trajectory]:
        """Read the trajectories of the rows again, in the order of the file."""
        already = len(self.stored.problems)
        seen: Counter[str] = Counter()
        for trajectory in self.stored.trajectories():
            seen[trajectory.id] += 1
            if seen[trajectory.id] == self._lines[trajectory.id]:
                yield trajectory
        del self.stored.problems[already:]  # they were reported the first time


def open_eval_run(name: str, path: Path) -> EvalRun:
    """Open the run in a folder, or in a file of trajectories, without reading it.

    Raises:
        SettingsError: there is no such run.
    """
    stored = open_run(path)
    try:
        settings = run_settings(stored.file.parent)
    except SettingsError as error:
        settings = None  # made by other means
        if (stored.file.parent / SETTINGS).exists() and not isinstance(error, OtherCommandError):
            stored.problems.append(f"The settings of {name} are not shown: {error}")
    return EvalRun(name, stored, settings)


def _outcome(row: EvalRow, lost: bool) -> str:
    if lost:
        return LOST
    if row.correct is not None and row.correct > 0:
        return RIGHT if row.correct >= 1 else PARTLY
    if row.stop != StopReason.ANSWERED:
        return NO_ANSWER
    return NOT_GRADED if row.correct is None else WRONG


def _conduct(trajectory: Trajectory) -> Iterator[str]:
    statuses = {execution.status for turn in trajectory.turns for execution in turn.executions}
    if statuses - {Status.OK, Status.LOST}:
        yield FAILED_CALL


METRICS: Final = "metrics.jsonl"
SETTINGS: Final = "settings.toml"
VALIDATION: Final = "validation/"
"""Beginning of the names of what held-out tasks gave."""

Points = list[tuple[float, float]]


@dataclass
class TrainingCurves:
    """One folder of a training run."""

    name: str
    path: Path
    points: dict[str, Points] = field(default_factory=dict)
    """Name of a number -> (step, value), in the order of the steps."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Dotted name -> value; empty if they cannot be read."""
    problems: list[str] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return int(max((points[-1][0] for points in self.points.values()), default=0))

    def last(self, name: str) -> float | None:
        points = self.points.get(name)
        return points[-1][1] if points else None


def open_training_run(name: str, path: Path) -> TrainingCurves:
    """Return the run in the folder `path`. A line that is cut short is reported and left out."""
    run = TrainingCurves(name, path)
    with (path / METRICS).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                values = json.loads(line)
                step = float(values.pop("step"))
                numbers = {key: float(value) for key, value in values.items() if isinstance(value, int | float)}
            except (ValueError, KeyError, TypeError, AttributeError):
                run.problems.append(f"Line {number} of {METRICS} of {name} holds no numbers of a step; it is left out.")
                continue
            for key, value in numbers.items():
                run.points.setdefault(key, []).append((step, value))
    for points in run.points.values():
        points.sort()
    try:
        saved = tomllib.loads((path / SETTINGS).read_text(encoding="utf-8"))
        run.settings = dict(flat(saved))
    except (OSError, ValueError):
        run.problems.append(f"The settings of {name} cannot be read ({SETTINGS}).")
    return run


def flat(table: Mapping[str, object], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of nested tables by dotted names, as text."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", json.dumps(value, ensure_ascii=False, default=str)


ROLLOUTS = "rollouts"
"""Folder of a training run with some of its episodes."""


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a report."""

    evals: tuple[EvalRun, ...]
    trainings: tuple[TrainingCurves, ...]
    rollouts: tuple[EvalRun, ...]
    """Kept episodes of the training runs; shown, and in no figure."""

    @property
    def episodes(self) -> tuple[EvalRun, ...]:
        return (*self.evals, *self.rollouts)


def open_runs(paths: Sequence[Path]) -> Runs:
    """Open the runs at `paths`, each once.

    Raises:
        SettingsError: one of them is no run.
    """
    paths = list({path.resolve(): path for path in paths}.values())
    names = last_parts([path.resolve().as_posix() for path in paths])
    evals, trainings, rollouts = [], [], []
    for path, name in zip(paths, names, strict=True):
        if (path / METRICS).is_file():
            trainings.append(open_training_run(name, path))
            if (path / ROLLOUTS / TRAJECTORIES).is_file():
                rollouts.append(open_eval_run(f"{name} · {ROLLOUTS}", path / ROLLOUTS))
        elif path.is_file() or (path / TRAJECTORIES).is_file():
            evals.append(open_eval_run(name, path))
        else:
            raise SettingsError(
                f"{path} is no run: it holds neither {TRAJECTORIES} (as `saccade eval` writes) nor {METRICS} (as "
                "`saccade rl` and `saccade sft` write). Name the folder of a run."
            )
    return Runs(tuple(evals), tuple(trainings), tuple(rollouts))


def last_parts(paths: Sequence[str]) -> list[str]:
    """Return the last parts of `paths`, as many as tell apart those that are not the same."""
    parts = [path.split("/") for path in paths]
    ends = (["/".join(part[-length:]) for part in parts] for length in range(1, max(map(len, parts), default=0)))
    return next((names for names in ends if len(set(names)) == len(set(paths))), list(paths))


# What the protocols found in a run: as it is stored next to it, or found now where no model has to be asked.


@dataclass(frozen=True, slots=True)
class Own:
    """Findings of a protocol without a panel here."""

    title: str
    data: Data


def own_findings(run: EvalRun, shown: tuple[str, ...]) -> dict[str, Own]:
    """Return the findings of all protocols but those `shown` otherwise, by name: stored in the run, or registered.

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
    """Return stored findings; None, with a problem noted, if they cannot be read or are of fewer samples."""
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
    """Return the findings of the protocols `names` in a run that was read, by name.

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
