"""The example that builds saccade-tiny: demonstrations, tokenizer, stages, the two scripts, and other wordings."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plugins.worlds.running import NEAR

from saccade.episode.run_folder import TRAJECTORIES, RunFolder
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.plugins.worlds.cli import Exam, ExamRow, hold_exam
from saccade.plugins.worlds.solvers import solver_for
from saccade.record.codec import read_lines
from saccade.record.content import Answer, Code, Message, TextPart
from saccade.record.task import Task
from saccade.record.trajectory import FinishReason, Provenance, StopReason, Trajectory, Turn
from saccade.tasks.worlds import Rng, load_world, make_task
from saccade.tokens.local_model import LocalModel
from saccade.training.sft.examples import SftCallback
from saccade.training.sft.synth.makers import Job
from saccade.training.sft.synth.outcome import SynthProgress
from saccade.training.sft.synth.prompts import Made
from saccade.training.sft.synth.run import Synthesizer
from saccade_tiny.build import build
from saccade_tiny.demonstrations import hold
from saccade_tiny.screen import markdown
from saccade_tiny.settings import DemonstrationRun, Stage, TextShape, TinySettings, TokenizerSettings, VisionShape
from saccade_tiny.tokenizer import QWEN_TOKENS, joined_lines, make_tokenizer
from saccade_tiny.wordings import reworded

RECIPE = TinySettings(
    demonstrations=(
        DemonstrationRun(name="close-up", worlds=("sign-close-up",), dialect="tiny:direct", n=6),
        DemonstrationRun(name="look", worlds=("visual-search",), n=3, knobs={"visual-search": NEAR}),
        DemonstrationRun(name="count", worlds=("touching-circles",), n=3),
    ),
    tokenizer=TokenizerSettings(vocabulary=400),
    text=TextShape(hidden=32, layers=1, heads=2, key_heads=1, intermediate=48, rope_sections=(2, 3, 3)),
    vision=VisionShape(hidden=32, layers=1, heads=2, intermediate=32),
    stages=(
        Stage(name="read", demonstrations=("close-up",), steps=2, trajectories=4),
        Stage(name="all", demonstrations=("close-up", "look", "count"), steps=2, trajectories=4),
    ),
    exams=(Exam(name="look", worlds=("visual-search",), knobs={"visual-search": NEAR}, target=0.9),),
)


class Heard:
    def __init__(self) -> None:
        self.parts: list[str] = []

    def part(self, name: str) -> None:
        self.parts.append(name)

    def demonstrations(self, name: str, progress: SynthProgress) -> None:
        pass

    def trainer(self) -> SftCallback:
        return SftCallback()


def test_a_stage_that_learns_from_nothing_is_refused(tmp_path: Path) -> None:
    lost = RECIPE.model_copy(update={"stages": (Stage(name="x", demonstrations=("nowhere",), steps=1),)})
    with pytest.raises(SettingsError, match="nowhere"):
        build(lost, tmp_path / "out", Heard())
    assert not (tmp_path / "out").exists()


def test_the_table_says_how_many_and_how_sure() -> None:
    text = markdown([ExamRow("look", 100, 90, 25, 0.9), ExamRow("video", 50, 40, None, None)])
    assert text.splitlines()[2:] == ["| look | 100 | 25% ± 4% | 90% ± 3% | 90% |", "| video | 50 | – | 80% ± 6% | – |"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("processes", [1, 2])
async def test_from_nothing_to_a_table(tmp_path: Path, processes: int) -> None:
    import asyncio

    heard = Heard()
    model = await asyncio.to_thread(build, RECIPE, tmp_path / "out", heard, processes)
    assert [part.split()[0] for part in heard.parts] == ["3", "tokenizer", "stage", "stage"]
    assert (model / "model.safetensors").is_file()
    again = Heard()
    await asyncio.to_thread(build, RECIPE, tmp_path / "out", again)
    assert not any(part.startswith("stage") for part in again.parts)
    with pytest.raises(SettingsError, match="another recipe"):
        await asyncio.to_thread(build, RECIPE.model_copy(update={"seed": 1}), tmp_path / "out", Heard())
    made = LocalModel(str(model))
    row = await hold_exam(RECIPE.exams[0], 2, made, tmp_path / "exams", start=7)
    await made.close()
    sat = RunFolder(tmp_path / "exams" / RECIPE.exams[0].name).ids
    assert {item.rpartition("/")[2] for item in sat} == {"7#0", "8#0"}
    assert row.tasks == 2
    assert 0 <= row.with_code <= 2


SMALL = {"kinds": ["dot"], "megapixels": [0.1, 0.1], "signs": 2, "conjunction": 0, "plate_percent": 220}


async def test_a_task_that_cannot_be_shown_does_not_end_a_run_of_demonstrations(tmp_path: Path) -> None:
    """A sign that is larger than the parts which are looked at, beside echoes that can be shown."""
    wanted = DemonstrationRun(
        name="x", worlds=("visual-search", "echo"), n=2, knobs={"visual-search": SMALL | {"detail": 90}}
    )
    progress = await hold(wanted, tmp_path)
    assert progress.done == progress.total == 4
    kept = [trajectory.task.source for trajectory in read_lines(tmp_path / TRAJECTORIES, Trajectory)]
    assert [source.partition("@")[0] for source in kept] == ["echo", "echo"]
    again = await hold(wanted, tmp_path)
    assert (again.skipped, again.done) == (4, 4)


@pytest.mark.parametrize("reason", [StopReason.SANDBOX_LOST, StopReason.CANCELLED])
async def test_what_an_outage_took_is_made_when_the_run_goes_on(
    reason: StopReason, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(synthesizer: Synthesizer, job: Job) -> Made:
        return Made(None, reason.value, "gone")

    wanted = DemonstrationRun(name="x", worlds=("echo",), n=2)
    with monkeypatch.context() as broken:
        broken.setattr(Synthesizer, "make", lost)
        assert (await hold(wanted, tmp_path)).discarded == {reason.value: 2}
    assert (await hold(wanted, tmp_path)).kept == 2


async def test_a_run_can_leave_out_what_takes_long(tmp_path: Path) -> None:
    knobs = {"visual-search": SMALL | {"detail": 24}}
    lengths = {}
    for turns in (None, 12):
        wanted = DemonstrationRun(name="x", worlds=("visual-search",), n=3, turns=turns, knobs=knobs)
        await hold(wanted, tmp_path / str(turns))
        made = read_lines(tmp_path / str(turns) / TRAJECTORIES, Trajectory)
        lengths[turns] = {trajectory.id: len(trajectory.turns) for trajectory in made}
    assert lengths[12] == {name: count for name, count in lengths[None].items() if count <= 12}
    assert 0 < len(lengths[12]) < len(lengths[None])


@pytest.mark.slow
async def test_a_run_is_played_and_gone_on_with(tmp_path: Path) -> None:
    wanted = DemonstrationRun(
        name="x", worlds=("visual-search", "touching-circles"), n=2, knobs={"visual-search": NEAR}
    )
    progress = await hold(wanted, tmp_path, workers=2)
    assert (progress.kept, progress.right) == (4, 4)
    again = await hold(wanted.model_copy(update={"n": 3}), tmp_path, workers=2)
    assert (again.skipped, again.kept) == (4, 2)
    played = await asyncio.to_thread(lambda: list(read_lines(tmp_path / "trajectories.jsonl", Trajectory)))
    assert len(played) == 6
    looked = next(item for item in played if item.task.source == "visual-search@1")
    shown = [turn.execution.pictures[0].image for turn in looked.turns if turn.execution is not None]
    assert all(72 <= (picture.width * picture.height) ** 0.5 <= 168 for picture in shown)
    assert [turn.text.count("\nseen = ") for turn in looked.turns] == [0, *[1] * (len(shown) - 1), 0]
    assert looked.answer == looked.task.answer


FOLDER = Path(__file__).resolve().parents[3] / "examples" / "tiny"


def called(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script, *rest = arguments
    return subprocess.run(
        [sys.executable, str(FOLDER / script), *rest],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("build.py", "--out", "out", "--set", "text.hiden=8"), "hidden"),
        (("build.py", "nowhere.toml", "--out", "out"), "nowhere.toml"),
        (("table.py", "--out", "out", "--only", "nothing-of-the-sort"), "no such exam"),
    ],
)
@pytest.mark.slow
def test_a_mistake_is_one_message_and_makes_nothing(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = called(*arguments, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_table_of_the_bundled_weights(tmp_path: Path) -> None:
    done = called("table.py", "--out", "out", "--only", "touching-circles", "--n", "2", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "| touching-circles | 2 | " in done.stdout
    assert (tmp_path / "out" / "table.md").read_text(encoding="utf-8") in done.stdout


PROGRAM = "import numpy as np\nseen = 'none'\ngrey = np.array(image_clue_0)\nprint(values(['Hares']), \"found\")"


def trajectory(number: int) -> Trajectory:
    text = f"<code>\n```python\n{PROGRAM}\n```\n</code>"
    answer = f"<answer>\n\\boxed{{{number}}}\n</answer>"
    question = f"What is the value for Hares?\nA. {number}\nB. {number + 30}"
    return Trajectory(
        id=f"t{number}",
        task=Task(id=f"w@1/train/{number}", question=question, source="w@1", answer=str(number)),
        provenance=Provenance(dialect="tiny@1:look"),
        prompt=(Message(role="user", parts=(TextPart(text=question),)),),
        turns=(
            Turn(text=text, action=Code(code=PROGRAM), finish_reason=FinishReason.STOP_STRING),
            Turn(text=answer, action=Answer(text=str(number)), finish_reason=FinishReason.STOP),
        ),
    )


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return make_tokenizer([trajectory(number) for number in range(20)], TokenizerSettings(vocabulary=400), 512)


def pieces(tokenizer: Any, text: str) -> list[str]:
    return [tokenizer.decode([token]) for token in tokenizer.encode(text)]


def test_lines_that_always_come_together_are_one_token(tokenizer: Any) -> None:
    block = "<code>\n```python\nimport numpy as np"
    assert pieces(tokenizer, f"{block}\nprint(1)")[:2] == [block, "\n"]


def test_lines_are_joined_where_one_hardly_comes_without_the_other() -> None:
    apart = [["a"], ["b"]] * 3 + [["a", "b"]]
    assert joined_lines(apart, {"a", "b"}) == ["a", "b"]
    assert joined_lines([*apart, ["x", "a", "y", "z"]], {"a", "b", "x", "y", "z"}) == ["a", "b", "xayz"]
    assert joined_lines([["a", "?", "b"], ["a", "!", "b"]], {"a", "b"}) == ["a", "b"]


def test_a_word_at_the_end_of_a_line_is_the_word(tokenizer: Any) -> None:
    assert pieces(tokenizer, "Hares\n")[0] == pieces(tokenizer, "Hares and")[0] == "Hares"


def test_what_is_copied_stays_in_pieces(tokenizer: Any) -> None:
    assert "Hares" in pieces(tokenizer, PROGRAM.splitlines()[-1])
    assert pieces(tokenizer, PROGRAM.splitlines()[1])[-3:] == ["'", "none", "'"]
    assert pieces(tokenizer, "\\boxed{17}\n")[-4:] == ["1", "7", "}", "\n"]
    assert pieces(tokenizer, "?\nA. 12\nB. 30") == ["?", "\nA. ", "1", "2", "\nB. ", "3", "0"]


def test_beginnings_are_one_token(tokenizer: Any) -> None:
    turns = [{"role": "user", "content": "Hares"}, {"role": "assistant", "content": "17"}]
    text = tokenizer.apply_chat_template(turns, tokenize=False)
    assert pieces(tokenizer, text)[:4] == ["<|im_start|>", "user\n", "Hares", "<|im_end|>"]
    assert pieces(tokenizer, text)[5:8] == ["<|im_start|>", "assistant\n", "1"]
    assert pieces(tokenizer, "\nseen = 'none'") == ["\nseen = ", "'", "none", "'"]


def test_the_tokens_of_the_family_come_first(tokenizer: Any) -> None:
    assert tokenizer.convert_ids_to_tokens(list(range(len(QWEN_TOKENS)))) == list(QWEN_TOKENS)


@given(text=st.text(max_size=60))
def test_every_text_comes_back(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


WORLDS = ("shape-count", "line-crossings", "nested-squares", "grid-count", "touching-circles")


@pytest.mark.parametrize("world", WORLDS)
def test_the_same_is_asked(world: str, tmp_path: Path) -> None:
    texts = set()
    for index in range(12):
        task = make_task(load_world(world), "train", index, MediaStore(tmp_path))
        other = reworded(task, Rng(index))
        before, after = solver_for(task.question), solver_for(other.question)
        assert before is not None
        assert after is not None
        assert after.family == before.family, other.question
        if world != "grid-count":
            assert {**after.parameters} == {**before.parameters} or world == "line-crossings"
            assert other.answer == task.answer
        texts.add(other.question)
    assert len(texts) > 3


def test_rows_and_columns_are_answered_in_the_form_of_the_question(tmp_path: Path) -> None:
    world = load_world("grid-count")
    task = make_task(world, "train", 0, MediaStore(tmp_path), world.knobs(kinds=("both",)))
    rows, columns = (task.answer or "").split(", ")
    assert reworded(task, Rng(1)).answer == f"rows={{{rows}}} columns={{{columns}}}"


def test_a_task_of_another_kind_stays(tmp_path: Path) -> None:
    task = make_task(load_world("maze"), "train", 0, MediaStore(tmp_path))
    assert reworded(task, Rng(0)) is task
