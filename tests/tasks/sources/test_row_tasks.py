"""Every form that rows may have gives the task that its row describes, with its pictures and videos."""

from __future__ import annotations

import base64
import csv
import io
import json
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tasks.sources.files import deepeyes_row, jsonl, parquet, picture, png, pyvision_row, video

from saccade.dialects.question import question_text, split_at_pictures
from saccade.errors import DataError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.task import AnswerType, Task
from saccade.tasks.benchmarks.row_files import RowProblem, SourceRow
from saccade.tasks.sources.row_tasks import SEARCH
from saccade.tasks.sources.settings import SourceSettings
from saccade.tasks.sources.tables import DelimitedTable, encoding_of
from saccade.tasks.sources.task_set import TaskPool, open_tasks

TEXTS = {
    "Western European": "Quelle est l'année écrite à côté ? Größe, façade, señor, Århus — 5 €",
    "Cyrillic": "Какого цвета машина слева от дерева? Сколько человек на картинке?",
    "Japanese": "この写真には何人いますか？看板に書いてある文字は何ですか。赤い車",
    "simplified Chinese": "图片中有多少个人？左边的汽车是什么颜色的？请选择正确的答案。",
    "traditional Chinese": "圖片中有多少個人？左邊的汽車是什麼顏色的？請選擇正確的答案。",
    "Korean": "사진에 몇 명이 있습니까? 왼쪽 자동차는 무슨 색입니까? 간판의 글자",
}
PAGES = {
    "Western European": "cp1252",
    "Cyrillic": "cp1251",
    "Japanese": "cp932",
    "simplified Chinese": "gb18030",
    "traditional Chinese": "big5",
    "Korean": "cp949",
}
UNICODE = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")


def rows_of(file: Path, encoding: str = "") -> list[dict[str, str]]:
    """The rows as a scan gives them; each is read again by its place and must be the same."""
    table = DelimitedTable(file, encoding)
    found = []
    for place, row in table.scan():
        assert isinstance(row, SourceRow), row
        assert table.read(place).fields == row.fields
        found.append({name: value for name, value in row.fields.items() if not name.startswith("_")})
    return found


def written(rows: list[list[str]], separator: str = ",", end: str = "\r\n") -> str:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=separator, lineterminator=end).writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", UNICODE)
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_every_way_to_write_unicode(suffix: str, encoding: str, separator: str, end: str, tmp_path: Path) -> None:
    rows = [["a.png", 'Big; or, "not"?\nSay\tso.', "3,5"], ["b.png", TEXTS["Japanese"], "blau; rot"]]
    (tmp_path / f"t{suffix}").write_bytes(
        written([["image", "question", "answer"], *rows], separator, end).encode(encoding)
    )
    assert [list(row.values()) for row in rows_of(tmp_path / f"t{suffix}")] == rows


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("separator", [",", ";"])
def test_code_pages_are_found_and_said(
    language: str, separator: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(written([["question", "answer"], [TEXTS[language], "1"]], separator).encode(PAGES[language]))
    with caplog.at_level(logging.WARNING, "saccade"):
        assert rows_of(file) == [{"question": TEXTS[language], "answer": "1"}]
    assert f"read as {PAGES[language]} ({language})" in caplog.text
    assert caplog.text.count("read as") == 1


@pytest.mark.parametrize("text", ["année", "Straße", "50 € – „gut“", "ÀÉÈ?"])
def test_few_letters_are_western(text: str, tmp_path: Path) -> None:
    assert encoding_of(f"question;answer\n{text};x\n".encode("cp1252"), tmp_path) == "cp1252"


def test_what_the_source_says_wins(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "rows.csv").write_bytes("question,answer\nПчела?,да\n".encode("koi8-r"))
    (tmp_path / "mix.toml").write_text(f'[[source]]\nname = "{tmp_path}/rows.csv"\nencoding = "koi8-r"\n')
    pool = open_tasks([str(tmp_path / "mix.toml")])
    assert pool.make(pool.ids[0], MediaStore(tmp_path / "media")).question == "Пчела?"
    assert "read as" not in caplog.text
    for wrong, says in (("klingon", "no encoding 'klingon'"), ("ascii", "cannot be read")):
        with pytest.raises(DataError, match=says):
            open_tasks([SourceSettings(name=str(tmp_path / "rows.csv"), encoding=wrong)])
    with pytest.raises(SettingsError, match="encoding would change nothing"):
        open_tasks([SourceSettings(name="maze", encoding="cp1252")])


def test_bytes_of_no_encoding_are_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"question,answer\n\x81\x8d\xff\x81,x\n")
    with pytest.raises(DataError, match=r'Save it as UTF-8, or say encoding = "\.\.\."'):
        rows_of(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(b"PK\x03\x04" + bytes(99))
    with pytest.raises(DataError, match=r"is a workbook, .* Save the sheet as CSV"):
        rows_of(tmp_path / "t.csv")


def test_excels_own_habits(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        text = "sep=;\r\n\r\n;\r\nquestion; answer \r\n1,5 kg?;yes\r\n;\r\n\r\nb;no\r\n\x1a\0"
        file.write_bytes(text.encode(encoding))
        assert rows_of(file) == [{"question": "1,5 kg?", "answer": "yes"}, {"question": "b", "answer": "no"}]
    file.write_text("\n\n Question , Answer\na;b,1\n")
    assert rows_of(file) == [{"Question": "a;b", "Answer": "1"}]
    pool = open_tasks([str(file)])
    assert pool.make(pool.ids[0], MediaStore(tmp_path / "media")).question == "a;b"
    file.write_text("a question, with a comma;answer\nx;1\n")
    assert rows_of(file) == [{"a question, with a comma": "x", "answer": "1"}]
    file.write_text('"a head, over\ntwo lines";answer;image\nx;1;a\n')
    assert list(rows_of(file)[0].values()) == ["x", "1", "a"]
    file.write_text("")
    assert rows_of(file) == []
    file.write_text("question,answer\na,b,c\n")
    ((_, problem),) = DelimitedTable(file).scan()
    assert isinstance(problem, RowProblem)
    assert "3 cells where the head has 2" in str(problem)


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3)), st.sampled_from(UNICODE), st.sampled_from(",;\t"))
def test_any_cells_come_back(cells: list[list[str]], encoding: str, separator: str) -> None:
    kept = [row for row in cells if any(row)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.csv"
        file.write_bytes(written([["one", "two", "three"], *kept], separator, "\n").encode(encoding))
        told = encoding if encoding in ("utf-16-le", "utf-16-be") else ""  # these have no mark, only many zeros
        assert [list(row.values()) for row in rows_of(file, told)] == kept


def test_rows_share_a_picture_by_its_index_as_vlmevalkit_has_it(tmp_path: Path) -> None:
    red, blue = (base64.b64encode(png(colour)).decode() for colour in ("red", "blue"))
    picture(tmp_path / "7.png", "green")
    rows = [
        ["index", "image", "question", "A", "B", "answer"],
        ["0", "3", "before its picture", "x", "y", "A"],
        ["3", red, "its own", "x", "y", "A"],
        ["4_a", f"['{red}', '{blue}']", "two", "x", "y", "A"],
        ["5", "4_a", "the two of another", "x", "y", "A"],
        ["6", "7.png", "a path", "x", "y", "A"],
        ["8", "99", "nothing", "x", "y", "A"],
    ]
    for separator, encoding in (("\t", "utf-8"), (";", "utf-16")):
        (tmp_path / "bench.tsv").write_bytes(written(rows, separator).encode(encoding))
        pool = open_tasks([str(tmp_path / "bench.tsv")])
        store = MediaStore(tmp_path / "media")
        tasks = {task.question: task for task in pool.tasks(store)}
        parts = {question: [item.part for item in task.media] for question, task in tasks.items()}
        assert parts["before its picture"] == parts["its own"]
        assert len(parts["two"]) == 2
        assert parts["the two of another"] == parts["two"]
        assert len(parts["a path"]) == 1
        (problem,) = pool.problems
        assert "99" in str(problem)


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
