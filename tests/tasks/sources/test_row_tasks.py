"""Every form that rows may have gives the task that its row describes, with its pictures and videos."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tasks.sources.files import deepeyes_row, jsonl, parquet, picture, png, pyvision_row, video

from saccade.dialects.question import question_text, split_at_pictures
from saccade.errors import DataError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.task import AnswerType, Task
from saccade.tasks.sources.row_tasks import SEARCH
from saccade.tasks.sources.task_set import TaskPool, open_tasks


def made(pool: TaskPool, folder: Path) -> list[Task]:
    return list(pool.tasks(MediaStore(folder / "store")))


def kinds(task: Task) -> list[str]:
    return [item.part.kind for item in task.media]


def test_verl_and_deepeyes_parquet_with_bytes(tmp_path: Path) -> None:
    rows = [deepeyes_row(number) for number in range(5)]
    rows[3]["images"] = [{"bytes": png("blue"), "path": None}, {"bytes": png("green"), "path": None}]
    pool = open_tasks([str(parquet(tmp_path / "train.parquet", rows, row_group_size=2))])
    tasks = made(pool, tmp_path)
    assert [task.question for task in tasks] == [f"What colour is sign {number}?" for number in range(5)]
    assert [kinds(task) for task in tasks] == [["image"], ["image"], ["image"], ["image", "image"], ["image"]]
    assert tasks[0].answer == "red"
    assert {"data_source=vstar", "env_name=visual_toolbox_v2"} <= set(tasks[0].tags)
    assert tasks[3].media[0].part != tasks[0].media[0].part
    assert [task.id for task in tasks] == list(pool.ids)


def test_bytes_deep_in_a_row_change_no_id(tmp_path: Path) -> None:
    """CodeDance's rows hold their picture once more inside `extra_info`, whose other fields a scan needs."""
    row = deepeyes_row(7)
    row["extra_info"] |= {"tools_kwargs": {"execute_python_code": {"create_kwargs": {"image": png()}}}}
    pool = open_tasks([str(parquet(tmp_path / "rl.parquet", [row]))])
    (task,) = made(pool, tmp_path)
    assert pool.ids == (task.id,) == ("rl/vstar-7",)
    assert task.question == "What colour is sign 7?"


def test_pyvision_rl_rows_keep_pictures_and_videos_of_another_machine(tmp_path: Path) -> None:
    picture(tmp_path / "images" / "a.jpg")
    video(tmp_path / "videos" / "b.mp4")
    rows = [
        pyvision_row(0, "image", "/mnt/cluster/data/images/a.jpg"),
        pyvision_row(1, "video", "/mnt/cluster/data/videos/b.mp4"),
    ]
    (tmp_path / "rl.json").write_text(json.dumps(rows), encoding="utf-8")
    tasks = made(open_tasks([str(tmp_path / "rl.json")]), tmp_path)
    assert [kinds(task) for task in tasks] == [["image"], ["video"]]
    assert [(task.answer, task.answer_type) for task in tasks] == [("7", AnswerType.NUMBER)] * 2


def test_conversations_and_messages(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    rows: list[dict[str, Any]] = [
        {
            "images": ["a.png"],
            "conversations": [
                {"from": "human", "value": "<image>\nWhich colour?"},
                {"from": "gpt", "value": "<think>It is red.</think><answer>red</answer>"},
            ],
        },
        {
            "images": ["a.png"],
            "messages": [{"role": "user", "content": "<image>How many?"}, {"role": "assistant", "content": "x"}],
            "solution": "3",
        },
    ]
    tasks = made(open_tasks([str(jsonl(tmp_path / "sft.jsonl", rows))]), tmp_path)
    assert [(task.question, task.answer) for task in tasks] == [("Which colour?", "red"), ("How many?", "3")]


def test_vlmevalkit_tsv_and_csv(tmp_path: Path) -> None:
    coded = base64.b64encode(png()).decode()
    head = "index\timage\tquestion\thint\tA\tB\tanswer\tcategory\n"
    body = f'3\t{coded}\t"Which\nside?"\tLook.\tleft\tright\tB\tspace\n4\t{coded}\tWhich?\t\tup\tdown\tA\tspace\n'
    (tmp_path / "bench.tsv").write_text(head + body, encoding="utf-8")
    first, second = made(open_tasks([str(tmp_path / "bench.tsv")]), tmp_path)
    assert (first.id, first.question, first.choices, first.answer) == (
        "bench/3",
        "Look.\nWhich\nside?",
        ("left", "right"),
        "right",
    )
    assert (second.id, second.answer, second.tags) == ("bench/4", "up", ("category=space",))
    picture(tmp_path / "a.png")
    (tmp_path / "own.csv").write_text('image,question,answer\na.png,"Big, or not?",yes\n', encoding="utf-8")
    (third,) = made(open_tasks([str(tmp_path / "own.csv")]), tmp_path)
    assert (third.question, third.answer_type) == ("Big, or not?", AnswerType.YES_NO)


def test_a_folder_that_datasets_saved_and_one_of_the_hub(tmp_path: Path) -> None:
    import pyarrow

    features = {"answer": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    table = pyarrow.table(
        {"image": [{"bytes": png(), "path": None}] * 3, "question": ["Which animal?"] * 3, "answer": [0, 1, 1]}
    ).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    saved = tmp_path / "saved" / "train"
    saved.mkdir(parents=True)
    with pyarrow.ipc.new_stream(str(saved / "data-00000-of-00001.arrow"), table.schema) as writer:
        writer.write_table(table)
    (saved / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    (saved.parent / "dataset_dict.json").write_text(json.dumps({"splits": ["train"]}))
    tasks = made(open_tasks([str(saved.parent)]), tmp_path)
    assert [task.answer for task in tasks] == ["cat", "dog", "dog"]

    hub = tmp_path / "hub"
    for shard in range(2):
        parquet(hub / "data" / f"train-0000{shard}-of-00002.parquet", [{"question": f"{shard}?", "answer": "a"}] * 2)
    parquet(hub / "data" / "test-00000-of-00001.parquet", [{"question": "test?", "answer": "a"}])
    with pytest.raises(SettingsError, match="2 sets of rows"):
        open_tasks([str(hub)])
    assert [len(open_tasks([f"{hub}:{split}"])) for split in ("train", "test")] == [4, 1]
    with pytest.raises(SettingsError, match="Did you mean 'train'"):
        open_tasks([f"{hub}:tran"])


def test_media_lie_wherever_the_file_says(tmp_path: Path) -> None:
    far = picture(tmp_path / "far" / "a.png", "blue")
    near = picture(tmp_path / "rows" / "b.png", "green")
    rows = [
        {"image": str(far), "question": "1?", "answer": "x"},
        {"image": "../far/a.png", "question": "2?", "answer": "x"},
        {"image": "b.png", "question": "3?", "answer": "x"},
        {"image": "/elsewhere/rows/b.png", "question": "4?", "answer": "x"},
        {"image": "http://host/b.png", "question": "5?", "answer": "x"},
        *(
            {"image": name, "question": f"{name}?", "answer": "x"}
            for name in (
                *(r"C:\data\rows\b.png", r"C:b.png", r"\\server\share\b.png", r"\\?\C:\b.png", r"x\..\b.png"),
                *("file:///C:/data%20x/%62.png", '"b.png"', " b.png "),
            )
        ),
    ]
    pool = open_tasks([str(jsonl(tmp_path / "rows" / "rows.jsonl", rows))])
    assert near.is_file()
    shown = [task.media[0].part.sha256 for task in made(pool, tmp_path)]
    assert shown[0] == shown[1] != shown[2]
    assert set(shown[2:]) == {shown[2]}
    assert len(shown) == 12
    assert [problem.row for problem in pool.problems] == [4]
    assert "download it first" in str(pool.problems[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": "none.png"}, "there is no file none.png"),
        ({"image": None, "question": "<image> what?"}, "places for 1 pictures, and the row has 0"),
        ({"choices": ["a", "<image 2>"]}, "places for 2 pictures, and the row has 1"),
        ({"question": ""}, "it is empty (null, or no text)"),
        ({"choices": ["a", "b"], "answer": "C"}, "names none of the 2 choices"),
        ({"conversations": "text"}, "no list of turns"),
        ({"open": "maybe"}, "open: 'maybe' is neither true nor false"),
        ({"search": [True]}, "search: [True] is neither true nor false"),
    ],
)
def test_rows_that_give_no_task_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    picture(tmp_path / "a.png")
    good = {"image": "a.png", "question": "what?", "answer": "a"}
    pool = open_tasks([str(jsonl(tmp_path / "rows.jsonl", [good, good | change, good]))])
    assert len(pool) == 2
    (problem,) = pool.problems
    assert (problem.file, problem.row) == ("rows.jsonl", 1)
    assert message in str(problem)
    assert "1 broken row, the first: rows.jsonl, row 2" in pool.lines()[0]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        *((said, True) for said in (True, 1, 1.0, "True", "yes")),
        *((said, False) for said in (False, 0, None, "false", "No", "0", "")),
    ],
)
def test_open_and_search_are_what_a_row_says(tmp_path: Path, said: object, meant: bool) -> None:
    row = {"question": "what?", "answer": "a", "open": said, "search": said}
    (task,) = made(open_tasks([str(jsonl(tmp_path / "rows.jsonl", [row]))]), tmp_path)
    assert (task.is_open, SEARCH in task.tags) == (meant, meant)
    (tmp_path / "rows.csv").write_text(f"question,answer,open\nwhat?,a,{'' if said is None else said}\n")
    (task,) = made(open_tasks([str(tmp_path / "rows.csv")]), tmp_path)
    assert task.is_open is meant


@pytest.mark.parametrize(
    ("pictures", "question", "choices"),
    [
        ({"images": ["a.png"] * 3}, "<image>Which?", ["<image>", "<image>"]),
        ({"images": ["a.png"] * 3}, "<image_1> Which?", ["<image_2>", "<image_3>"]),
        ({"images": ["a.png"] * 3}, "<Image 1>Which?", ["<image2>", "<Image 3>"]),
        ({"image_1": "a.png", "image_2": "a.png", "image_3": "a.png"}, "<image 1>Which?", "['<image 2>', '<image 3>']"),
    ],
)
def test_pictures_stand_in_their_options(
    tmp_path: Path, pictures: dict[str, Any], question: str, choices: object
) -> None:
    picture(tmp_path / "a.png")
    row = {**pictures, "question": question, "choices": choices, "answer": "B"}
    (task,) = made(open_tasks([str(jsonl(tmp_path / "rows.jsonl", [row]))]), tmp_path)
    first, *others = split_at_pictures(question_text(task), len(task.media))
    assert (first, [piece for piece in others if isinstance(piece, int)]) == (0, [1, 2])


@pytest.mark.parametrize("answer", ["a, c", "A|C", "{A, C}", "A/C", "A and C", ["A", "C"]])
def test_several_right_letters(tmp_path: Path, answer: object) -> None:
    row = {"question": "Which?", "choices": ["one", "two", "three"], "answer": answer}
    (task,) = made(open_tasks([str(jsonl(tmp_path / "rows.jsonl", [row]))]), tmp_path)
    assert task.answer == '["one", "three"]'


def test_tags_as_a_mapping_are_names_with_values(tmp_path: Path) -> None:
    row = {"question": "what?", "answer": "a", "tags": {"room": "kitchen", "floor": 2}}
    (task,) = made(open_tasks([str(jsonl(tmp_path / "rows.jsonl", [row]))]), tmp_path)
    assert task.tags == ("room=kitchen", "floor=2")


def test_a_picture_that_is_none_is_named_with_its_row_when_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no picture")
    pool = open_tasks([str(jsonl(tmp_path / "rows.jsonl", [{"image": "a.png", "question": "what?", "answer": "a"}]))])
    with pytest.raises(DataError, match=r"rows\.jsonl, row 1, images"):
        made(pool, tmp_path)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK"])
def test_pictures_of_other_modes(tmp_path: Path, mode: str) -> None:
    suffix = "jpg" if mode == "CMYK" else "png"
    picture(tmp_path / f"a.{suffix}", 1 if mode in ("L", "P") else "red", mode)  # type: ignore[arg-type]
    row = {"image": f"a.{suffix}", "question": "what?", "answer": "a"}
    (task,) = made(open_tasks([str(jsonl(tmp_path / "rows.jsonl", [row]))]), tmp_path)
    assert kinds(task) == ["image"]


def test_fields_of_a_users_own(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    jsonl(
        tmp_path / "rows.jsonl",
        [{"shot": "a.png", "ask": "what?", "gold": 1, "opts": ["x", "y"], "where": [1, 2, 9, 9]}],
    )
    (tmp_path / "own.toml").write_text(
        f'[[source]]\nname = "{tmp_path}/rows.jsonl"\n[source.fields]\nimages = "shot"\nquestion = "ask"\n'
        'answer = "gold"\nanswer_is = "index-0"\nchoices = "opts"\nboxes = "where"\n',
        encoding="utf-8",
    )
    (task,) = made(open_tasks([str(tmp_path / "own.toml")]), tmp_path)
    assert (task.answer, task.evidence[0].xyxy) == ("y", (1, 2, 9, 9))


def test_pictures_and_videos_alone_with_one_question(tmp_path: Path) -> None:
    picture(tmp_path / "in" / "a.jpg")
    video(tmp_path / "in" / "b" / "c.mp4")
    video(tmp_path / "in" / "b" / "d.3gp")
    with pytest.raises(SettingsError, match="3 pictures and videos and no questions"):
        open_tasks([str(tmp_path / "in")])
    mix = tmp_path / "mix.toml"
    mix.write_text(f'[[source]]\nname = "{tmp_path}/in"\nquestion = "What is it?"\n', encoding="utf-8")
    tasks = made(open_tasks([str(mix)]), tmp_path)
    assert [(task.id, task.question, kinds(task)) for task in tasks] == [
        ("in/a.jpg", "What is it?", ["image"]),
        ("in/b/c.mp4", "What is it?", ["video"]),
        ("in/b/d.3gp", "What is it?", ["video"]),
    ]
    assert all(task.answer is None for task in tasks)


@pytest.mark.parametrize("write", [lambda path: path.write_text("x"), lambda path: path.mkdir()])
def test_what_holds_no_tasks_is_refused(tmp_path: Path, write: Callable[[Path], None]) -> None:
    path = tmp_path / "notes.txt"
    write(path)
    with pytest.raises((SettingsError, DataError), match=r"unknown kind|holds no tasks"):
        open_tasks([str(path)])
