"""Formats of benchmarks for models that look again, as their authors' files and code have them; rows made by hand."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.tasks.benchmarks.cases import (
    base64_png,
    card_of,
    only_tasks,
    place_of,
    png,
    read,
    write_json,
    write_jsonl,
    write_parquet,
    write_png,
    write_tsv,
)

from saccade.errors import SettingsError
from saccade.grading.registry import load_grader
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart
from saccade.record.task import AnswerType, Task
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.row_files import RowProblem
from saccade.tasks.sources.settings import FieldNames, SourceSettings
from saccade.tasks.sources.task_set import open_tasks


def picture(mode: str = "RGB", size: tuple[int, int] = (12, 9)) -> dict[str, Any]:
    """A picture as parquet of the hub holds it."""
    file = BytesIO()
    Image.new(mode, size).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


def boxes_of(task: Task) -> list[tuple[float, ...]]:
    return [tuple(box.xyxy) for box in task.evidence]


def test_visualpuzzles_without_options_has_them_in_the_picture(tmp_path: Path) -> None:
    common = {"category": "Spatial", "question": "Which one comes next?"}
    rows: list[dict[str, Any]] = [
        {**common, "id": 1, "image": picture(), "options": ["one", "two", "three", "four"], "answer": "C"},
        {**common, "id": 2, "image": picture("P"), "options": None, "answer": "D"},
        {**common, "id": 3, "image": picture("RGBA"), "options": None, "answer": "E"},
    ]
    write_parquet(tmp_path / "data.parquet", rows)
    written, drawn, wrong = read("visualpuzzles", tmp_path, tmp_path / "store")
    first, second = only_tasks([written, drawn])
    assert (first.choices, first.answer) == (("one", "two", "three", "four"), "three")
    assert (second.choices, second.answer) == (("A", "B", "C", "D"), "D")
    assert "category=Spatial" in second.tags
    assert place_of(wrong)[1] == "answer", "there is no option E in a picture with four"


def test_visualpuzzles_as_vlmevalkit_has_it(tmp_path: Path) -> None:
    row = {"index": "7", "image": base64_png(), "question": "Which?", "answer": "B", "category": "Deductive"}
    rows = [{**row, "options": "['it\\'s one', 'two', '3', '4']"}, {**row, "index": "8", "options": ""}]
    write_tsv(tmp_path / "VisualPuzzles.tsv", rows)
    first, second = only_tasks(read("visualpuzzles", tmp_path, tmp_path / "store"))
    assert first.choices == ("it's one", "two", "3", "4")
    assert second.choices == ("A", "B", "C", "D")


def test_mmvet_keeps_its_marks_in_the_gold_answer(tmp_path: Path) -> None:
    row = {"question_id": "v1_0", "question": "What is x?", "answer": "-1<AND>-5", "capability": "ocr,math"}
    rows = [
        {**row, "image": picture("L"), "image_source": "web"},
        {**row, "question_id": "v1_1", "image": None, "image_source": None},
    ]
    write_parquet(tmp_path / "data/test-0.parquet", rows)
    first, lost = read("mmvet", tmp_path, tmp_path / "store")
    (task,) = only_tasks([first])
    assert (task.answer, task.answer_type) == ("-1<AND>-5", AnswerType.TEXT)
    assert task.tags == ("capability=ocr", "capability=math", "combination=ocr,math", "image_source=web")
    assert place_of(lost)[1] == "images"


def test_mmstar_options_behind_one_another_in_the_question(tmp_path: Path) -> None:
    common = {"image": png(), "category": "math", "l2_category": "geometry", "meta_info": {"source": "AI2D"}}
    asked = "Is it red? Please answer yes or no."
    rows = [
        {**common, "index": 0, "question": f"{asked}\nOptions: A: Yes, B: No", "answer": "B"},
        {
            **common,
            "index": 1,
            "question": "Where?\nOptions: A: left, up, B: right, C: 3, 4, D: none",
            "answer": "C",
        },
        {**common, "index": 2, "question": "Which of A, B and C?", "answer": "A"},
    ]
    write_parquet(tmp_path / "mmstar.parquet", rows)
    yes_no, commas, without = read("mmstar", tmp_path, tmp_path / "store")
    first, second = only_tasks([yes_no, commas])
    assert (first.question, first.choices, first.answer) == (asked, ("Yes", "No"), "No")
    assert (second.choices, second.answer) == (("left, up", "right", "3, 4", "none"), "3, 4")
    assert {"category=math", "subcategory=geometry"} <= set(first.tags)
    assert place_of(without)[1] == "choices"


def o3_row(**changes: Any) -> dict[str, Any]:
    layouts = {
        "1": {"layout_id": 1, "bbox": [1.0, 2.0, 5.0, 6.5]},
        "2": {"layout_id": 2, "bbox": [6, 1, 40, 5]},
        "10": {"layout_id": 10, "bbox": [0, 0, 3, 3]},
    }
    return {
        "file_name": "images/map/1.png",
        "subset": "map",
        "question": "Which shop?",
        "options": "A. Zoff\nB. −$3, gone\nC. No right choice",
        "answer": "B",
        "explanation": "Step 1.",
        "target_layouts": [2, 10],
        "layout_infos": layouts,
        **changes,
    }


def test_o3_bench_takes_the_target_layouts_as_evidence(tmp_path: Path) -> None:
    rows = [o3_row(), o3_row(target_layouts=[]), o3_row(target_layouts=[3]), o3_row(layout_infos=None)]
    write_jsonl(tmp_path / "test/metadata.jsonl", rows)
    write_png(tmp_path / "test/images/map/1.png")
    targets, none, lost, plain = read("o3-bench", tmp_path, tmp_path / "store")
    first, second, third = only_tasks([targets, none, plain])
    assert (first.choices, first.answer) == (("Zoff", "−$3, gone", "No right choice"), "−$3, gone")
    assert boxes_of(first) == [(6, 1, 12, 5), (0, 0, 3, 3)], "clipped to the picture"
    assert boxes_of(second) == boxes_of(third) == []
    assert isinstance(lost, RowProblem)
    assert (lost.field, "no box 3" in lost.reason) == ("boxes", True)


def one_row(folder: Path, card: Card, **row: Any) -> Task | RowProblem:
    """What a card makes of one row with a picture of 12x9 pixels."""
    write_png(folder / "images/1.png")
    write_jsonl(folder / "data.jsonl", [{"id": 1, "question": "?", "image": "1.png", "answer": "x", **row}])
    (item,) = read(card, folder, folder / "store")
    return item


@pytest.mark.parametrize(
    ("value", "boxes"),
    [
        ({"a": [1, 1, 2, 2], "b": None}, [(1, 1, 2, 2)]),
        ({"bbox": [1, 1, 2, 2], "label": "dog"}, [(1, 1, 2, 2)]),
        ([{"bbox": [1, 1, 2, 2]}, {"bbox": [3, 3, 4, 4]}], [(1, 1, 2, 2), (3, 3, 4, 4)]),
        ("[1, 1, 2, 2]", [(1, 1, 2, 2)]),
        ("[[1.5, 1, 2, 2], [3, 3, 4, 4]]", [(1.5, 1, 2, 2), (3, 3, 4, 4)]),
        ("[]", []),
        ([1, 1, 2, 2], [(1, 1, 2, 2)]),
    ],
)
def test_boxes_in_every_form(tmp_path: Path, value: object, boxes: list[tuple[float, ...]]) -> None:
    (task,) = only_tasks([one_row(tmp_path, card_of(fields={"boxes": "seen"}), seen=value)])
    assert boxes_of(task) == boxes


BOX_FORMS: list[tuple[dict[str, Any], list[float]]] = [
    # the same box of a picture of 12x9 pixels as families and data sets write it
    ({}, [3, 1.8, 9, 6.3]),
    ({"boxes_are": "xywh"}, [3, 1.8, 6, 4.5]),
    ({"boxes_are": "yxyx"}, [1.8, 3, 6.3, 9]),
    ({"boxes_scale": 1}, [0.25, 0.2, 0.75, 0.7]),
    ({"boxes_scale": 1, "boxes_are": "xywh"}, [0.25, 0.2, 0.5, 0.5]),
    ({"boxes_scale": 100}, [25, 20, 75, 70]),
    ({"boxes_scale": 1000}, [250, 200, 750, 700]),  # Qwen3-VL, InternVL
    ({"boxes_scale": 1000, "boxes_are": "yxyx"}, [200, 250, 700, 750]),  # Gemini
    ({"boxes_scale": 1000, "boxes_are": "xywh"}, [250, 200, 500, 500]),
]


@pytest.mark.parametrize(("fields", "numbers"), BOX_FORMS)
@pytest.mark.parametrize("as_answer", [False, True])
def test_boxes_of_a_card_count_as_it_says(
    tmp_path: Path, fields: dict[str, Any], numbers: list[float], as_answer: bool
) -> None:
    changes: dict[str, Any] = {"fields": {**fields, **({} if as_answer else {"boxes": "seen"})}}
    if as_answer:
        changes |= {"answer_type": "box", "graders": {"box": {"id": "box@1", "parameters": {"threshold": 0.99}}}}
    card = card_of(**changes)
    (task,) = only_tasks([one_row(tmp_path, card, answer=str(numbers) if as_answer else "x", seen=numbers)])
    if not as_answer:
        assert boxes_of(task) == [pytest.approx((3, 1.8, 9, 6.3))]
        return
    assert load_grader(card.grader_of(task).spec).grade("[3, 1.8, 9, 6.3]", task).correct == 1
    assert load_grader("box").grade("[0, 0, 2, 2]", task).correct == 0


@pytest.mark.parametrize(("fields", "numbers"), BOX_FORMS)
def test_a_card_says_how_the_boxes_of_answers_count(
    tmp_path: Path, fields: dict[str, Any], numbers: list[float]
) -> None:
    counts = {name.removeprefix("boxes_").replace("are", "order"): value for name, value in fields.items()}
    grader = {"id": "box@1", "parameters": {"threshold": 0.95, **counts}}
    card = card_of(answer_type="box", graders={"box": grader})
    (task,) = only_tasks([one_row(tmp_path, card, answer="[3, 1.8, 9, 6.3]")])
    spec = card.grader_of(task).spec
    assert load_grader(spec).grade(json.dumps({"bbox_2d": numbers}), task).correct == 1
    other = [{}, [3, 1.8, 9, 6.3]] if fields else [{"boxes_scale": 1000}, [250, 200, 750, 700]]
    assert load_grader(spec).grade(json.dumps(other[1]), task).correct == 0, "no space but its own"


def test_boxes_of_rows_of_ones_own_count_as_the_source_says(tmp_path: Path) -> None:
    write_png(tmp_path / "1.png")
    row = {"question": "?", "image": "1.png", "answer": "[200, 250, 700, 750]", "boxes": [200, 250, 700, 750]}
    write_jsonl(tmp_path / "rows.jsonl", [row])
    fields = FieldNames(boxes_are="yxyx", boxes_scale=1000)
    source = SourceSettings(name=str(tmp_path / "rows.jsonl"), grader="iou:scale=1000,order=yxyx", fields=fields)
    (task,) = open_tasks([source]).tasks(MediaStore(tmp_path / "store"))
    assert boxes_of(task) == [pytest.approx((3, 1.8, 9, 6.3))]
    assert load_grader(task.grader).grade("[200, 250, 700, 750]", task).correct == pytest.approx(1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fields": {"boxes_scale": 1000}}, "no field has any"),
        ({"fields": {"boxes_are": "yxyx"}}, "no field has any"),
        ({"fields": {"boxes": "seen", "boxes_scale": 10}}, "boxes_scale"),
        ({"fields": {"boxes": "seen", "boxes_are": "yx"}}, "boxes_are"),
        ({"media": "text", "graders": {"text": {"id": "box@1", "parameters": {"scale": 1000}}}}, "need a picture"),
    ],
)
def test_ways_to_count_that_cannot_be_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        card_of(**changes)


@pytest.mark.parametrize("wrong", ["order=yx", "scale=0.5", "scale=-1", 'scale="pixels"', "order=xyxy,size=1000"])
def test_ways_to_count_that_no_box_grader_knows_are_refused(wrong: str) -> None:
    with pytest.raises(SettingsError):
        load_grader(f"box:{wrong}")


@pytest.mark.parametrize(
    ("value", "scale"),
    [
        *((no_box, None) for no_box in ("left of the dog", "__import__('os')", "[[2, 2, 1, 1]]", {"a": "x"})),
        ([{"box": [1, 1, 2, 2]}], None), ([[1, 1, 2]], None),
        ([250, 200, 750, 1200], 1000), ([0.25, 0.2, 75, 0.7], 1), ("[-1, -1, -0.5, -0.5]", 1),  # beyond the scale
    ],
)  # fmt: skip
def test_what_is_no_box_is_a_problem_of_its_row(tmp_path: Path, value: object, scale: int | None) -> None:
    fields = {"boxes": "seen"} if scale is None else {"boxes": "seen", "boxes_scale": scale}
    assert place_of(one_row(tmp_path, card_of(fields=fields), seen=value)) == (0, "boxes")


def test_vtc_bench_mixes_choices_of_several_lengths_and_free_answers(tmp_path: Path) -> None:
    row = {"category": "attention", "image": "images/attention_focusing/1.jpg", "question": "What stands there?"}
    rows = [
        {"index": "1", "id": "a_1", **row, "answer": "光陽機車", "A": "", "B": "", "C": "", "D": ""},
        {"index": "2", "id": "a_2", **row, "answer": "B", "A": "6", "B": "5", "C": "3", "D": "4"},
        {"index": "3", "id": "a_3", **row, "answer": "A", "A": "yes", "B": "no", "C": "", "D": ""},
        {"index": "4", "id": "a_4", **row, "answer": "B", "A": "", "B": "", "C": "", "D": ""},
    ]
    write_tsv(tmp_path / "VTC-Bench.tsv", rows)
    write_png(tmp_path / "images/attention_focusing/1.jpg")
    free, four, two, letter = only_tasks(read("vtc-bench", tmp_path, tmp_path / "store"))
    assert (free.answer, free.answer_type) == ("光陽機車", AnswerType.TEXT)
    assert (four.answer, four.choices) == ("5", ("6", "5", "3", "4"))
    assert two.choices == ("yes", "no")
    assert (letter.answer, letter.answer_type) == ("B", AnswerType.TEXT), "a letter that is read in the picture"


def test_zoombench_choices_in_the_question_and_open_ones(tmp_path: Path) -> None:
    asked = "What colour is the rim?\n(A) red\n(B) blue\n(C) none"
    rows = [
        {"id": "z1", "query": asked, "response": "(B)", "question_type": "mcq", "image": picture("RGBA")},
        {"id": "z2", "query": "How many birds?", "response": "12", "question_type": "oq", "image": picture("I;16")},
    ]
    write_parquet(tmp_path / "data/test.parquet", [{**row, "crop_image": picture(size=(3, 3))} for row in rows])
    choice, free = only_tasks(read("zoombench", tmp_path, tmp_path / "store"))
    assert (choice.question, choice.choices) == ("What colour is the rim?", ("red", "blue", "none"))
    assert choice.answer == "blue"
    assert (free.answer, free.answer_type, free.choices) == ("12", AnswerType.TEXT, ())
    part = free.media[0].part
    assert isinstance(part, ImagePart)
    assert (part.width, part.height) == (12, 9), "the whole picture, not the crop"


def test_babyvision_counts_its_options_from_0(tmp_path: Path) -> None:
    common = {"type": "Visual Tracking", "subtype": "Maze", "image": "images/1.png", "coT": "..."}
    blank = {**common, "ansType": "blank", "options": [], "choiceAns": None, "blankAns": "(4,7)"}
    choice = {**common, "ansType": "choice", "options": ["2", "3", "4"], "choiceAns": 0, "blankAns": None}
    rows = [
        {**blank, "taskId": 445, "question": "Which row and column?"},
        {**choice, "taskId": 446, "question": "How many?"},
        {**choice, "taskId": 447, "question": "How many?", "choiceAns": 3},
    ]
    write_jsonl(tmp_path / "babyvision_data/meta_data.jsonl", rows)
    write_png(tmp_path / "babyvision_data/images/1.png")
    first, second, beyond = read("babyvision", tmp_path, tmp_path / "store")
    written, chosen = only_tasks([first, second])
    assert (written.answer, written.answer_type) == ("(4,7)", AnswerType.TEXT)
    assert (chosen.answer, chosen.choices) == ("2", ("2", "3", "4"))
    assert {"type=Visual Tracking", "subtype=Maze"} <= set(chosen.tags)
    assert place_of(beyond)[1] == "answer"


def test_visualprobe_levels_are_folders_and_its_marks_are_no_words(tmp_path: Path) -> None:
    for level, name in (("Easy", "easy"), ("Hard", "hard")):
        image = f"VisualProbe_{level}/data/visual_probe_{name}_1.jpg"
        rows = [
            {"images": [image], "problem": "<image>\nWhat colour is the lampshade?", "solution": "White."},
            {"images": [image, image], "problem": "<image><image> Which <image> is it?", "solution": "left"},
        ]
        write_json(tmp_path / f"VisualProbe_{level}/val.json", rows)
        write_png(tmp_path / image)
    tasks = only_tasks(read("visualprobe", tmp_path, tmp_path / "store"))
    assert [task.id for task in tasks[:3]] == [
        "visualprobe@1/VisualProbe_Easy-0",
        "visualprobe@1/VisualProbe_Easy-1",
        "visualprobe@1/VisualProbe_Hard-0",
    ]
    assert tasks[0].question == "What colour is the lampshade?"
    assert (tasks[1].question, len(tasks[1].media)) == ("Which <image> is it?", 2)
    assert "level=VisualProbe_Hard" in tasks[2].tags


def test_a_question_of_marks_alone_is_a_problem(tmp_path: Path) -> None:
    assert place_of(one_row(tmp_path, card_of(), question="<image>\n<image>")) == (0, "question")


def test_treebench_targets_are_evidence(tmp_path: Path) -> None:
    row = {"image": base64_png(), "question": "Which one is nearer?", "category": "Reasoning/Ordering"}
    rows = [
        {"index": "0", **row, "A": "left ", "B": "right", "C": "", "D": "", "answer": "B"},
        {"index": "1", **row, "A": "1", "B": "2", "C": "3", "D": "4", "answer": "A"},
        {"index": "2", **row, "A": "", "B": "", "C": "", "D": "", "answer": "C"},
    ]
    targets = ["[[8.0, 1.0, 50.0, 4.0], [0.0, 0.0, 3.0, 3.0]]", "[[1.0, 1.0, 2.0, 2.0]]", "[[1, 1, 2, 2]]"]
    options = "A. front \nB. back\nC. left, then right"
    write_tsv(
        tmp_path / "TreeBench.tsv",
        [
            {**row, "target_instances": text, "multi-choice options": options}
            for row, text in zip(rows, targets, strict=True)
        ],
    )
    first, second, third = only_tasks(read("treebench", tmp_path, tmp_path / "store"))
    assert (first.choices, first.answer) == (("left", "right"), "right")
    assert boxes_of(first) == [(8, 1, 12, 4), (0, 0, 3, 3)]
    assert (second.answer, len(second.evidence)) == ("1", 1)
    assert (third.choices, third.answer) == (("front", "back", "left, then right"), "left, then right")
    assert "category=Reasoning/Ordering" in second.tags
