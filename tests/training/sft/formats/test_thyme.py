"""Thyme-SFT in the dialect of CodeV: the prompt that reinforcement learning gives, and code that really runs there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.training.sft.formats.cases import Scene, read
from tests.training.sft.formats.test_foreign import THYME, THYME_QUESTION, Foreign, encoded

from saccade.dialects.registry import load_dialect
from saccade.media.store import MediaStore
from saccade.record.content import Answer, Code
from saccade.record.execution import Status
from saccade.record.trajectory import Trajectory
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.sync import SyncSandbox

FOLDER = "/mnt/data/temp_processed_images"
TWO = (
    '<think>First.\n<code>\n```python\nfrom PIL import Image\nImage.open("/mllm/a.b/photo.jpg").crop((0, 0, 9, 9))'
    f'.save("{FOLDER}/cut.png")\nprint("{FOLDER}/cut.png")\n```\n</code>'
    "<sandbox_output><image></sandbox_output>Then.\n<code>\n```python\nimport os\n"
    f'os.makedirs("{FOLDER}", exist_ok=True)\nprint(2 + 3)\n```\n</code>'
    "<sandbox_output>5\n</sandbox_output>It is 5.</think>\n<answer>5</answer>"
)


@pytest.fixture
def foreign(scene: Scene) -> Foreign:
    return Foreign(scene)


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
