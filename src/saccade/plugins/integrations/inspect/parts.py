"""The loop as a solver of inspect_ai, our graders as a scorer, and both with tasks of any source as a task.

    inspect eval saccade/look -T sources=visual-search -T n=20 --model openai/gpt-4.1

Code of the model runs in our sandbox, whatever sandbox inspect_ai was told to use. An outage of ours is an error of the
sample, as inspect_ai knows it, and never a wrong answer.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from inspect_ai import Task as InspectTask
from inspect_ai import task as inspect_task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import EvalConfig, EvalDataset, EvalError, EvalLog, EvalSample, EvalSpec, EvalStats, write_eval_log
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentImage,
    ContentText,
    GenerateConfig,
    Model,
    ModelOutput,
    get_model,
)
from inspect_ai.scorer import Score as InspectScore
from inspect_ai.scorer import Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from saccade.core.settings import load_settings, settings_toml
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan, limits_with
from saccade.episode.prepared import prepared_to_ask
from saccade.episode.run_folder import RunFolder
from saccade.episode.settings import EpisodeSettings
from saccade.errors import RecordError, SaccadeError, SettingsError
from saccade.media.store import MediaStore
from saccade.models.base import Completion, MediaReader, Request, Usage, apply_stops, unclosed
from saccade.record.codec import read_lines
from saccade.record.content import ImagePart, Message, TextPart
from saccade.record.task import Task
from saccade.record.trajectory import FinishReason, Trajectory, conversation, total
from saccade.rewards.reward import as_rubric
from saccade.tasks.sources.task_set import names_of, task_of

# A model of inspect_ai as the loop asks it, and a conversation as inspect_ai's viewer shows it.
#
# Retries, limits, caching and logs of model calls are inspect_ai's: what its model raises goes through unchanged, so a
# sample that meets a limit or an outage ends as any other of its samples.

_FINISHES = {
    "stop": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.FILTERED,
}


class InspectModel:
    """A model that inspect_ai has, as the loop asks it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name = f"inspect:{model}"

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the model's next message. Text is not told as it comes. Raises what inspect_ai's model raises."""
        if request.tools:
            raise SettingsError("this dialect speaks through function calling, which is not passed on to inspect_ai")
        sampling = request.sampling
        config = GenerateConfig(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=sampling.seed,
            max_tokens=request.max_tokens,
            stop_seqs=list(request.stop) or None,
        )
        output = await self._model.generate(chat_messages(request.messages, media), config=config)
        finish = _FINISHES.get(output.stop_reason, FinishReason.STOP)
        # Most providers swallow the stop string and name none; of closing tags it can be told which one it was.
        swallowed = unclosed(output.completion, request.stop) if finish is FinishReason.STOP else None
        text, finish = apply_stops(output.completion, request.stop, finish, swallowed=swallowed)
        used = output.usage
        usage = (
            Usage()
            if used is None
            else Usage(
                prompt_tokens=used.input_tokens + (used.input_tokens_cache_read or 0),
                cached_tokens=used.input_tokens_cache_read,
                sampled_tokens=used.output_tokens,
                dollars=used.total_cost,
            )
        )
        return Completion(text, finish, usage=usage, model=output.model)

    async def close(self) -> None:
        """Do nothing: the model is inspect_ai's."""


def chat_messages(messages: Iterable[Message], media: MediaReader) -> list[ChatMessage]:
    """Return the messages with their pictures as data URLs.

    Raises `SettingsError` for a video, which has no place there.
    """
    return [_message(message, media) for message in messages]


def _message(message: Message, media: MediaReader) -> ChatMessage:
    content: list[Any] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            content.append(ContentText(text=part.text))
        elif isinstance(part, ImagePart):
            content.append(ContentImage(image=data_url(part, media)))
        else:
            raise SettingsError(
                "this dialect shows a video as it is, which inspect_ai's models do not take. Show its frames: "
                "settings={'frames': {'fps': 1}} and a dialect for pictures."
            )
    if message.role == "assistant":
        return ChatMessageAssistant(content=message.text)
    if message.role == "system":
        return ChatMessageSystem(content=message.text if not message.media else content)
    return ChatMessageUser(content=content)


def question_message(task: Task, store: MediaStore) -> ChatMessageUser:
    """Return the pictures and the question of a task."""
    pictures = [
        ContentImage(image=data_url(item.part, store)) for item in task.media if isinstance(item.part, ImagePart)
    ]
    return ChatMessageUser(content=[*pictures, ContentText(text=task.question)])


def data_url(part: ImagePart, media: MediaReader) -> str:
    """Return the picture as a data URL."""
    return f"data:{part.mime};base64,{base64.b64encode(media.get_bytes(part.sha256)).decode()}"


TRAJECTORY: Final = "saccade_trajectory"
"""Where in a sample's store the trajectory is."""
_SOURCES: Final = "saccade_sources"


class OutageEndedError(SaccadeError):
    """An outage ended an episode: the sample has an error and no score."""


@inspect_task(name="look")  # type: ignore[untyped-decorator]
def look(
    sources: str | Sequence[str] = "visual-search",
    n: int | None = None,
    dialect: str = "pyvision",
    rubric: str = "",
    settings: dict[str, Any] | None = None,
) -> InspectTask:
    """Return a task of inspect_ai: questions about pictures, played by our loop and scored by our graders.

    Args:
        sources: worlds, benchmarks, files and folders by name; several in a list, or with commas between them.
        n: most tasks; None: all. A world, which has no end, gives its first 4096.
        dialect: how the model is spoken to.
        rubric: a reward preset; empty: right or wrong by the task's own grader.
        settings: further settings of an episode, as `saccade ask` takes them (`limits`, `tools`, `sandbox`, ...).

    Raises:
        SettingsError, RegistryError, DataError: before the first sample, for whatever cannot work.
    """
    return InspectTask(
        dataset=dataset(sources, n), solver=look_again(dialect=dialect, settings=settings), scorer=graded(rubric=rubric)
    )


def dataset(sources: str | Sequence[str], n: int | None = None) -> MemoryDataset:
    """Return the tasks as samples whose input is the pictures and the question, for any solver.

    Raises `SettingsError`: a source's name means nothing, or `n` is below 1. DataError, RecordError: the data are not
    there, or cannot be read.
    """
    named = tuple(name.strip() for name in sources.split(",")) if isinstance(sources, str) else tuple(sources)
    with tempfile.TemporaryDirectory(prefix="saccade-inspect-") as folder:
        store = MediaStore(folder)
        samples = [_sample(task_of(named, name, store), named, store) for name in names_of(named, n)]
    return MemoryDataset(samples, name="+".join(named))


@solver  # type: ignore[untyped-decorator]
def look_again(dialect: str = "pyvision", settings: dict[str, Any] | None = None) -> Solver:
    """Return a solver that plays our loop: the model writes Python, our sandbox runs it, the model sees the result.

    For samples of `dataset`. The trajectory is in the sample's store, the conversation in its messages.

    Raises:
        SettingsError, RegistryError: a setting is wrong, or the dialect needs function calling.
    """
    given = {"model": "inspect", "dialect": dialect, **(settings or {})}
    episode = load_settings(EpisodeSettings, None, (), given)
    spoken, tools = episode.spoken()
    if getattr(spoken, "functions", ()):
        raise SettingsError(
            f"dialect {spoken.id} speaks through function calling, which is not passed on to inspect_ai"
        )

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        with tempfile.TemporaryDirectory(prefix="saccade-inspect-") as folder:
            store = MediaStore(folder)
            ready = prepared_to_ask(_made(state, store), spoken, episode, store)
            plan = Plan(
                ready.task,
                ready.dialect,
                sampling=episode.sampling,
                given_limits=limits_with(spoken.limits, **episode.limits.model_dump()),
                rollout=state.epoch - 1,
                settings=settings_toml(episode),
                shown=ready.shown,
                notes=ready.notes,
            )
            async with episode.provider(plan.dialect) as sandbox:
                trajectory = await run_episode(plan, InspectModel(get_model()), sandbox, store, tools=tools)
            state.store.set(TRAJECTORY, trajectory.model_dump(mode="json"))
            state.messages = chat_messages(conversation(trajectory.prompt, trajectory.turns), store)
        if trajectory.lost:
            raise OutageEndedError(f"an outage ended the episode ({trajectory.stop}): {trajectory.stop_detail}")
        state.output = ModelOutput.from_content(model=str(state.model), content=trajectory.answer or "")
        return state

    return solve


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator]
def graded(rubric: str = "") -> Scorer:
    """Score by our graders the trajectory of `look_again`: the task's own, or a reward preset.

    The value is the weighted sum of the parts, which are in the score's metadata. A task without gold answer is
    unscored. Raises `RegistryError` or `SettingsError` for a preset that there is not, or that needs a judge.
    """
    rule = as_rubric(rubric or None)

    async def score(state: TaskState, target: Target) -> InspectScore:
        kept = state.store.get(TRAJECTORY)
        if kept is None:
            raise SettingsError("this sample holds no trajectory: `graded` scores what the solver `look_again` played")
        trajectory = Trajectory.model_validate(kept)
        parts = rule(trajectory)
        metadata = {part.name: part.value for part in parts} | {"stop": str(trajectory.stop)}
        explanation = "; ".join(part.detail for part in parts if part.detail)
        value = total(parts)
        if value is None:
            return InspectScore.unscored(
                reason="no_gold_answer", answer=trajectory.answer, explanation=explanation, metadata=metadata
            )
        return InspectScore(value=value, answer=trajectory.answer, explanation=explanation, metadata=metadata)

    return score


def _sample(task: Task, sources: tuple[str, ...], store: MediaStore) -> Sample:
    return Sample(
        input=[question_message(task, store)],
        target=task.answer or "",
        choices=list(task.choices) or None,
        id=task.id,
        metadata={_SOURCES: list(sources)},
    )


def _made(state: TaskState, store: MediaStore) -> Task:
    sources = state.metadata.get(_SOURCES)
    if not sources:
        raise SettingsError("this sample is of no source of ours: give `look_again` samples of `dataset`")
    return task_of(tuple(sources), str(state.sample_id), store)


# Runs of ours as logs of inspect_ai, for its viewer and its data frames.
#
# Every trajectory is one sample: the conversation with its pictures, the scores that are stored, and the trajectory
# itself in the sample's store. Model calls are not told apart, since our record keeps turns. A trajectory that an
# outage ended has an error and no score.


def write_inspect_log(run: Path, out: Path) -> Path:
    """Write the trajectories of the run folder `run` as one log to `out`, a name that ends in `.eval` or `.json`.

    Raises `RecordError`: the folder holds no trajectories, or they cannot be read; `SettingsError`: `out` has another
    ending, or is there already; `MissingMediaError`: a picture of a trajectory is not in the folder.
    """
    if out.suffix not in (".eval", ".json"):
        raise SettingsError(f"{out} is no name of a log of inspect_ai: end it in .eval or .json")
    if out.exists():
        raise SettingsError(f"{out} is there already. Remove it, or name another file.")
    folder = RunFolder(run)
    if not folder.ids:
        raise RecordError(f"{run} holds no trajectories, so there is nothing to write")
    trajectories = tuple(read_lines(folder.path, Trajectory))
    samples = [_log_sample(trajectory, folder.store) for trajectory in trajectories]
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


def _log_sample(trajectory: Trajectory, store: MediaStore) -> EvalSample:
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
