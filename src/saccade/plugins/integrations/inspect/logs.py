"""Runs of ours as logs of inspect_ai, for its viewer and its data frames.

Every trajectory is one sample: the conversation with its pictures, the scores that are stored, and the trajectory
itself in the sample's store. Model calls are not told apart, since our record keeps turns. A trajectory that an outage
ended has an error and no score.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalSample,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score as InspectScore

from saccade.episode.run_folder import RunFolder
from saccade.errors import RecordError, SettingsError
from saccade.media.store import MediaStore
from saccade.plugins.integrations.inspect.parts import chat_messages, question_message
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory, conversation


def write_inspect_log(run: Path, out: Path) -> Path:
    """Write the trajectories of the run folder `run` as one log to `out`, a name that ends in `.eval` or `.json`.

    Raises:
        RecordError: the folder holds no trajectories, or they cannot be read.
        SettingsError: `out` has another ending, or is there already.
        MissingMediaError: a picture of a trajectory is not in the folder.
    """
    if out.suffix not in (".eval", ".json"):
        raise SettingsError(f"{out} is no name of a log of inspect_ai: end it in .eval or .json")
    if out.exists():
        raise SettingsError(f"{out} is there already. Remove it, or name another file.")
    folder = RunFolder(run)
    if not folder.ids:
        raise RecordError(f"{run} holds no trajectories, so there is nothing to write")
    trajectories = tuple(read_lines(folder.path, Trajectory))
    samples = [_sample(trajectory, folder.store) for trajectory in trajectories]
    out.parent.mkdir(parents=True, exist_ok=True)
    write_eval_log(_log(run.name, trajectories, samples), str(out))
    return out


def _log(name: str, trajectories: tuple[Trajectory, ...], samples: list[EvalSample]) -> EvalLog:
    begun = [trajectory.created for trajectory in trajectories if trajectory.created is not None]
    created = min(begun, default=datetime.now(UTC)).isoformat()
    models = sorted({trajectory.provenance.model for trajectory in trajectories})
    tasks = sorted({trajectory.task.id for trajectory in trajectories})
    return EvalLog(
        status="success",
        eval=EvalSpec(
            created=created,
            task=name,
            dataset=EvalDataset(name=name, samples=len(tasks), sample_ids=tasks),
            model=models[0] if len(models) == 1 else "several",
            config=EvalConfig(epochs=max(trajectory.rollout for trajectory in trajectories) + 1),
            metadata={"models": models, "dialects": sorted({item.provenance.dialect for item in trajectories})},
        ),
        stats=EvalStats(started_at=created, completed_at=max(begun, default=datetime.now(UTC)).isoformat()),
        samples=samples,
    )


def _sample(trajectory: Trajectory, store: MediaStore) -> EvalSample:
    message = f"{trajectory.stop}: {trajectory.stop_detail}"
    error = EvalError(message=message, traceback=message, traceback_ansi=message) if trajectory.lost else None
    scores = {} if trajectory.lost else dict(_scores(trajectory))
    return EvalSample(
        id=trajectory.task.id,
        epoch=trajectory.rollout + 1,
        input=[question_message(trajectory.task, store)],
        choices=list(trajectory.task.choices) or None,
        target=trajectory.task.answer or "",
        messages=chat_messages(conversation(trajectory.prompt, trajectory.turns), store),
        output=ModelOutput.from_content(model=trajectory.provenance.model, content=trajectory.answer or ""),
        scores=scores or None,
        store={"saccade_trajectory": trajectory.model_dump(mode="json")},
        total_time=trajectory.seconds,
        error=error,
    )


def _scores(trajectory: Trajectory) -> Iterable[tuple[str, InspectScore]]:
    for score in trajectory.scores:
        fields = {"answer": trajectory.answer, "explanation": score.detail or None}
        if score.value is None:
            yield score.name, InspectScore.unscored(reason="no_value", **fields)
        else:
            yield score.name, InspectScore(value=score.value, **fields)
