"""Episodes that are broken off are kept turn by turn, shown, and continued where they stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError
from tests.episode.support import CODE, OK, plan, stored_task, task

from saccade.dialects.base import Dialect, Observation, Opening, load_dialect
from saccade.dialects.prompt_texts import Prompts
from saccade.episode.ask import AskSettings, check_speaks
from saccade.episode.drive import NotKeptError, Performer, begun, run_kept
from saccade.episode.flow import Ask, Event, Notice, Plan, Ran, Run, Said, Stopped
from saccade.episode.prepared import check_room, prepared_to_ask
from saccade.episode.run_folder import UNFINISHED, EpisodeJournal, RunFolder, check_continued, open_journal, unfinished
from saccade.episode.settings import EpisodeSettings, PromptSettings, SessionLimits
from saccade.episode.task_media import check_listed
from saccade.episode.workbench import Workbench, _video_path, equipped
from saccade.errors import IsolationError, RecordError, SandboxLostError, SettingsError, ToolLostError
from saccade.media.store import MediaStore
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.scripted import ScriptedModel, speak
from saccade.record.content import Action, Answer, Code, VideoPart
from saccade.record.execution import Execution, Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import FinishReason, Sampling, StopReason, Trajectory, Turn
from saccade.report.runs import open_run
from saccade.sandbox.base import MIB, Limits
from saccade.sandbox.local import LocalSandbox
from saccade.tasks.media import FrameSettings

CLIP = VideoPart(sha256="b" * 64, width=64, height=64, frames=8, fps=1, seconds=8)


class Plain(Dialect):
    """A dialect that is no dataclass and has no texts."""

    id = "mine@1"
    sandbox = Limits()

    def open(self, task: Task) -> Opening:
        raise NotImplementedError

    def parse(self, text: str, finish: FinishReason) -> Action:
        raise NotImplementedError

    def write(self, action: Action, thought: str = "") -> str:
        raise NotImplementedError

    def observe(self, execution: Execution, pictures: int) -> Observation:
        raise NotImplementedError


NO_DIALECT = Plain()


def with_texts(**texts: str) -> Dialect:
    dialect = load_dialect("vista")
    return cast(Dialect, dialect.with_prompts(Prompts(texts, "mine.json")))


def test_tools_that_a_prompt_file_has_no_place_for() -> None:
    with pytest.raises(SettingsError, match=r"the system message of mine\.json has no \{tools\}"):
        equipped(with_texts(system="Look.", user="{query}", tool="- {name}"), ["crop"])
    for given in (with_texts(system="Look: {tools}", tool="- {name}"), load_dialect("native")):
        dialect, _ = equipped(given, ["crop"])
        assert [tool.name for tool in cast(Any, dialect).tools] == ["crop"]
    with pytest.raises(SettingsError, match="offers no typed tools"):
        equipped(load_dialect("pyvision"), ["crop"])


def test_texts_and_limits_that_a_dialect_does_not_take() -> None:
    with pytest.raises(SettingsError, match="none is given"):
        PromptSettings(prompt_names={"system": "a"}).equipped(load_dialect("vista"))
    with pytest.raises(SettingsError, match="mine@1 has no prompt that a file could replace"):
        NO_DIALECT.with_prompts(Prompts({"user": "{query}"}, "mine.json"))
    with pytest.raises(SettingsError, match="mine@1 fixes the limits of its sessions"):
        SessionLimits(wall_seconds=1).applied(NO_DIALECT)
    assert SessionLimits().applied(NO_DIALECT) is NO_DIALECT
    remote = SessionLimits(wall_seconds=1).applied(load_dialect("pyvision"), "http://127.0.0.1:9")
    assert remote.sandbox.wall_seconds == 1
    several = SessionLimits(wall_seconds=1, memory_bytes=64 * MIB, cpu_seconds=1)
    with pytest.raises(SettingsError, match=r"session\.cpu_seconds cannot be set"):
        several.applied(load_dialect("pyvision"), "http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("wall_seconds", (0.5, 86_400), (0, 86_401)), ("cpu_seconds", (1, 86_400), (0, 86_401)),
        ("memory_bytes", (64 * MIB,), (64 * MIB - 1,)), ("file_bytes", (0,), (-1,)),
        ("workspace_bytes", (MIB,), (MIB - 1,)),
    ],
)  # fmt: skip
def test_the_least_and_the_most_of_each_limit_of_sessions(
    name: str, taken: tuple[float, ...], refused: tuple[float, ...]
) -> None:
    for value in taken:
        assert getattr(SessionLimits.model_validate({name: value}), name) == value
    for value in refused:
        with pytest.raises(ValidationError, match=name):
            SessionLimits.model_validate({name: value})


def test_frames_that_a_server_would_choose_itself() -> None:
    videos, frames = load_dialect("direct:video"), FrameSettings(fps=1)
    with pytest.raises(SettingsError, match=r"direct@1:video sends videos as such, and .*vllm"):
        check_speaks("vllm:m@http://h:1/v1", videos, frames)
    check_speaks("vllm:m@http://h:1/v1", videos)
    check_speaks("vllm:m@http://h:1/v1", load_dialect("direct"), frames)
    check_speaks("local:folder", videos, frames)
    check_speaks("compatible:m@http://h:1/v1", videos, frames)  # it takes no videos at all, and says so itself


def test_tasks_that_are_there_already_are_looked_at_too() -> None:
    seen, filmed = task(), Task(id="v", question="?", media=(NamedMedia(name="clip", part=CLIP),))
    check_listed([seen], load_dialect("direct"))
    check_listed([filmed], load_dialect("pyvision-rl-video"))
    with pytest.raises(SettingsError, match=r"the list: 1 of 2 tasks holds a video \(v\)"):
        check_listed([seen, filmed], load_dialect("direct"))
    with pytest.raises(SettingsError, match=r"the list: 1 of 2 tasks holds no video \(t\)"):
        check_listed([filmed, seen], load_dialect("pyvision-rl-video"))


@pytest.mark.parametrize(
    ("media", "why"),
    [((), "there is no video"), ((CLIP,), "neither frames.fps nor frames.count is set")],
)
def test_settings_of_frames_that_change_nothing_are_said(media: Sequence[VideoPart], why: str, tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    given = Task(id="t", question="?", media=tuple(NamedMedia(name="clip", part=part) for part in media))
    settings = AskSettings.model_validate({"model": "m", "frames": {"most": 3}, "sandbox": "http://127.0.0.1:9"})
    ready = prepared_to_ask(given, load_dialect("direct:video"), settings, store)
    assert ready.notes == (f"frames.most=3 changes nothing: {why}",)


def test_files_must_fit_one_by_one_and_together(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    first, second = (store.put_blob(bytes([number]) * (3 << 19)) for number in (1, 2))
    media = tuple(
        NamedMedia(name=name, part=CLIP.model_copy(update={"sha256": sha256}))
        for name, sha256 in (("a", first), ("b", second))
    )
    both, dialect = Task(id="t", question="?", media=media), load_dialect("pyvision-rl-video")
    opening = dialect.open(both)

    check_room(
        task(), SessionLimits(file_bytes=0).applied(dialect), load_dialect("direct").open(task()), store, local=True
    )

    def check(files: int, workspace: int) -> None:
        limits = SessionLimits(file_bytes=files, workspace_bytes=workspace)
        check_room(both, limits.applied(dialect), opening, store, local=True)

    check(3 << 19, 3 << 20)
    with pytest.raises(SettingsError, match=r"a has 1,572,864 bytes, and a file of a session may have 1,572,863\."):
        check((3 << 19) - 1, 3 << 20)
    with pytest.raises(SettingsError, match=r"have 3,145,728 bytes.* have 3,145,727\..*workspace_bytes=6291456\."):
        check(3 << 19, (3 << 20) - 1)


def test_folders_that_are_none_of_this_command(tmp_path: Path) -> None:
    settings = EpisodeSettings(model="m")
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="is a file, and a run needs a folder"):
        RunFolder(tmp_path / "file")
    check_continued(tmp_path, settings)
    (tmp_path / "trajectories.jsonl").touch()
    with pytest.raises(SettingsError, match="holds trajectories of another command"):
        check_continued(tmp_path, settings)
    for text, said in (("model = ", "not valid TOML"), ("seed = 3", "does not say model")):
        (tmp_path / "settings.toml").write_text(text)
        with pytest.raises(SettingsError, match=said):
            check_continued(tmp_path, settings)


def test_a_number_for_a_new_rollout_is_free(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.next_rollout("t") == 0
    one = Task(id="t", question="?")
    folder.append(*(Trajectory(id=f"t#{number}", task=one, rollout=number) for number in (1, 2)))
    assert folder.next_rollout("t") == 3, "as many as there are, and further where that one is taken"
    folder.journal_of("t#3").parent.mkdir()
    folder.journal_of("t#3").touch()
    assert folder.next_rollout("t") == RunFolder(tmp_path).next_rollout("t") == 4
    folder.append(Trajectory(id="t#3", task=one, rollout=3))
    assert not folder.journal_of("t#3").exists()


async def test_an_episode_that_the_disk_refuses_is_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path / "run")

    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder, "append", full)
    with pytest.raises(NotKeptError, match="the disk is full") as lost:
        await run_kept(plan("direct"), ScriptedModel(["<answer>cat</answer>"]), None, folder)
    assert lost.value.trajectory.answer == "cat"


def performer(tmp_path: Path, error: Exception | None = None, journal: EpisodeJournal | None = None) -> Performer:
    """One without a model, whose workbench raises `error` once and gives what `OK` says."""
    store = MediaStore(tmp_path)
    workbench = Workbench(plan(of=stored_task(store)), None, store)
    errors = [] if error is None else [error]

    async def act(effect: object) -> Execution:
        if errors:
            raise errors.pop()
        return OK

    workbench.run = act  # type: ignore[method-assign]
    return Performer(None, workbench, store, journal=journal)


async def test_every_outage_has_its_own_name(tmp_path: Path) -> None:
    found = [
        await performer(tmp_path, error).perform(Run("1"))
        for error in (SandboxLostError("a"), ToolLostError("b"), OSError(28, "full"))
    ]
    assert [reply.reason for reply in found if isinstance(reply, Stopped)] == [
        StopReason.SANDBOX_LOST,
        StopReason.TOOL_LOST,
        StopReason.SANDBOX_LOST,
    ]
    with pytest.raises(IsolationError):
        await performer(tmp_path, IsolationError("no sandbox here")).perform(Run("1"))
    with pytest.raises(TypeError, match="answer `Ask` yourself"):
        await performer(tmp_path).perform(Ask(Request(())))
    with pytest.raises(SettingsError, match="pyvision@1:repo asked to run code, but this episode has no sandbox"):
        await Workbench(plan(), None, MediaStore(tmp_path)).run(Run("1"))


def test_a_video_takes_no_path_that_is_taken() -> None:
    gif = CLIP.model_copy(update={"mime": "image/gif"})
    assert _video_path("clip_0", gif, {"a": b""}) == "clip_0.gif"
    assert _video_path("clip_0", gif, {"clip_0.gif": b"", "_clip_0.gif": b""}) == "__clip_0.gif"


@pytest.mark.parametrize(
    ("stdout", "said"), [("1\n", "with the same output."), ("2\n", "gave another output in turn 1.")]
)
async def test_what_ran_before_is_run_again_and_compared(stdout: str, said: str, tmp_path: Path) -> None:
    before = Execution(status=Status.OK, stdout=stdout, committed=True)
    turn = Turn(text=CODE, action=Code(code="print(1)"), execution=before, model_seconds=2.0, execution_seconds=0.5)
    head = begun(plan(), "m")
    journal = EpisodeJournal(tmp_path / "a.jsonl", head, [turn])
    one = performer(tmp_path, journal=journal)
    asked = await one.perform(Ask(Request(())))
    assert isinstance(asked, Said)
    assert (asked.completion.text, asked.seconds) == (CODE, 2.0)
    assert await one.perform(Run("print(1)", turns=(turn,))) == Ran(before, 0.5)
    lost = await performer(tmp_path, SandboxLostError("gone"), journal).perform(Run("print(1)", turns=(turn,)))
    assert lost == Stopped(StopReason.SANDBOX_LOST, "gone")
    ended = journal.with_earlier(head.model_copy(update={"seconds": 1.0}))
    assert (ended.seconds, ended.stop_detail.endswith(said)) == (3.5, True)


DIALECT = load_dialect("pyvision")
TASK = Task(id="t", question="How many?")


class Killed(BaseException):
    """Stands for a kill: nothing of ours catches it."""


class Turns:
    """Says one text for each turn of the request, and is killed where there is none."""

    name = "turns"

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.asked: list[int] = []

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        turn = sum(message.role == "assistant" for message in request.messages)
        self.asked.append(turn)
        if turn >= len(self.texts):
            raise Killed
        return speak(self.texts[turn], request, self.name)

    async def close(self) -> None:
        pass


def code(text: str) -> str:
    return DIALECT.write(Code(code=text))


FIRST, SECOND = code("x = 20\nprint(x)"), code("x += 1\nprint(x * 2)")
LAST = DIALECT.write(Answer(text="42"))


async def play(root: Path, model: Turns, **changes: object) -> Trajectory:
    folder = RunFolder(root)
    plan = Plan(TASK, DIALECT, rollout=folder.next_rollout(TASK.id), **changes)  # type: ignore[arg-type]
    async with LocalSandbox(limits=DIALECT.sandbox) as sandbox:
        return await run_kept(plan, model, sandbox, folder, watch=HEARD.append)


HEARD: list[Event] = []


def noticed() -> list[str]:
    """What the screen was told since it was asked last."""
    said = [event.text for event in HEARD if isinstance(event, Notice)]
    HEARD.clear()
    return said


async def test_a_broken_off_episode_is_continued_without_asking_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "saccade.episode.drive")
    with pytest.raises(Killed):
        await play(tmp_path, Turns(FIRST))
    (left,) = unfinished(tmp_path)
    assert [turn.execution and turn.execution.stdout for turn in left.trajectory.turns] == ["20\n"]
    assert (left.trajectory.stop, left.trajectory.turns[0].observation is None) == (None, False)
    (shown,) = open_run(tmp_path).trajectories()
    assert shown == left.trajectory
    model = Turns(FIRST, SECOND, LAST)
    made = await play(tmp_path, model)
    assert model.asked == [1, 2]
    assert [record.args for record in caplog.records if "continues" in record.msg] == [("t#0", 1)]
    assert [turn.execution and turn.execution.stdout for turn in made.turns] == ["20\n", "42\n", None]
    assert (made.id, made.answer, made.stop) == ("t#0", "42", StopReason.ANSWERED)
    assert made.stop_detail == "Continued after turn 1; its earlier calls were run again, with the same output."
    assert made.turns[0] == left.trajectory.turns[0]
    assert not list(unfinished(tmp_path))
    assert [item.id for item in open_run(tmp_path).trajectories()] == ["t#0"]
    assert (await play(tmp_path, Turns(LAST))).id == "t#1"


@pytest.mark.slow
async def test_it_may_be_broken_off_again_and_again(tmp_path: Path) -> None:
    for texts, asked in (((FIRST,), [0, 1]), ((FIRST, SECOND), [1, 2]), ((FIRST, SECOND), [2])):
        model = Turns(*texts)
        with pytest.raises(Killed):
            await play(tmp_path, model)
        assert model.asked == asked
        with next((tmp_path / UNFINISHED).iterdir()).open("ab") as file:
            file.write(b'{"schema_version":1,"number":2,"tu')  # as a kill in the middle of a write leaves it
    made = await play(tmp_path, Turns(FIRST, SECOND, LAST))
    assert (made.answer, len(made.turns)) == ("42", 3)


async def test_other_output_than_before_is_said(tmp_path: Path) -> None:
    by_chance = code("import random\nprint(random.SystemRandom().random())")
    with pytest.raises(Killed):
        await play(tmp_path, Turns(FIRST, by_chance))
    (left,) = unfinished(tmp_path)
    made = await play(tmp_path, Turns(FIRST, by_chance, LAST))
    assert made.stop_detail.endswith("gave another output in turn 2.")
    assert made.turns[:2] == left.trajectory.turns


def opened(folder: RunFolder, plan: Plan) -> tuple[Plan, EpisodeJournal]:
    return open_journal(folder, plan, begun(plan, "m"))


def test_a_journal_is_read_to_its_last_whole_line_and_written_until_the_disk_refuses(tmp_path: Path) -> None:
    head = begun(Plan(TASK, DIALECT), "m")
    folder = RunFolder(tmp_path)
    file = folder.journal_of(head.id)
    journal = EpisodeJournal(file, head)
    journal.note(())
    assert [left.trajectory for left in unfinished(tmp_path)] == [head]
    first, second = (Turn(text=text, action=Code(code=text)) for text in ("1", "2"))
    journal.note([first])
    with file.open("ab") as torn:
        torn.write(b'{"schema_version":1,"number":1,"tu')
    (left,) = unfinished(tmp_path)
    assert left.trajectory.turns == (first,)
    journal.note([first])
    assert len(file.read_bytes().splitlines()) == 3
    _, other = opened(folder, Plan(Task(id="u", question="?"), DIALECT))
    assert (other.earlier, other.says) == ((), ())
    again, other = opened(folder, Plan(TASK, DIALECT, rollout=1))
    assert (again.rollout, other.earlier, other.says) == (0, (first,), ())
    kept = file.rename(tmp_path / "aside")
    file.mkdir()
    journal.note([first, second])
    assert "cannot be kept" in journal.problem
    file.rmdir()
    kept.rename(file)
    before = file.read_bytes()
    journal.note([first, second, first])
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "what"),
    [({"settings": "seed = 1"}, "setting"), ({"task": Task(id="t", question="How few?")}, "prompt")],
)
async def test_what_another_plan_has_otherwise_is_named(tmp_path: Path, changes: dict[str, Any], what: str) -> None:
    first = Plan(TASK, DIALECT)
    EpisodeJournal(RunFolder(tmp_path).journal_of(first.id), begun(first, "m")).note(())
    _, journal = opened(RunFolder(tmp_path), replace(first, rollout=1, **changes))
    assert f"begun with another {what};" in journal.says[0]


async def test_another_plan_leaves_it_alone(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        await play(tmp_path, Turns(FIRST))
    noticed()
    made = await play(tmp_path, Turns(LAST), sampling=Sampling(temperature=1.0))
    assert (made.id, made.stop_detail) == ("t#1", "")
    (said,) = noticed()
    assert "t#0 is not continued, for it was begun with another sampling; it stays in" in said
    assert [item.trajectory.id for item in unfinished(tmp_path)] == ["t#0"]


async def test_a_kill_while_code_runs_keeps_what_the_model_wrote(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        await play(tmp_path, Turns(FIRST, SECOND))
    (left,) = unfinished(tmp_path)
    lines = left.file.read_text(encoding="utf-8").splitlines(keepends=True)
    assert len(lines) == 5  # the head, and each turn before and after its call
    left.file.write_text("".join(lines[:4]), encoding="utf-8")
    (left,) = unfinished(tmp_path)
    assert [turn.execution is None for turn in left.trajectory.turns] == [False, True]
    model = Turns(FIRST, SECOND, LAST)
    made = await play(tmp_path, model)
    assert model.asked == [2]
    assert made.turns[1].execution is not None
    assert made.turns[1].execution.stdout == "42\n"


async def test_a_disk_that_cannot_be_written_does_not_end_the_episode(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    (tmp_path / UNFINISHED).write_text("a file in the way")
    heard: list[Event] = []
    async with LocalSandbox(limits=DIALECT.sandbox) as sandbox:
        made = await run_kept(Plan(TASK, DIALECT), Turns(FIRST, LAST), sandbox, folder, watch=heard.append)
    assert made.answer == "42"
    assert ["cannot be used" in event.text for event in heard if isinstance(event, Notice)] == [True]
    assert made.id in folder


@pytest.mark.parametrize(("text", "why"), [("", "it is empty"), ("{}\n", "this Trajectory cannot be read")])
async def test_a_journal_that_cannot_be_read_is_said(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / UNFINISHED).mkdir()
    file = tmp_path / UNFINISHED / "t#0.jsonl"
    file.write_text(text)
    noticed()
    assert (await play(tmp_path, Turns(LAST))).id == "t#1"
    (said,) = noticed()
    assert f"{file} cannot be read and is left out: {why}" in said
    run = open_run(tmp_path)
    assert [item.id for item in run.trajectories()] == ["t#1"]
    assert run.problems == [said]
    run.file.unlink()
    assert list(open_run(tmp_path).trajectories()) == []
