"""Rows of other projects, Thyme-SFT and PyVision's dumps: what is read, what is written, what is refused and why."""

from __future__ import annotations

import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.media.clips import h264
from tests.training.sft.formats.cases import ALL, Scene, picture, read, rows

from saccade.dialects.base import load_dialect
from saccade.errors import RecordError
from saccade.media.store import MediaStore
from saccade.record.content import Answer, Code, ImagePart, ParseError, TextPart, ToolCall, VideoPart
from saccade.record.execution import Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Provenance, StopReason, Trajectory
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.sync import SyncSandbox
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.sft.formats.base import REFUSED, Converted
from saccade.training.sft.formats.conversation import held
from saccade.training.sft.formats.files import find_rows, load_pyarrow, read_rows

CODE = "I look.\n<code>\n```python\nprint(1)\n```\n</code>"
ANSWER = "So.\n<answer>\n\\boxed{5}\n</answer>"

THYME = (
    '<think>I cut.\n<code>\n```python\nfrom PIL import Image\nImage.open("/mllm/a.b/photo.jpg").save("/mnt/data/'
    'temp_processed_images/photo.jpg")\n```\n</code><sandbox_output><image></sandbox_output>It is 5.</think>\n'
    "<answer>5</answer>"
)

THYME_QUESTION = (
    '<image>\nHow many?\n\n### User Image Path:** "/mllm/a.b/photo.jpg"\n### User Image Size:** "64x48"\n\n'
    "### **Output Format (strict adherence required):**\n\n<think>...</think>\n<answer>...</answer>\n"
)


class Foreign:
    """Writes rows of others and converts them to ours."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.folder = scene.root / "foreign"
        (self.folder / "images").mkdir(parents=True)
        for seed in range(3):
            picture(seed).save(self.folder / "images" / f"{seed}.jpg")

    def ours(self, name: str, *data: Any, dialect: str | None = None) -> tuple[list[Trajectory], Converted]:
        file = self.folder / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in data))
        target, done = self.scene.convert(file, name, "saccade", dialect=dialect)
        return read(target), done

    def reason(self, name: str, row: Any, dialect: str | None = "pyvision") -> str:
        """Why a row is refused."""
        found, done = self.ours(name, row, dialect=dialect)
        assert found == []
        return done.refused[0].reason


@pytest.fixture
def foreign(scene: Scene) -> Foreign:
    return Foreign(scene)


def encoded(seed: int) -> str:
    out = BytesIO()
    picture(seed).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def talk(*texts: str, tags: tuple[str, str] = ("human", "gpt"), keys: tuple[str, str] = ("from", "value")) -> list[Any]:
    return [{keys[0]: tags[number % 2], keys[1]: text} for number, text in enumerate(texts)]


OBSERVED = "<interpreter>\nText Result:\n1\nImage Result:\n<image_clue_1><image></image_clue_1></interpreter>\n"


@pytest.mark.parametrize(
    "said",
    [
        talk("<image>\nHow many?", CODE, OBSERVED, ANSWER),
        talk("<image>\nHow many?", CODE, OBSERVED, ANSWER, tags=("user", "assistant"), keys=("role", "content")),
        [{"content": text} for text in ("<image>\nHow many?", CODE, OBSERVED, ANSWER)],
    ],
)
def test_sharegpt_rows(foreign: Foreign, said: list[Any]) -> None:
    row = {"conversations": said, "images": ["images/0.jpg", "images/1.jpg"], "source_dataset": "mmpr", "answer": 5}
    (found,), _ = foreign.ours("sharegpt", row, dialect="pyvision")
    assert [turn.action for turn in found.turns] == [Code(code="print(1)"), Answer(text="5")]
    assert (found.task.question, found.task.answer, found.task.source) == ("How many?", "5", "mmpr")
    assert (found.id, found.stop, found.provenance.dialect) == ("rows-0", StopReason.ANSWERED, "pyvision@1:repo")
    observation = found.turns[0].observation
    assert observation is not None
    assert [type(part) for part in observation.parts] == [TextPart, ImagePart, TextPart]
    assert observation.media[0].mime == "image/jpeg"


def test_a_system_message_among_the_conversations(foreign: Foreign) -> None:
    said = [{"from": "system", "value": "Be good."}, *talk("How many?", ANSWER)]
    (found,), _ = foreign.ours("sharegpt", {"conversations": said}, dialect="pyvision")
    assert [message.role for message in found.prompt] == ["system", "user"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"conversations": talk("q", "I mumble.")}, "turn 0 holds no action of pyvision"),
        ({"conversations": talk("q", "I mumble.", "go on", ANSWER)}, "turn 0 holds no action of pyvision"),
        ({"conversations": talk("q", ANSWER, "and?", ANSWER)}, "turn 0 answers, but further turns follow"),
        ({"conversations": talk("<image> q", ANSWER)}, "more <image> in the texts"),
        ({"conversations": talk("q", ANSWER), "images": ["images/0.jpg"]}, "1 of the media have no placeholder"),
        ({"conversations": talk("<image>", ANSWER), "images": ["images/9.jpg"]}, "no file images/9.jpg"),
        ({"conversations": talk("<image>", ANSWER), "images": ["rows.jsonl"]}, "rows.jsonl: the bytes are no picture"),
        ({"conversations": talk("<image>", ANSWER), "images": [7]}, "7 names no picture"),
        ({"conversations": []}, "no list of messages"),
        ({"conversations": [{"from": "narrator", "value": "q"}]}, "unknown role 'narrator'"),
        ({"conversations": [{"from": "human", "value": 3}]}, "message 0 has no text"),
        ({"conversations": ["q"]}, "message 0 is no object"),
        ({"conversations": talk("q", "<image>" + ANSWER), "images": ["images/0.jpg"]}, "picture stands in what the"),
        ({}, "no list of messages"),
        (["q"], "no JSON object"),
    ],
)
def test_every_row_that_is_not_read_has_its_reason(foreign: Foreign, row: Any, reason: str) -> None:
    assert reason in foreign.reason("sharegpt", row)


def test_refused_rows_keep_their_numbers_and_are_listed(foreign: Foreign) -> None:
    good, bad = {"id": "g", "conversations": talk("q", ANSWER)}, {"id": "b", "conversations": talk("q", "hm")}
    found, done = foreign.ours("sharegpt", good, bad, good, dialect="pyvision")
    assert [item.id for item in found] == ["g", "g-2"]
    assert (done.read, done.written, [(item.row, item.id) for item in done.refused]) == (3, 2, [(1, "b")])
    listed = rows(next(foreign.scene.root.glob(f"*/{REFUSED}")))
    assert listed[0]["reason"].startswith("turn 0 holds no action")


def test_a_dialect_is_needed_and_must_exist(foreign: Foreign) -> None:
    row = {"conversations": talk("q", ANSWER)}
    assert "--dialect" in foreign.reason("sharegpt", row, dialect=None)
    assert "klingon" in foreign.reason("sharegpt", {**row, "dialect": "klingon"}, dialect=None)


def test_a_mumbled_turn_that_was_corrected_in_the_dialects_words_is_read(foreign: Foreign) -> None:
    from saccade.dialects.base import load_dialect
    from saccade.record.trajectory import FinishReason

    dialect = load_dialect("pyvision")
    error = dialect.parse("I mumble.", FinishReason.STOP)
    assert isinstance(error, ParseError)
    correction = dialect.correct(error.reason, 0)
    assert correction is not None
    (found,), _ = foreign.ours(
        "sharegpt", {"conversations": talk("q", "I mumble.", correction.message.text, ANSWER)}, dialect="pyvision"
    )
    assert [turn.action for turn in found.turns] == [error, Answer(text="5")]


def test_swift_rows(foreign: Foreign) -> None:
    texts = ("<image>q", CODE, OBSERVED, ANSWER)
    said = talk(*texts, tags=("user", "assistant"), keys=("role", "content"))
    images = [{"bytes": None, "path": "images/0.jpg"}, f"data:image/png;base64,{encoded(1)}"]
    (found,), _ = foreign.ours("swift", {"messages": said, "images": images}, dialect="pyvision")
    assert [part.mime for part in found.media()] == ["image/jpeg", "image/png"]


@pytest.mark.parametrize("images", [["images/0.jpg", "images/1.jpg"], [encoded(0), encoded(1)]])
def test_thyme_rows_name_their_pictures_as_the_dialect_does(foreign: Foreign, images: list[str]) -> None:
    row = {"image": images, "question": THYME_QUESTION, "response": THYME}
    (found,), _ = foreign.ours("thyme", row)
    name = "image_0.png" if len(images[0]) > 20 else "image_0.jpg"
    assert f'Path:** "{name}"' in found.prompt[0].text
    first, last = found.turns
    assert isinstance(first.action, Code)
    # The task's picture is renamed; a saved picture of the same bare name is another one.
    assert f'open("{name}")' in first.action.code
    assert "temp_processed_images/photo.jpg" in first.action.code
    assert first.observation is not None
    assert first.observation.role == "assistant"
    assert len(first.observation.media) == 1
    assert (first.text[-7:], last.action) == ("</code>", Answer(text="5"))


def test_thyme_rows_are_written_with_the_paths_of_their_files(scene: Scene) -> None:
    written = scene.two_looks("thyme@1:train")
    target, _ = scene.convert(scene.write(written), "saccade", "thyme", root="/data/sft/")
    (row,) = rows(target / "data.jsonl")
    assert f'Path:** "{row["image"][0]}"' in row["question"]
    assert row["image"][0].startswith("/data/sft/media/")
    assert (target / "media" / Path(row["image"][0]).name).is_file()
    assert "image_0.png" not in row["question"]
    # Read where the root is another: the file name alone finds the picture.
    back, done = scene.convert(target, "thyme", "saccade", images=target / "media")
    assert (done.refused, len(read(back)[0].turns)) == ((), 3)


def test_thyme_holds_no_other_dialect(scene: Scene) -> None:
    _, done = scene.convert(scene.write(scene.two_looks("codev@1")), "saccade", "thyme")
    assert "codev@1" in done.refused[0].reason


def verl_row(**more: Any) -> dict[str, Any]:
    prompt = [{"role": "system", "content": "Be good."}, {"role": "user", "content": "<image>\nHow many?"}]
    buffer = BytesIO()
    picture(1).save(buffer, "JPEG")
    known = {
        "data_source": "vstar",
        "prompt": prompt,
        "images": [{"bytes": buffer.getvalue(), "path": None}],
        "env_name": "visual_toolbox_v2",
        "ability": "vl_agent",
        "reward_model": {"style": "model", "ground_truth": "5"},
        "extra_info": {"index": "17", "question": "How many?", "answer": "5"},
    }
    return {**known, **more}


def test_verl_rows_are_tasks(foreign: Foreign) -> None:
    pyarrow, parquet = load_pyarrow()
    file = foreign.folder / "train.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([verl_row()]), file)
    target, done = foreign.scene.convert(file, "verl", "saccade", dialect="deepeyes")
    assert done.refused == ()
    (found,) = read(target)
    assert (found.id, found.turns, found.stop) == ("vstar-17", (), None)
    assert (found.task.question, found.task.answer, found.task.source) == ("How many?", "5", "vstar")
    assert [part.mime for part in found.media()] == ["image/jpeg"]


def test_verl_is_written_as_its_trainers_read_it(scene: Scene) -> None:
    written = [scene.two_looks("deepeyes@1:train", id=f"t{n}", split="train") for n in range(2)]
    target, _ = scene.convert(scene.write(*written), "saccade", "verl")
    found = [row for row in read_rows(find_rows(target)) if isinstance(row, dict)]
    assert [row["extra_info"]["index"] for row in found] == [0, 1]
    row = found[0]
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    assert row["prompt"][1]["content"].count("<image>") == len(row["images"]) == 1
    assert Image.open(BytesIO(row["images"][0]["bytes"])).size == picture(0).size
    assert (row["env_name"], row["reward_model"]) == ("visual_toolbox_v2", {"style": "model", "ground_truth": "5"})


def test_sharegpt_is_written_as_llama_factory_reads_it(scene: Scene) -> None:
    unended = scene.two_looks("codedance@1", id="unended")
    unended = unended.model_copy(update={"turns": unended.turns[:-1], "stop": StopReason.TURN_LIMIT})
    target, done = scene.convert(scene.write(scene.two_looks("codedance@1"), unended), "saccade", "sharegpt")
    assert [item.id for item in done.refused] == ["unended#0"]
    info = json.loads((target / "dataset_info.json").read_text())["saccade"]
    (row,) = rows(target / info["file_name"])
    said = row[info["columns"]["messages"]]
    assert [line["from"] for line in said] == ["human", "gpt"] * 3
    assert row["system"]
    assert "".join(line["value"] for line in said).count("<image>") == len(row["images"]) == 2
    assert all((target / path).is_file() for path in row["images"])
    assert {path.name for path in target.iterdir()} == {"data.jsonl", "dataset_info.json", "media", REFUSED}


def test_a_text_that_holds_a_placeholder_keeps_it_escaped(scene: Scene) -> None:
    written = scene.episode("pyvision@1:repo", [("see <image>", scene.execution("x"))])
    target, done = scene.convert(scene.write(written), "saccade", "swift")
    assert done.refused == ()
    (row,) = [json.loads(line) for line in (target / "data.jsonl").read_text().splitlines()]
    said = "".join(message["content"] for message in row["messages"])
    assert said.count("<image>") == len(row["images"]) == 1
    assert "see <image\\>" in said


def test_a_list_in_one_file_and_files_that_are_none(foreign: Foreign) -> None:
    good = {"conversations": talk("q", ANSWER)}
    file = foreign.folder / "data.json"
    file.write_text("\ufeff" + json.dumps([good, "x", good]), encoding="utf-8")
    _, done = foreign.scene.convert(foreign.folder, "sharegpt", "saccade", dialect="pyvision")
    assert (done.written, done.refused[0].row, done.refused[0].reason) == (2, 1, "it is no JSON object")
    file.write_text("[1, ")
    with pytest.raises(RecordError, match="begins as a JSON list"):
        foreign.scene.convert(file, "sharegpt", "saccade")
    file.unlink()
    with pytest.raises(RecordError, match="there is none"):
        foreign.scene.convert(foreign.folder, "sharegpt", "saccade")
    assert not any(path.name.startswith(".") for path in foreign.scene.root.iterdir())


def test_videos_are_read_and_written(foreign: Foreign) -> None:
    pytest.importorskip("av")
    (foreign.folder / "clip.mp4").write_bytes(h264(6))
    said = [{"role": "user", "content": "<video>How long?"}, {"role": "assistant", "content": "<answer>5</answer>"}]
    found, _ = foreign.ours("swift", {"messages": said, "videos": ["clip.mp4"]}, dialect="native")
    assert [part.kind for part in found[0].media()] == ["video"]
    ours = next(path.parent for path in foreign.scene.root.glob("*/trajectories.jsonl"))
    middle, _ = foreign.scene.convert(ours, "saccade", "sharegpt")
    back, done = foreign.scene.convert(middle, "sharegpt", "saccade")
    assert (done.refused, read(back)) == ((), found)
    rows_of_tasks, _ = foreign.scene.convert(ours, "saccade", "verl")
    tasks, _ = foreign.scene.convert(rows_of_tasks, "verl", "saccade")
    assert [item.task for item in read(tasks)] == [item.task for item in found]


def test_typed_calls_are_read(foreign: Foreign) -> None:
    zoom = '{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [1, 2, 9, 9]}}'
    call = f"<think>Look.</think>\n<tool_call>{zoom}</tool_call>"
    said = talk("<image>q", call, "<tool_response><image>\nGo on.</tool_response>", "<answer>5</answer>")
    row = {"conversations": said, "images": ["images/0.jpg", "images/1.jpg"]}
    (found,), _ = foreign.ours("sharegpt", row, dialect="deepeyes")
    assert isinstance(found.turns[0].action, ToolCall)


def hinted(dialect: str, part: ImagePart | VideoPart, name: str) -> Trajectory:
    """A task that nobody played, with its prompt."""
    media = (NamedMedia(name="m", part=part),)
    task = Task(id=name, question="How long?", media=media, answer="5", source="s", split="train")
    spoken = load_dialect(dialect)
    return Trajectory(
        id=f"{name}#0", task=task, provenance=Provenance(dialect=spoken.id), prompt=spoken.open(task).messages
    )


@pytest.mark.parametrize("name", ["verl", "pyvision-rl"])
def test_videos_and_hints_come_back_as_the_same_tasks(scene: Scene, name: str) -> None:
    pytest.importorskip("av")
    video = scene.store.put_video(h264(6))
    written = [hinted("pyvision-rl-video", video, "v"), hinted("pyvision-rl-image", scene.put(1), "i")]
    target, done = scene.convert(scene.write(*written), "saccade", name)
    assert done.refused == ()
    rows = [row for row in read_rows(find_rows(target)) if isinstance(row, dict)]
    assert rows[0]["mm_hint"]["hint_type"] == "video"
    assert (target / rows[0]["mm_hint"]["hint_path"]).read_bytes() == h264(6)
    back, done = scene.convert(target, name, "saccade")
    assert done.refused == ()
    found = read(back)
    assert [[item.part for item in one.task.media] for one in found] == [[video], [scene.put(1)]]
    assert [one.prompt for one in found] == [one.prompt for one in written]
    pool = open_tasks([str(target)])  # the same rows are a source of tasks
    tasks = list(pool.tasks(MediaStore(scene.root / "tasks")))
    assert [[item.part for item in task.media] for task in tasks] == [[video], [scene.put(1)]]
    assert [task.answer for task in tasks] == ["5", "5"]


def test_pyvision_rl_rows_have_one_medium(scene: Scene) -> None:
    two = hinted("pyvision-rl-image", scene.put(1), "two")
    more = two.task.model_copy(update={"media": (*two.task.media, NamedMedia(name="n", part=scene.put(2)))})
    _, done = scene.convert(scene.write(two.model_copy(update={"task": more})), "saccade", "pyvision-rl")
    assert "2 pictures" in done.refused[0].reason


FOLDER = "/mnt/data/temp_processed_images"

TWO = (
    '<think>First.\n<code>\n```python\nfrom PIL import Image\nImage.open("/mllm/a.b/photo.jpg").crop((0, 0, 9, 9))'
    f'.save("{FOLDER}/cut.png")\nprint("{FOLDER}/cut.png")\n```\n</code>'
    "<sandbox_output><image></sandbox_output>Then.\n<code>\n```python\nimport os\n"
    f'os.makedirs("{FOLDER}", exist_ok=True)\nprint(2 + 3)\n```\n</code>'
    "<sandbox_output>5\n</sandbox_output>It is 5.</think>\n<answer>5</answer>"
)


def row(response: str, **more: Any) -> dict[str, Any]:
    return {"image": ["images/0.jpg", "images/1.jpg"], "question": THYME_QUESTION, "response": response, **more}


def codev(foreign: Foreign, *rows: dict[str, Any]) -> tuple[list[Trajectory], list[str]]:
    found, done = foreign.ours("thyme", *rows, dialect="codev")
    return found, [item.reason for item in done.refused]


def test_the_prompt_is_the_one_of_the_dialect(foreign: Foreign) -> None:
    (found,), refused = codev(foreign, row(THYME, answer="5"))
    assert refused == []
    assert found.provenance.dialect == "codev@1"
    assert (found.task.question, found.task.answer, len(found.task.media)) == ("How many?", "5", 1)
    assert found.prompt == load_dialect("codev").open(found.task).messages
    first, last = found.turns
    assert isinstance(first.action, Code)
    assert 'open("1.jpg").save("./photo.jpg")' in first.action.code
    assert first.observation is not None
    assert (first.observation.role, len(first.observation.media)) == ("user", 1)
    assert (last.text, last.action) == ("<think>It is 5.</think>\n<answer>5</answer>", Answer(text="5"))


def test_two_rounds_open_each_thought_anew(foreign: Foreign) -> None:
    (found,), refused = codev(foreign, row(TWO))
    assert refused == []
    assert [turn.text.startswith("<think>") for turn in found.turns] == [True] * 3
    assert [turn.text.count("<think>") for turn in found.turns] == [1] * 3
    second = found.turns[1].action
    assert isinstance(second, Code)
    assert 'os.makedirs(".", exist_ok=True)' in second.code
    dialect: Any = load_dialect("codev")
    assert [dialect.parse(turn.text, "stop") for turn in found.turns] == [turn.action for turn in found.turns]


def test_its_code_runs_in_the_sandbox_of_codev(foreign: Foreign) -> None:
    (found,), _ = codev(foreign, row(TWO))
    dialect = load_dialect("codev")
    (name,) = dialect.open(found.task).files
    ours = next(path.parent for path in foreign.scene.root.glob("*/trajectories.jsonl"))
    data = MediaStore(ours / "media").get_bytes(found.task.media[0].part.sha256)
    codes = [turn.action.code for turn in found.turns if isinstance(turn.action, Code)]
    with SyncSandbox(LocalSandbox()) as box, box.open(files={name: data}, options=dialect.session) as session:
        first, second = [session.run(code) for code in codes]
    assert (first.status, second.status) == (Status.OK, Status.OK)
    assert [file.path for file in first.files] == ["cut.png"]
    assert (first.stdout, second.stdout) == ("./cut.png\n", "5\n")


def test_base64_rows_and_rows_without_a_picture(foreign: Foreign) -> None:
    raw = row(THYME, image=[encoded(0), encoded(1)])
    text = {"question": "2 + 3?", "response": "<think>Five.</think>\n<answer>5</answer>", "image": []}
    found, refused = codev(foreign, raw, text)
    assert refused == []
    assert [len(item.task.media) for item in found] == [1, 0]
    assert 'Path:** "1.png"' in found[0].prompt[-1].text
    assert found[1].task.question == "2 + 3?"


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (THYME.replace("from PIL", "temp_output_dir\nfrom PIL"), "temp_output_dir"),
        (THYME.replace("It is 5.</think>\n<answer>5</answer>", ""), "ends in one"),
        (THYME.replace("It is 5.</think>\n<answer>5</answer>", "Hm.</think>"), "holds no action"),
        (THYME + "<image>", "more <image>"),
    ],
)
def test_rows_that_codev_cannot_say_have_their_reason(foreign: Foreign, response: str, reason: str) -> None:
    found, refused = codev(foreign, row(response))
    assert found == []
    assert reason in refused[0]


def test_supervised_and_reinforcement_learning_write_one_format(foreign: Foreign) -> None:
    """What was converted goes on to other formats as any trajectory of CodeV does."""
    (found,), _ = codev(foreign, row(TWO))
    ours = next(path.parent for path in foreign.scene.root.glob("*/trajectories.jsonl"))
    middle, _ = foreign.scene.convert(ours, "saccade", "sharegpt")
    back, done = foreign.scene.convert(middle, "sharegpt", "saccade")
    assert (done.refused, read(back)) == ((), [found])


def lists(folder: Path) -> list[Any]:
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]


@pytest.mark.parametrize("dialect", ALL)
def test_prompt_and_turns_of_every_dialect_come_back(scene: Scene, dialect: str) -> None:
    written = scene.two_looks(dialect)
    middle, out = scene.convert(scene.write(written), "saccade", "pyvision")
    assert out.refused == ()
    back, home = scene.convert(middle, "pyvision", "saccade", dialect=dialect)
    assert home.refused == ()
    (one,), kept = read(back), held(written)
    assert (one.prompt, one.turns, one.stop) == (kept.prompt, kept.turns, kept.stop)


def test_the_form_is_theirs(scene: Scene) -> None:
    folder, _ = scene.convert(scene.write(scene.two_looks("pyvision@1:repo")), "saccade", "pyvision")
    (messages,) = lists(folder)
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user", "assistant"]
    first = messages[0]["content"]
    assert first[0] == {"type": "text", "text": "<image_clue_0>"}
    assert first[2]["text"].startswith("</image_clue_0>\n\n")
    url = first[1]["image_url"]["url"]
    assert url.startswith("data:image/png;base64,")
    assert base64.b64decode(url.partition(",")[2])[:4] == b"\x89PNG"
    assert [part["type"] for part in messages[1]["content"]] == ["text"]
    assert messages[1]["content"][0]["text"].endswith("\n</code>\n")
    assert messages[2]["content"][0]["text"].startswith("<interpreter>\nText Result:\n")
    assert not messages[-1]["content"][0]["text"].endswith("\n")


def theirs(close: str = "</code>\n") -> list[dict[str, Any]]:
    """As its code appends one message after the other."""
    data = base64.b64encode(_jpeg()).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}}

    def text(said: str) -> dict[str, Any]:
        return {"type": "text", "text": said}

    return [
        {"role": "user", "content": [text("<image_clue_0>"), image, text("</image_clue_0>\n\n"), text("How many?")]},
        {"role": "assistant", "content": [text(f"I look.\n<code>\n```python\nprint(5)\n```\n{close}")]},
        {
            "role": "user",
            "content": [
                text("<interpreter>\nText Result:\n5\nImage Result:\n"),
                *(text("<image_clue_1>"), image, text("</image_clue_1>")),
                text("</interpreter>\n"),
            ],
        },
        {"role": "assistant", "content": [text("<answer>\n\\boxed{5}\n</answer>")]},
    ]


def _jpeg() -> bytes:
    from io import BytesIO

    buffer = BytesIO()
    picture(3).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.mark.parametrize("close", ["</code>\n", "</code></code>\n", "</code>\n</code>\n"])
def test_theirs_are_read(scene: Scene, close: str) -> None:
    file = scene.root / "test_messages.json"
    file.write_text(json.dumps(theirs(close), indent=4))
    back, done = scene.convert(file, "pyvision", "saccade")
    assert done.refused == ()
    (one,) = read(back)
    assert [type(turn.action) for turn in one.turns] == [Code, Answer]
    assert one.turns[0].text.endswith("```\n</code>")
    assert one.answer == "5"
    assert one.provenance.dialect == load_dialect("pyvision").id
    assert [type(part) for part in one.media()] == [ImagePart]
    observation = one.turns[0].observation
    assert observation is not None
    assert len(observation.media) == 1


WRONG: dict[str, tuple[Any, str]] = {
    "no list": ({"role": "user"}, "no list of messages"),
    "empty": ([], "no list of messages"),
    "no object": (["hello"], "message 0 is no object with the role"),
    "role": ([{"role": "boss", "content": "x"}], "message 0 is no object with the role"),
    "role a list": ([{"role": [], "content": "x"}], "message 0 is no object with the role"),
    "content": ([{"role": "user", "content": 3}], "message 0 holds what is neither"),
    "part": ([{"role": "user", "content": ["x", None]}], "message 0 holds what is neither"),
    "video": ([{"role": "user", "content": [{"type": "video_url"}]}], "message 0 holds what is neither"),
    "no text": ([{"role": "user", "content": [{"type": "text"}]}], "message 0 holds what is neither"),
    "address": ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://h/a"}}]}], "fetched"),
    "no url": ([{"role": "user", "content": [{"type": "image_url"}]}], "nothing is fetched"),
    "no picture": (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}],
        "",
    ),
    "no action": ([{"role": "user", "content": "q"}, {"role": "assistant", "content": "Hm."}], "turn 0 holds no act"),
}


@pytest.mark.parametrize("case", WRONG)
def test_others_are_refused_with_a_reason(scene: Scene, case: str) -> None:
    said, why = WRONG[case]
    folder = scene.root / "lists"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(said))
    (folder / "b.json").write_text(json.dumps(theirs()))
    (folder / "c.json").write_text("[" * 100_000)
    back, done = scene.convert(folder, "pyvision", "saccade")
    assert [(item.row, item.id) for item in done.refused] == [(0, "a"), (2, "c")]
    assert why in done.refused[0].reason
    assert [one.id for one in read(back)] == ["b"]


def test_nothing_there_is_said_and_a_video_has_no_form(scene: Scene) -> None:
    (scene.root / "nothing").mkdir()
    with pytest.raises(RecordError, match="neither a list of messages nor a folder"):
        scene.convert(scene.root / "nothing", "pyvision", "saccade")
    clip = scene.store.put_video(h264(6))
    task = Task(id="v", question="What?", media=(NamedMedia(name="video", part=clip),))
    written = scene.two_looks("pyvision@1:repo")
    opening = load_dialect("direct:video").open(task)
    _, out = scene.convert(scene.write(written.model_copy(update={"prompt": opening.messages})), "saccade", "pyvision")
    assert [item.reason.partition("for which")[0] for item in out.refused] == ["it shows a video as such, "]
