"""The data pipelines of CodeDance and CodeV from end to end, on small made-up folders in the forms of their sources.

One server on this machine is teacher, writer, judge and weak model; everything else is the real commands.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import Response
from tests.models.wire_server import WireServer, chat, running
from tests.tasks.sources.files import deepeyes_row, jsonl, parquet, png
from tests.training.sft.curate.cases import blobs

from saccade.cli.main import main
from saccade.record.codec import read_lines
from saccade.record.content import Answer, Code
from saccade.record.execution import Status
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.sft.review import DecisionLog, ReviewDecision, now

ANSWERS = {"Which word is on sign": "stop", "∠A": "B", "Wie hoch": "A"}
"""What begins a question -> its right answer."""
WEAK = "gpt-4.1-nano"


def spoken(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


def right(text: str) -> str:
    return next(answer for question, answer in ANSWERS.items() if question in text)


def judged(text: str) -> str | None:
    """The reply of a judge, by the form that is asked for."""
    if "closer_look_helps" in text:
        return json.dumps(dict.fromkeys(("varied", "distinct", "closer_look_helps", "askable"), True))
    if "steps_sound" in text:
        return '{"answer_right": true, "steps_sound": true}'
    if "needs_care" in text:
        return json.dumps({"answer_right": "sign 3" not in text, "needs_care": True})
    if "in_the_picture" in text:
        return json.dumps({"in_the_picture": "Who painted" not in text})
    if "bbox_2d" in text and "Find in it" in text:
        return '[{"label": "sign", "bbox_2d": [10, 10, 50, 40]}]'
    if "Recorded answer" in text:
        return json.dumps({"answer_right": "sign 5" not in text})
    return None


async def everyone(body: dict[str, Any]) -> Response:
    """Teacher, writer, judge and weak model of CodeDance."""
    text = spoken(body)
    if (reply := judged(text)) is not None:
        return await chat(reply)(body)
    if body["model"] == WEAK:
        return await chat(right(text) if "sign 1" in text or "∠A" in text else "no idea")(body)
    if "Write questions about the picture" in text:
        number = everyone.pictures = getattr(everyone, "pictures", 0) + 1  # type: ignore[attr-defined]
        return await chat(json.dumps([{"question": f"Which word is on sign {number}?", "answer": "stop"}]))(body)
    if "Your steps were run" in text:
        return await chat(f"<thought>It shows it.</thought><answer>{right(text)}</answer>")(body)
    if "Turn the reasoning into steps" in text:
        code = "print(2 * 20)" if "∠A" in text or "Wie hoch" in text else "show(input_image.crop((0, 0, 40, 40)))"
        code = code.replace("show(", "plt.imshow(").replace("40)))", "40)))\nplt.show()")
        code = "import matplotlib.pyplot as plt\n" + code if "plt" in code else code
        return await chat(f"<step><thought>Look there.</thought><code>\n{code}\n</code></step>")(body)
    return await chat(f"<reasoning>One sees it.</reasoning><answer>{right(text)}</answer>")(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WireServer]:
    monkeypatch.chdir(tmp_path)
    with running() as server:
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        yield server


def call(*words: str, code: int = 0) -> None:
    assert main(list(words)) == code, words


def judges(pipeline: str, *more: str) -> list[str]:
    named = {
        "codedance": ("image-informative", "question-quality", "label-check", "box-label", "cross-check"),
        "codev": ("outside-knowledge", "label-check"),
    }
    changes = [f"{name}.judge=openai:gpt-4.1" for name in named[pipeline]]
    return ["--pipeline", pipeline, *(part for item in (*changes, *more) for part in ("--set", item))]


def trajectories(run: str) -> list[Trajectory]:
    return list(read_lines(Path(run) / "trajectories.jsonl", Trajectory))


@pytest.mark.slow
def test_codedance_makes_its_cold_start_data(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will(everyone)
    everyone.pictures = 0  # type: ignore[attr-defined]
    for number in range(3):
        (tmp_path / "sa1b").mkdir(exist_ok=True)
        blobs(number).save(tmp_path / "sa1b" / f"sa_{number}.jpg")
        (tmp_path / "sa1b" / f"sa_{number}.json").write_text('{"image": {}, "annotations": []}')
    asked = [("如图,则∠A等于()", "B"), ("Wie hoch ist das Haus?", "A")]
    rows = []
    for number, (question, letter) in enumerate(asked):
        text = f"<image>\n{question}\nChoices:\n(A) 30\n(B) 40"
        turns = [{"from": "human", "value": text}, {"from": "gpt", "value": f"解。\n答案:{letter}"}]
        rows.append({"id": number, "image": f"images/{number}.png", "conversations": turns})
        picture = tmp_path / "data" / "geoqa+" / "images" / f"{number}.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(png())
    jsonl(tmp_path / "geo" / "geoqa+.jsonl", rows)
    (tmp_path / "geo" / "data").symlink_to(tmp_path / "data")
    (tmp_path / "mix.toml").write_text(
        '[[source]]\nname = "sa1b-tasks"\n[[source]]\nname = "geoqa-plus"\ndata = "geo"\ncategory = "math"\n'
    )

    teacher = ("--teacher", "openai:gpt-4.1", "--workers", "1", "--dollars", "5")
    call("synth", "sa1b", *teacher, "--recipe", "question", "--out", "sa1b-tasks")
    assert "about 3 requests for 3 jobs" in capsys.readouterr().err
    call("eval", "mix.toml", "--model", f"openai:{WEAK}", "--dialect", "direct", "--k", "8", "--out", "weak")
    speaks = ("--dialect", "codedance", "--set", "keep=right")
    call("synth", "mix.toml", *teacher, "--recipe", "reason", *speaks, "--out", "direct")
    call("synth", "mix.toml", *teacher, "--recipe", "codify", *speaks, "--out", "coded")
    for item in trajectories("coded"):
        assert isinstance(item.turns[0].action, Code)
        assert item.turns[0].execution is not None
        assert item.turns[0].execution.status is Status.OK
    call("curate", "direct", "coded", *judges("codedance", "strata.rollouts=weak"), "--out", "sft")

    kept = trajectories("sft")
    ways = {item.task.question.replace("<image>", "").strip()[:30]: len(item.turns) for item in kept}
    assert len(kept) == 4, "easy ones direct, hard ones with code, one with a wrong label left out"
    assert sorted(ways.values()) == [1, 1, 2, 2]
    assert not any("sign 3" in question for question in ways)
    easy = [item for item in kept if "stratum:easy" in item.task.tags]
    assert all(isinstance(item.turns[0].action, Answer) for item in easy)
    assert len(easy) == 2
    tags = Counter(tag for item in kept for tag in item.task.tags if tag.startswith("atomic:"))
    assert tags == {"atomic:compute": 1, "atomic:transform": 1}
    photos = [item for item in kept if item.task.source == "sa1b"]
    assert all(item.task.evidence for item in photos)
    report = json.loads((tmp_path / "sft" / "report.json").read_text())
    beside = {item["label"]: item["beside"] for item in report["filters"]}
    assert (beside["image-informative"], beside["label-check"]) == (4, 4)
    assert len(open_tasks(["sft"])) == 4


@pytest.mark.slow
def test_codev_makes_its_two_sets(server: WireServer, tmp_path: Path) -> None:
    async def weak_and_judge(body: dict[str, Any]) -> Response:
        text = spoken(body)
        if (reply := judged(text)) is not None:
            return await chat(reply)(body)
        sign = re.search(r"sign (\d)", text)
        return await chat("red" if sign is not None and sign[1] in "12" else "blue")(body)

    server.will(weak_and_judge)
    response = (
        "<think>Look closer.\n<code>\n```python\nfrom PIL import Image\nprint(1)\n```\n</code>\n"
        "<sandbox_output>1</sandbox_output>\nIt is red.</think>\n<answer>red</answer>"
    )
    row = {"image": [base64.b64encode(png()).decode()], "question": "<image>\nWhich colour?", "response": response}
    jsonl(tmp_path / "Thyme-SFT.jsonl", [row, {**row, "question": "<image>\nWhich one?"}])
    convert = ["--from", "thyme-base64", "--to", "saccade", "--dialect", "codev"]
    call("convert", "Thyme-SFT.jsonl", "--out", "sft", *convert)
    assert {item.provenance.dialect.partition(":")[0] for item in trajectories("sft")} == {"codev@1"}

    extra = {"reward_model": {"style": "rule", "ground_truth": "red"}}
    rows = [deepeyes_row(number, **extra) for number in range(1, 7)]
    knows = {"index": 7, "question": "Who painted sign 7?", "answer": "red", "split": "train"}
    rows += [deepeyes_row(7, extra_info=knows, **extra), deepeyes_row(8, data_source="okvqa", **extra)]
    parquet(tmp_path / "rl" / "data_v0.8_visual_toolbox_v2.parquet", rows)
    call("eval", "rl", "--model", f"openai:{WEAK}", "--dialect", "direct", "--k", "8", "--out", "weak")
    call("curate", "rl", *judges("codev", "pass-rate.rollouts=weak"), "--out", "clean")
    tasks = list(read_lines(tmp_path / "clean" / "tasks.jsonl", Task))
    numbers = [re.findall(r"sign (\d)", task.question)[0] for task in tasks]
    assert numbers == ["3", "4", "6"], "1 and 2 are too easy, 5 has a wrong label, 7 and 8 need outside knowledge"

    log = DecisionLog(tmp_path / "clean")
    log.add(ReviewDecision(id=tasks[0].id, verdict="keep", decided=now()))
    log.add(ReviewDecision(id=tasks[1].id, verdict="keep", answer="crimson", decided=now()))
    log.add(ReviewDecision(id=tasks[2].id, verdict="drop", decided=now()))
    call("review", "clean", "--out", "rl-tasks")
    left = open_tasks(["rl-tasks"])
    assert len(left) == 2
    answers = [task.answer for task in read_lines(tmp_path / "rl-tasks" / "tasks.jsonl", Task)]
    assert answers == ["red", "crimson"]
