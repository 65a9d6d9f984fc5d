"""Ours to another format and back: equal to what that format says it holds."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.media.clips import h264
from tests.tasks.sources import files
from tests.training.sft.formats.cases import ALL, Scene, picture, read
from tests.training.sft.formats.test_foreign import Foreign

from saccade.dialects.base import load_dialect
from saccade.errors import DataError, RecordError
from saccade.media.store import MediaStore
from saccade.record.content import VideoPart, clean_text
from saccade.record.execution import Execution, Status
from saccade.record.task import AnswerType, EvidenceBox, NamedMedia, RewardParameter, Task
from saccade.record.trajectory import Provenance, StopReason, Trajectory
from saccade.tasks.sources.settings import FieldNames, SourceSettings
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.sft.formats.base import ConversionOptions, convert, load_format
from saccade.training.sft.formats.conversation import RowFormat, held
from saccade.training.sft.formats.files import find_rows, read_rows

CONVERSATIONS = ("sharegpt", "swift")


def held_by(name: str, trajectory: Trajectory) -> Trajectory:
    format_ = load_format(name)
    assert isinstance(format_, RowFormat)
    return format_.codec.held(trajectory)


def there_and_back(scene: Scene, name: str, *trajectories: Trajectory) -> list[Trajectory]:
    middle, out = scene.convert(scene.write(*trajectories), "saccade", name)
    assert out.refused == ()
    back, home = scene.convert(middle, name, "saccade")
    assert home.refused == ()
    return read(back)


def test_ours_to_ours_is_everything(scene: Scene) -> None:
    written = [scene.two_looks(dialect) for dialect in ALL]
    assert there_and_back(scene, "saccade", *written) == written


@pytest.mark.parametrize("name", [*CONVERSATIONS, "verl"])
def test_every_dialect(scene: Scene, name: str) -> None:
    written = [scene.two_looks(dialect, id=f"t{n}") for n, dialect in enumerate(ALL)]
    written += [scene.episode(f"direct@1:{kind}", [], id=kind) for kind in ("reason", "short", "think")]
    assert there_and_back(scene, name, *written) == [held_by(name, item) for item in written]


@pytest.mark.parametrize("name", ["thyme", "thyme-base64"])
def test_thyme(scene: Scene, name: str) -> None:
    written = [scene.two_looks("thyme@1:train"), scene.episode("thyme@1:eval", [], id="direct")]
    assert there_and_back(scene, name, *written) == [held_by(name, item) for item in written]


def test_media_come_back_bit_by_bit(scene: Scene) -> None:
    written = scene.two_looks("codedance@1")
    middle, _ = scene.convert(scene.write(written), "saccade", "sharegpt")
    back, _ = scene.convert(middle, "sharegpt", "saccade")
    for part in held(written).media():
        path = Path("media") / part.sha256[:2] / part.sha256
        assert (back / path).read_bytes() == (scene.run / path).read_bytes()


def test_what_is_held_is_what_the_docstring_says(scene: Scene) -> None:
    written = scene.two_looks("pyvision@1:repo", tags=("chart",), split="train")
    kept = held(written)
    assert [turn.text for turn in kept.turns] == [turn.text for turn in written.turns]
    assert [turn.action for turn in kept.turns] == [turn.action for turn in written.turns]
    assert [turn.observation for turn in kept.turns] == [turn.observation for turn in written.turns]
    assert [(line.role, line.text, line.media) for line in kept.prompt] == [
        (line.role, line.text, line.media) for line in written.prompt
    ]
    assert (kept.id, kept.stop) == (written.id, StopReason.ANSWERED)
    assert (kept.task.question, kept.task.answer, kept.task.source) == ("How many?", "5", "made up")
    assert all(turn.execution is None for turn in kept.turns)
    assert (kept.scores, kept.task.tags, kept.task.split, kept.seconds) == ((), (), "", 0.0)


plain = st.text(st.characters(exclude_categories=("Cs",)), max_size=30).map(clean_text)
places = st.lists(
    st.sampled_from(["<image>", "<video>", "<image\\>", "<\\image>", "<image\\\\>", "<image", ">", "a", "\n"])
)
words = st.one_of(plain, places.map("".join))
steps = st.lists(st.tuples(words, words, st.lists(st.integers(0, 3), max_size=2), st.booleans()), max_size=3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(ALL), steps, words, words)
def test_whatever_was_printed_comes_back_or_is_refused(
    scene: Scene, dialect: str, turns: list[tuple[str, str, list[int], bool]], question: str, answer: str
) -> None:
    outcomes = []
    for thought, printed, seeds, fine in turns:
        failed = Execution(status=Status.ERROR, stdout=printed, traceback=f"ValueError: {printed}")
        outcomes.append((thought, scene.execution(printed, *seeds) if fine else failed))
    try:
        written = scene.episode(dialect, outcomes, answer, question=question)
    except ValueError:
        return  # the dialect itself cannot say this
    for name in [*CONVERSATIONS, "verl", *(["thyme", "thyme-base64"] if dialect.startswith("thyme") else [])]:
        format_ = load_format(name)
        with tempfile.TemporaryDirectory() as folder:
            refused = format_.write([written], scene.store, Path(folder), ConversionOptions())
            back = list(format_.read(Path(folder), ConversionOptions(), scene.store).rows)
        assert back == ([] if refused else [held_by(name, written)])


@pytest.mark.parametrize("dialect", ALL)
def test_plain_words_are_never_refused(scene: Scene, dialect: str) -> None:
    outcomes = [("Hm, näher.", scene.execution("x < 5 & y > 3 </code>\n", 2, 2)), ("So.", scene.execution(""))]
    written = scene.episode(dialect, outcomes, question="Wie viele?\nUnd <b>?")
    scene.write(written)
    for name in (*CONVERSATIONS, "verl"):
        _, out = scene.convert(scene.run, "saccade", name)
        assert [item.reason for item in out.refused] == []


IMAGES = (
    "pyvision-rl-image",
    "pyvision-rl-image-no-hint",
    "deepeyes:train",
    "codedance",
    "vista",
    "thyme:train",
    "codev",
)

PYVISION = ("pyvision-rl-image", "pyvision-rl-image-no-hint", "pyvision-rl-video")


def asked(task: Task, dialect: str) -> Trajectory:
    """A task as an episode that has not begun."""
    loaded = load_dialect(dialect)
    return Trajectory(
        id=f"{task.id}#0", task=task, provenance=Provenance(dialect=loaded.id), prompt=loaded.open(task).messages
    )


def one_there_and_back(written: Trajectory, scene: Scene, name: str) -> Trajectory | str:
    """What is read of what was written, or why it was refused."""
    format_ = load_format(name)
    with tempfile.TemporaryDirectory() as folder:
        refused = format_.write([written], scene.store, Path(folder), ConversionOptions())
        if refused:
            return refused[0].reason
        (back,) = format_.read(Path(folder), ConversionOptions(), scene.store).rows
    assert isinstance(back, Trajectory), back
    return back


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("av")
    file = tmp_path_factory.mktemp("clips") / "clip.mp4"
    file.write_bytes(h264(6))
    return file


texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20).map(str.strip).filter(bool)
seeds = st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True)


@st.composite
def tasks(draw: st.DrawFn) -> dict[str, Any]:
    choices = tuple(draw(st.lists(texts, min_size=2, max_size=4, unique=True))) if draw(st.booleans()) else ()
    return {
        "question": draw(texts),
        "choices": choices,
        "answer": draw(st.sampled_from(choices)) if choices else draw(st.none() | texts),
        "answer_type": AnswerType.CHOICE if choices else draw(st.sampled_from([AnswerType.TEXT, AnswerType.NUMBER])),
        "tags": tuple(draw(st.lists(texts, max_size=2))),
        "split": draw(st.sampled_from(["", "train"])),
        "grader": draw(st.sampled_from(["", "math@1", "judge|text@1"])),
        "difficulty": draw(st.none() | st.floats(0, 1)),
        "reward": draw(st.sampled_from([(), (RewardParameter(name="accuracy_weight", value=1.2),)])),
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tasks(), seeds, st.sampled_from(IMAGES), st.booleans())
def test_tasks_with_pictures_come_back_as_they_are(
    scene: Scene, fields: dict[str, Any], pictures: list[int], dialect: str, boxed: bool
) -> None:
    media = tuple(NamedMedia(name=f"p{seed}", part=scene.put(seed)) for seed in pictures)
    boxes = (EvidenceBox(image=media[0].name, xyxy=(1, 2, 9, 9), label="it"),) if boxed else ()
    written = asked(Task(id="t", media=media, evidence=boxes, source="made up", **fields), dialect)
    for name in ("verl", "pyvision-rl"):
        back = one_there_and_back(written, scene, name)
        if isinstance(back, str):
            assert name == "pyvision-rl"
            assert "PyVision-RL's loader takes" in back
            continue
        assert (back.task, back.id, back.provenance.dialect) == (written.task, "t#0", written.provenance.dialect)
        assert [part for line in back.prompt for part in line.media] == [
            part for line in written.prompt for part in line.media
        ]
        assert "".join(line.text for line in back.prompt) == "".join(line.text for line in written.prompt)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tasks(), st.sampled_from(["verl", "pyvision-rl"]))
def test_tasks_with_a_video_come_back_as_they_are(scene: Scene, clip: Path, fields: dict[str, Any], name: str) -> None:
    video = NamedMedia(name="video_0", part=scene.store.put_video(clip))
    written = asked(Task(id="t", media=(video,), source="vsi", **fields), "pyvision-rl-video")
    back = one_there_and_back(written, scene, name)
    assert isinstance(back, Trajectory)
    assert (back.task, back.prompt) == (written.task, written.prompt)


@pytest.mark.parametrize("dialect", PYVISION)
def test_rows_are_as_the_loader_of_pyvision_rl_takes_them(scene: Scene, clip: Path, dialect: str) -> None:
    video = dialect.endswith("video")
    part = scene.store.put_video(clip) if video else scene.put(1)
    written = asked(Task(id="t", question="q", media=(NamedMedia(name="m", part=part),), answer="a"), dialect)
    target, done = scene.convert(scene.write(written), "saccade", "pyvision-rl", root="/data/rl")
    assert done.refused == ()
    (row,) = json.loads((target / "data.json").read_text())
    assert row["prompt"][0]["content"].count("<image>") == (dialect == "pyvision-rl-image")
    assert "<image_clue_0>" not in row["prompt"][0]["content"]
    assert row["mm_hint"]["hint_type"] == ("video" if video else "image")
    assert row["mm_hint"]["hint_path"].startswith("/data/rl/media/")
    assert (target / "media" / Path(row["mm_hint"]["hint_path"]).name).is_file()
    assert row["reward_model"] == {"style": "model", "ground_truth": "a"}
    assert row["env_name"].startswith("pyvision_gym_w")
    assert {"answer", "index", "question", "split"} <= row["extra_info"].keys()
    back, again = scene.convert(target, "pyvision-rl", "saccade")
    assert again.refused == ()
    assert [item.task for item in read(back)] == [written.task]


def test_two_pictures_are_too_many_for_that_loader(scene: Scene) -> None:
    media = tuple(NamedMedia(name=f"p{n}", part=scene.put(n)) for n in range(2))
    written = asked(Task(id="t", question="q", media=media), "pyvision-rl-image")
    assert "one picture or one video, and it has 2" in str(one_there_and_back(written, scene, "pyvision-rl"))
    assert "takes its own alone" in str(one_there_and_back(asked(written.task, "codev"), scene, "pyvision-rl"))
    assert isinstance(one_there_and_back(written, scene, "verl"), Trajectory)


def published(kind: str, path: str, prompt: str, env_name: str) -> dict[str, Any]:
    return {
        "prompt": [{"content": prompt, "role": "user"}],
        "data_source": "vsi",
        "ability": "x",
        "env_name": env_name,
        "reward_model": {"ground_truth": "3", "style": "model"},
        "extra_info": {"answer": "3", "index": 4, "question": "How many?", "split": "train"},
        "mm_hint": {"hint_path": path, "hint_type": kind},
    }


@pytest.mark.parametrize("name", ["verl", "pyvision-rl"])
def test_published_rows_of_pyvision_rl(scene: Scene, clip: Path, name: str) -> None:
    foreign = Foreign(scene)
    (foreign.folder / "clip.mp4").write_bytes(clip.read_bytes())
    shown = published("image", "/mnt/elsewhere/images/0.jpg", "<image>\nHow many?", "pyvision_gym_w_image_hint")
    unseen = published("image", "images/1.jpg", "How many?", "pyvision_gym_wo_image_hint")
    video = published("video", "/mnt/elsewhere/clip.mp4", "How many?", "pyvision_gym_wo_video_hint")
    lost = published("video", "gone.mp4", "How many?", "pyvision_gym_wo_video_hint")
    (foreign.folder / "rows.json").write_text(json.dumps([shown, unseen, video, lost]))
    target, done = foreign.scene.convert(foreign.folder / "rows.json", name, "saccade")
    first, second, third = read(target)
    assert first.prompt[0].text == "<image_clue_0></image_clue_0>\nHow many?"
    assert [len(item.prompt[0].media) for item in (first, second, third)] == [1, 0, 0]
    assert [item.task.media[0].part.kind for item in (first, second, third)] == ["image", "image", "video"]
    assert isinstance(third.task.media[0].part, VideoPart)
    assert [item.provenance.dialect.partition("@")[0] for item in (first, second, third)] == list(PYVISION)
    assert (third.task.split, third.task.answer, third.id) == ("train", "3", "vsi-4-2")
    assert [(item.row, "gone.mp4" in item.reason) for item in done.refused] == [(3, True)]


def test_an_edited_row_is_an_edited_task(scene: Scene) -> None:
    media = (NamedMedia(name="p", part=scene.put(0)),)
    choice = Task(id="t", question="q", media=media, choices=("a", "b"), answer="a", answer_type=AnswerType.CHOICE)
    target, _ = scene.convert(scene.write(asked(choice, "pyvision-rl-image")), "saccade", "pyvision-rl")
    (row,) = [row for row in read_rows(find_rows(target)) if isinstance(row, dict)]
    row["reward_model"]["ground_truth"] = "b"
    (target / "data.json").write_text(json.dumps([row, {**row, "reward_model": {"ground_truth": "neither"}}]))
    back, done = scene.convert(target, "pyvision-rl", "saccade")
    assert [item.task.answer for item in read(back)] == ["b"]
    assert "extra_info.record" in done.refused[0].reason
    picture(3).save(target / row["mm_hint"]["hint_path"])
    _, changed = scene.convert(target, "pyvision-rl", "saccade")
    assert "names media that the row does not hold: p" in changed.refused[0].reason


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tasks(), seeds, st.sampled_from(IMAGES), st.booleans(), st.booleans())
def test_written_rows_are_a_source_of_the_same_tasks(
    scene: Scene, clip: Path, fields: dict[str, Any], pictures: list[int], dialect: str, boxed: bool, moving: bool
) -> None:
    """What trainers are given, every command takes as its tasks: choices, boxes, grader and all."""
    media = tuple(NamedMedia(name=f"p{seed}", part=scene.put(seed)) for seed in pictures)
    boxes = (EvidenceBox(image=media[0].name, xyxy=(1, 2, 9, 9), label="it"),) if boxed else ()
    if moving:
        dialect, boxes = "pyvision-rl-video", ()
        media = (NamedMedia(name="film", part=scene.store.put_video(clip)),)
    written = asked(Task(id="t", media=media, evidence=boxes, source="made up", **fields), dialect)
    for name in ("verl", "pyvision-rl"):
        with tempfile.TemporaryDirectory() as folder:
            if load_format(name).write([written], scene.store, Path(folder), ConversionOptions()):
                continue
            pool = open_tasks([folder])
            (light,) = pool.parts[0].lights
            (task,) = pool.tasks(MediaStore(Path(folder) / "store"))
        assert task == written.task.model_copy(update={"id": f"{Path(folder).name}/t#0"})
        assert (light.tags, light.grader, light.answer_type) == (task.tags, task.grader, task.answer_type)


def test_a_record_that_a_source_cannot_use(scene: Scene) -> None:
    media = (NamedMedia(name="p", part=scene.put(0)),)
    choice = Task(id="t", question="q", media=media, choices=("a", "b"), answer="a", answer_type=AnswerType.CHOICE)
    target, _ = scene.convert(scene.write(asked(choice, "pyvision-rl-image")), "saccade", "pyvision-rl")
    (row,) = json.loads((target / "data.json").read_text())
    edited = {**row, "reward_model": {"ground_truth": "b"}}
    wrong = {**row, "reward_model": {"ground_truth": "neither"}}
    (target / "data.json").write_text(json.dumps([edited, wrong]))
    pool = open_tasks([str(target)])
    assert "none of the choices" in pool.problems[0].reason
    (task,) = pool.tasks(MediaStore(scene.root / "store"))
    assert (task.answer, task.choices) == ("b", ("a", "b"))
    named = SourceSettings(name=str(target / "data.json"), fields=FieldNames(question="ability", answer="env_name"))
    (target / "data.json").write_text(json.dumps([{**edited, "ability": "Which?"}]))
    (other,) = open_tasks([named]).tasks(MediaStore(scene.root / "store"))
    assert (other.question, other.choices) == ("Which?", ())
    picture(3).save(target / row["mm_hint"]["hint_path"])
    with pytest.raises(DataError, match="names media that the row does not hold: p"):
        list(pool.tasks(MediaStore(scene.root / "store")))


def test_pictures_of_tools_are_none_of_the_question(scene: Scene) -> None:
    """In a conversation that was written as rows, as a source of tasks."""
    target, _ = scene.convert(scene.write(scene.two_looks("codedance@1")), "saccade", "sharegpt")
    (row,) = [row for row in read_rows(find_rows(target)) if isinstance(row, dict)]
    assert len(row["images"]) == 2
    (task,) = open_tasks([str(target)]).tasks(MediaStore(scene.root / "store"))
    assert [item.part for item in task.media] == [scene.put(0)]
    assert (task.question, task.answer) == ("How many?", "5")


def test_a_folder_of_tasks_that_were_not_played_is_converted(tmp_path: Path) -> None:
    pytest.importorskip("av")
    folder = tmp_path / "mine"
    files.picture(folder / "a.png")
    files.picture(folder / "b.png", "blue")
    files.video(folder / "clips" / "c.mp4")
    rows: list[dict[str, Any]] = [
        {"image": "a.png", "question": "What colour?", "answer": "red", "grader": "text@1", "boxes": [[1, 2, 30, 40]]},
        {"image": "b.png", "question": "How many?", "choices": ["2", "3"], "answer": "3", "category": "count"},
        {"images": ["a.png", "b.png"], "question": "Which is blue?", "answer": "second"},
        {"video": "clips/c.mp4", "question": "What happens?", "answer": "it gets brighter"},
        {"image": "lost.png", "question": "?", "answer": "x"},
    ]
    files.jsonl(folder / "questions.jsonl", rows)
    known = open_tasks([str(folder)])

    def there_and_again(to: str, dialect: str) -> list[str]:
        """What was refused; what was not is the same task when it is read."""
        out, store = tmp_path / f"{to}-{dialect}", MediaStore(tmp_path / "store")
        done = convert(folder, out, (load_format("saccade"), load_format(to)), ConversionOptions(dialect))
        again = open_tasks([str(out)])
        for task in again.tasks(store):
            name = task.id.removeprefix(f"{again.parts[0].label}/").removesuffix("#0")
            assert task.model_copy(update={"id": name}) == known.make(name, store)
        assert len(again) == done.written == done.read - len(done.refused)
        return [item.reason for item in done.refused]

    two, moves, lost = there_and_again("pyvision-rl", "pyvision-rl-image")
    assert "one picture or one video, and it has 2" in two
    assert "shows pictures only" in moves
    assert "no file lost.png" in lost
    still = there_and_again("pyvision-rl", "pyvision-rl-video")
    assert len(still) == 4
    assert len(there_and_again("verl", "deepeyes")) == 2
    with pytest.raises(RecordError, match="--dialect"):
        load_format("saccade").read(folder, ConversionOptions(), MediaStore(tmp_path / "store"))


@pytest.mark.parametrize("dialect", ALL)
def test_a_literal_placeholder_is_kept_in_every_text(scene: Scene, dialect: str) -> None:
    literal = "a <image> b <video> c <image\\> d <\\image>"
    outcomes = [(literal, scene.execution(literal + "\n", 2)), (literal, scene.execution(literal))]
    written = scene.episode(dialect, outcomes, question="What is <image\\>, and <image\\\\>?")
    for name in (*CONVERSATIONS, "verl"):
        assert there_and_back(scene, name, written) == [held_by(name, written)]
    middle, _ = scene.convert(scene.run, "saccade", "sharegpt")
    (row,) = [json.loads(line) for line in (middle / "data.jsonl").read_text(encoding="utf-8").splitlines()]
    said = "".join(line["value"] for line in row["conversations"]) + row.get("system", "")
    assert said.count("<image>") == len(row["images"]) == 2
    assert said.count("<video>") == len(row["videos"])
    assert "What is <image>, and <image\\>?" in "".join(message.text for message in written.prompt)
