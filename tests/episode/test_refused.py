"""What cannot work, or would be lost, is refused or said: combinations of settings, folders, performers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError
from tests.episode.support import CODE, OK, plan, stored_task, task

from saccade.dialects.base import Dialect, Observation, Opening, load_dialect
from saccade.dialects.prompt_texts import Prompts
from saccade.episode.ask import AskSettings, check_speaks
from saccade.episode.drive import NotKeptError, Performer, begun, run_kept
from saccade.episode.flow import Ask, Ran, Run, Said, Stopped
from saccade.episode.prepared import check_room, prepared_to_ask
from saccade.episode.run_folder import EpisodeJournal, RunFolder, check_continued
from saccade.episode.settings import EpisodeSettings, PromptSettings, SessionLimits
from saccade.episode.task_media import check_listed
from saccade.episode.workbench import Workbench, _video_path, equipped
from saccade.errors import IsolationError, RecordError, SandboxLostError, SettingsError, ToolLostError
from saccade.media.store import MediaStore
from saccade.models.base import Request
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Action, Code, VideoPart
from saccade.record.execution import Execution, Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import FinishReason, StopReason, Trajectory, Turn
from saccade.sandbox.base import MIB, Limits
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
