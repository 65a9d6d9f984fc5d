"""Each source's own format, as its documentation or its published files have it; rows made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.media.clips import h264
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

from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, VideoPart
from saccade.record.task import AnswerType, Task
from saccade.tasks.benchmarks.benchmark import open_benchmark, tasks_of_rows
from saccade.tasks.benchmarks.registry import load_card
from saccade.tasks.benchmarks.row_files import RowProblem

HR = {"question": 'What is on the "sign"?', "category": "single"}


def hr_rows() -> list[dict[str, str]]:
    """One question of HR-Bench: its options in four rotations, and the letter that follows the gold one."""
    options = ["red\tline", "blue", "green", "white"]
    return [
        {
            "index": str(turn),
            "image": base64_png(),
            **HR,
            **dict(zip("ABCD", options[turn:] + options[:turn], strict=True)),
            "answer": "ADCB"[turn],
            "cycle_category": str(turn),
        }
        for turn in range(4)
    ]


def test_hrbench_tsv_holds_four_cycles(tmp_path: Path) -> None:
    write_tsv(tmp_path / "hr_bench_4k.tsv", hr_rows())
    tasks = only_tasks(read("hrbench-4k", tmp_path, tmp_path / "store"))
    assert [task.answer for task in tasks] == ["red\tline"] * 4
    assert [task.choices.index("red\tline") for task in tasks] == [0, 3, 2, 1]
    assert [task.id for task in tasks] == [f"hrbench-4k@1/{index}" for index in range(4)]
    groups = {tag for task in tasks for tag in task.tags if tag.startswith("group=")}
    variants = [tag for task in tasks for tag in task.tags if tag.startswith("variant=")]
    assert len(groups) == 1
    assert variants == [f"variant={turn}" for turn in range(4)]
    assert tasks[0].question == HR["question"]
    assert "category=single" in tasks[0].tags


def test_one_cycle_becomes_four_where_the_card_asks_for_it(tmp_path: Path) -> None:
    write_png(tmp_path / "images/1.png")
    row = {"id": 1, "question": "Which?", "image": "1.png", "options": ["a", "b", "c", "d"], "answer": "B"}
    write_jsonl(tmp_path / "data.jsonl", [row])
    card = card_of(fields={"choices": "options", "answer_is": "letter"}, choices={"order": "cycle"})
    tasks = only_tasks(read(card, tmp_path, tmp_path / "store"))
    assert [task.choices for task in tasks] == [tuple("abcd"), tuple("bcda"), tuple("cdab"), tuple("dabc")]
    assert {task.answer for task in tasks} == {"b"}
    assert len({task.id for task in tasks}) == 4
    assert all("group=made-up@1/1" in task.tags for task in tasks)


def test_vlmevalkit_row_may_show_the_picture_of_another(tmp_path: Path) -> None:
    rows = [
        {"index": "7", "image": "9", "image_path": "", "question": "a?", "answer": "x"},
        {"index": "8", "image": base64_png("blue"), "image_path": "", "question": "b?", "answer": "y"},
        {"index": "9", "image": base64_png("green"), "image_path": "", "question": "c?", "answer": "z"},
        {"index": "10", "image": "77", "image_path": "", "question": "d?", "answer": "z"},
        {"index": "11", "image": "", "image_path": "pics/1.png", "question": "e?", "answer": "z"},
    ]
    write_tsv(tmp_path / "CharXiv_descriptive_val.tsv", rows)
    write_png(tmp_path / "pics/1.png", "white")
    items = read("charxiv-descriptive", tmp_path, tmp_path / "store")
    first, second, third, lost, fourth = items
    assert place_of(lost) == (3, "image")
    tasks = only_tasks([first, second, third, fourth])
    assert tasks[0].media[0].part == tasks[2].media[0].part != tasks[1].media[0].part


def mmbench_rows() -> list[dict[str, str]]:
    """Two questions with all rotations, as MMBench's file has them: the options move on, the picture is an index."""
    rows = []
    for index, options, gold, image in (
        ("241", "red|blue|green|", "blue", base64_png()),
        ("252", "yes|no||", "no", ""),
    ):
        shown = [option for option in options.split("|") if option]
        for turn in range(len(shown)):
            turned = [*shown[turn:], *shown[:turn]]
            row = dict(zip("ABCD", [*turned, "", ""], strict=False))
            cells = {
                "index": str(int(index) + turn * 1_000_000),
                "question": f"Which, {index}?",
                "hint": "Look." * (not turn),
            }
            place = image if image and not turn else "241"
            rows.append(cells | row | {"answer": "ABCD"[turned.index(gold)], "category": "colour", "image": place})
    return rows


def test_mmbench_rows_are_questions_and_their_options_are_rotated_here(tmp_path: Path) -> None:
    write_tsv(tmp_path / "MMBench_DEV_EN.tsv", mmbench_rows())
    tasks = only_tasks(read("mmbench", tmp_path, tmp_path / "store"))
    assert [task.id for task in tasks] == [
        *(f"mmbench@1/241/circular-{turn}" for turn in range(3)),
        *(f"mmbench@1/252/circular-{turn}" for turn in range(2)),
    ]
    assert [task.choices for task in tasks[:3]] == [
        ("red", "blue", "green"),
        ("blue", "green", "red"),
        ("green", "red", "blue"),
    ]
    assert {task.answer for task in tasks[:3]} == {"blue"}
    assert tasks[0].question == "Look.\nWhich, 241?"
    assert {task.media[0].part.sha256 for task in tasks} == {tasks[0].media[0].part.sha256}
    assert "category=colour" in tasks[4].tags


def test_mmbench_of_the_hub_has_pictures_in_every_row_and_another_name_of_the_category(tmp_path: Path) -> None:
    plain = [{**row, "image": {"bytes": png(), "path": None}, "L2-category": "fine"} for row in mmbench_rows()]
    rows = [{name: value or None for name, value in row.items()} for row in plain]
    write_parquet(tmp_path / "en/dev-00000-of-00001.parquet", rows)
    tasks = only_tasks(read("mmbench", tmp_path, tmp_path / "store"))
    assert [len(task.choices) for task in tasks] == [3, 3, 3, 2, 2]
    assert "l2-category=fine" in tasks[0].tags


def test_vlmevalkit_hint_and_list_of_pictures(tmp_path: Path) -> None:
    pictures = json.dumps([base64_png("red"), base64_png("blue")])
    row = {"index": "1", "image": pictures, "hint": "Read both.", "question": "Which?", "A": "1", "B": "2", "C": ""}
    write_tsv(tmp_path / "data.tsv", [{**row, "answer": "B"}])
    card = card_of(
        loader={"id": "vlmevalkit@1", "files": "data.tsv"},
        fields={"id": "index", "hint": "hint", "choices_from": "columns", "answer_is": "letter"},
    )
    (task,) = only_tasks(read(card, tmp_path, tmp_path / "store"))
    assert task.question == "Read both.\nWhich?"
    assert task.choices == ("1", "2")
    assert [item.name for item in task.media] == ["image_0", "image_1"]


def test_vstar_folders_with_boxes(tmp_path: Path) -> None:
    row = {"question": "What colour?", "options": ["The dog is red.", "The dog is blue."], "target_object": ["dog"]}
    write_json(tmp_path / "direct_attributes/sa_2.json", {**row, "bbox": [[2, 1, 5, 4]]})
    write_png(tmp_path / "direct_attributes/sa_2.jpg")
    write_json(tmp_path / "relative_position/sa_1.json", {**row, "bbox": [[8, 1, 50, 4]]})
    write_png(tmp_path / "relative_position/sa_1.jpg")
    write_json(tmp_path / "GPT4V-hard/0.json", {"anything": "else"})
    tasks = only_tasks(read("vstar", tmp_path, tmp_path / "store"))
    assert [task.id for task in tasks] == ["vstar@1/direct_attributes/sa_2", "vstar@1/relative_position/sa_1"]
    assert all(task.answer == task.choices[0] for task in tasks), "the source lists the gold option first"
    assert load_card("vstar").choices.order == "shuffle"
    assert tasks[0].evidence[0].xyxy == (2, 1, 7, 5)
    assert tasks[0].evidence[0].label == "dog"
    assert tasks[1].evidence[0].xyxy == (8, 1, 12, 5), "clipped to the picture"


def test_hugging_face_parquet_with_picture_structs(tmp_path: Path) -> None:
    rows = [
        {"image": {"bytes": png(), "path": None}, "text": "x", "question": "How many?", "number": 3},
        {"image": {"bytes": b"no picture", "path": None}, "text": "x", "question": "How many?", "number": 4},
    ]
    write_parquet(tmp_path / "data/test-00000-of-00002.parquet", rows[:1])
    write_parquet(tmp_path / "data/test-00001-of-00002.parquet", rows[1:])
    benchmark = open_benchmark(load_card("countbench"), tmp_path)
    first, second = benchmark.tasks(MediaStore(tmp_path / "store"))
    (task,) = only_tasks([first])
    assert (task.answer, task.answer_type) == ("3", AnswerType.NUMBER)
    assert place_of(second)[1] == "images"
    assert benchmark.count() == 2


def test_rows_at_hand(tmp_path: Path) -> None:
    from PIL import Image

    rows = [{"id": "a", "question": "What?", "image": Image.new("L", (4, 4)), "answer": ["x", "y"]}]
    (task,) = only_tasks(tasks_of_rows(rows, card_of(), tmp_path, MediaStore(tmp_path / "store")))
    assert task.answer == '["x", "y"]'
    assert isinstance(task.media[0].part, ImagePart)


def test_mmmu_lists_written_as_text_and_numbered_pictures(tmp_path: Path) -> None:
    struct = {"bytes": png(), "path": "1.png"}
    other = {"bytes": png("blue"), "path": "2.png"}
    common = {"image_1": struct, "image_2": other, "image_3": None, "subfield": "Algebra"}
    rows = [
        {"id": "v_1", "question": "See <image 1>, <image 2>?", "options": "['$5', \"it's\"]", "answer": "B"},
        {"id": "v_2", "question": "See <image 1>?", "options": "[]", "answer": "7"},
    ]
    kinds = ["multiple-choice", "open"]
    write_parquet(
        tmp_path / "data/validation-0.parquet",
        [{**row, **common, "question_type": kind} for row, kind in zip(rows, kinds, strict=True)],
    )
    choice, open_question = only_tasks(read("mmmu", tmp_path, tmp_path / "store"))
    assert (choice.choices, choice.answer) == (("$5", "it's"), "it's")
    assert len(choice.media) == 2
    assert (open_question.answer_type, open_question.answer) == (AnswerType.TEXT, "7")


def test_mathvista_json_object(tmp_path: Path) -> None:
    common = {"image": "images/1.jpg", "metadata": {"task": "textbook question answering"}, "unit": None}
    rows = {
        "1": {"pid": "1", "question": "How long?", "choices": None, "precision": 1.0, "answer": "1.2"},
        "2": {"pid": "2", "question": "Which?", "choices": ["yes", "no"], "precision": None, "answer": "no"},
        "3": {"pid": "3", "question": "Which years?", "choices": None, "precision": None, "answer": "[1, 2]"},
    }
    types = {"1": ("free_form", "float"), "2": ("multi_choice", "text"), "3": ("free_form", "list")}
    data = {
        key: {**row, **common, "question_type": types[key][0], "answer_type": types[key][1]}
        for key, row in rows.items()
    }
    write_json(tmp_path / "annot_testmini.json", data)
    write_png(tmp_path / "images/1.jpg")
    number, choice, listed = only_tasks(read("mathvista", tmp_path, tmp_path / "store"))
    assert (number.answer_type, number.answer) == (AnswerType.NUMBER, "1.2")
    assert "precision=1" in number.tags
    assert (choice.answer_type, choice.answer) == (AnswerType.CHOICE, "no")
    assert listed.answer_type is AnswerType.LIST


def test_mathverse_options_inside_the_question(tmp_path: Path) -> None:
    rows = [
        {
            "question": "Find the angle.\nChoices:\nA:65°\nB:60°\nC:75°\nD:70°",
            "answer": "D",
            "question_type": "multi-choice",
        },
        {"question": "Find A: the area.", "answer": "$2\\sqrt{3}$", "question_type": "free-form"},
    ]
    common = {"image": {"bytes": png(), "path": None}, "problem_index": "1", "metadata": {"subject": "Plane"}}
    write_parquet(
        tmp_path / "testmini.parquet",
        [{**r, **common, "sample_index": str(i), "problem_version": "Text Lite"} for i, r in enumerate(rows)],
    )
    choice, free = only_tasks(read("mathverse", tmp_path, tmp_path / "store"))
    assert choice.question == "Find the angle."
    assert (choice.choices, choice.answer) == (("65°", "60°", "75°", "70°"), "70°")
    assert (free.question, free.answer_type) == ("Find A: the area.", AnswerType.TEXT)
    assert "variant=Text Lite" in free.tags


def test_options_in_a_question_that_the_answer_does_not_name_stay_there(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "prompt": "Which is it?\nA. red\nB. blue", "answer": "A", "task": "color"},
        {"id": 2, "prompt": "Order the pieces <image1>.\nA: left\nB: right", "answer": [2, 1], "task": "jigsaw"},
    ]
    write_json(tmp_path / "TIR-Bench.json", [{**row, "image_1": "data/1.png", "image_2": None} for row in rows])
    write_png(tmp_path / "data/1.png")
    choice, free = only_tasks(read("tir-bench", tmp_path, tmp_path / "store"))
    assert (choice.question, choice.choices, choice.answer) == ("Which is it?", ("red", "blue"), "red")
    assert (free.question, free.choices) == ("Order the pieces <image 1>.\nA: left\nB: right", ())
    assert (free.answer, free.answer_type) == ('["2", "1"]', AnswerType.TEXT)


def test_pixmo_count_finds_pictures_by_their_hash(tmp_path: Path) -> None:
    row = {"image_url": "https://example.org/1.jpg", "image_sha256": "ab12", "count": 4, "label": "people"}
    write_parquet(tmp_path / "data/test-0.parquet", [row])
    write_png(tmp_path / "images/ab12.jpg")
    (task,) = only_tasks(read("pixmo-count", tmp_path, tmp_path / "store"))
    assert (task.question, task.answer) == ("How many people are there in the image?", "4")


def test_mathvision_letters_as_options(tmp_path: Path) -> None:
    common = {
        "image": "images/1.jpg",
        "decoded_image": {"bytes": png(), "path": None},
        "level": 2,
        "subject": "algebra",
    }
    rows = [
        {"id": "1", "question": "Which one?\n<image1>", "options": ["A", "B", "C"], "answer": "B"},
        {"id": "2", "question": "How many?\n<image1>", "options": [], "answer": "9"},
    ]
    write_parquet(tmp_path / "data/test-0.parquet", [{**row, **common} for row in rows])
    choice, free = only_tasks(read("mathvision", tmp_path, tmp_path / "store"))
    assert (choice.question, choice.choices, choice.answer) == ("Which one?\n<image 1>", ("A", "B", "C"), "B")
    assert free.answer_type is AnswerType.TEXT


def test_mme_realworld_options_as_text_of_a_list(tmp_path: Path) -> None:
    options = "['(A) red', '(B) blue', '(E) The image does not feature the color']"
    row = {"index": "0", "image": base64_png(), "question": "Colour?", "multi-choice options": options, "answer": "E"}
    all_options = "['(A) red', '(B) blue', '(C) green', '(D) grey', '(E) none of these']"
    second = {**row, "index": "1", "multi-choice options": all_options}
    write_tsv(tmp_path / "mme_realworld_lite.tsv", [{**row, "category": "x"}, {**second, "category": "x"}])
    first, task = read("mme-realworld-lite", tmp_path, tmp_path / "store")
    assert isinstance(first, RowProblem), "the letter E is beyond three options"
    assert only_tasks([task])[0].answer == "none of these"


def test_blindtest_as_the_hub_has_it(tmp_path: Path) -> None:
    golds = {
        "Line Plot Intersections": "2",
        "Touching Circles": "Yes",
        "Circled Letter": "o",
        "Counting Grid - Blank Grids": "5,4",
    }
    common = {"image": {"bytes": png(), "path": None}, "prompt": "How many?", "metadata": "{}"}
    rows = [{**common, "task": task, "groundtruth": gold} for task, gold in golds.items()]
    write_parquet(tmp_path / "data/valid-0.parquet", rows)
    tasks = only_tasks(read("blindtest", tmp_path, tmp_path / "store"))
    assert [task.answer for task in tasks] == list(golds.values())
    types = [AnswerType.NUMBER, AnswerType.YES_NO, AnswerType.TEXT, AnswerType.LIST]
    assert [task.answer_type for task in tasks] == types


def test_charxiv_reasoning(tmp_path: Path) -> None:
    row = {"image": {"bytes": png(), "path": None}, "category": "cs", "descriptive_q1": 4, "descriptive_a1": "0.2"}
    write_parquet(tmp_path / "val.parquet", [{**row, "reasoning_q": "Which is higher?", "reasoning_a": "Ours"}])
    (task,) = only_tasks(read("charxiv-reasoning", tmp_path, tmp_path / "store"))
    assert (task.question, task.answer, task.tags) == ("Which is higher?", "Ours", ("category=cs",))


def test_wemath_options_in_one_text(tmp_path: Path) -> None:
    row = {"ID": "1", "key": "2steps_1", "question": "How long?", "option": "A. 3 m; B. 4 m; C. No correct answer"}
    write_parquet(
        tmp_path / "data/testmini-0.parquet",
        [{**row, "answer": "C", "knowledge concept": "Lines", "image_path": {"bytes": png(), "path": None}}],
    )
    (task,) = only_tasks(read("wemath", tmp_path, tmp_path / "store"))
    assert task.choices == ("3 m", "4 m", "No correct answer")
    assert task.answer == "No correct answer"
    assert {"group=1", "variant=2steps_1"} <= set(task.tags)


def test_dynamath_variants_share_a_group(tmp_path: Path) -> None:
    row = {"id": "5", "question": "f(x)?", "decoded_image": {"bytes": png(), "path": None}, "answer_type": "float"}
    for variant, answer in (("sample1-0", "1.5"), ("sample2-0", "2.5")):
        write_parquet(tmp_path / f"data/{variant}.parquet", [{**row, "ground_truth": answer}])
    tasks = only_tasks(read("dynamath", tmp_path, tmp_path / "store"))
    assert [task.id for task in tasks] == ["dynamath@1/5-sample1-0", "dynamath@1/5-sample2-0"]
    assert all("group=5" in task.tags for task in tasks)
    assert {task.answer_type for task in tasks} == {AnswerType.NUMBER}


def test_chartqa_raw_files(tmp_path: Path) -> None:
    write_json(tmp_path / "test/test_human.json", [{"imgname": "1.png", "query": "How many?", "label": "14"}])
    write_json(tmp_path / "test/test_augmented.json", [{"imgname": "1.png", "query": "Who?", "label": "Ann"}])
    write_png(tmp_path / "test/png/1.png")
    tasks = only_tasks(read("chartqa", tmp_path, tmp_path / "store"))
    assert [task.id for task in tasks] == ["chartqa@1/test_augmented-0", "chartqa@1/test_human-0"]
    assert "type=test_human" in tasks[1].tags


def test_vista_list_with_paths_of_another_machine(tmp_path: Path) -> None:
    row = {"dataset": "chartqa", "question": "How many?", "choices": None, "task": "chart", "metadata": {}}
    rows = [
        {**row, "id": "c1", "image_path": "/data/somebody/chartqa/images/1.png", "answer": "4"},
        {**row, "id": "c2", "image_path": "images/1.png", "answer": "4", "choices": ["3", "4"]},
        {**row, "id": "c3", "image_path": "../../etc/passwd", "answer": "4"},
        {**row, "id": "c4", "image_path": "/etc/hostname", "answer": "4"},
    ]
    write_json(tmp_path / "chartqa_test_vlmgym.json", rows)
    write_png(tmp_path / "images/1.png")
    first, second, third, fourth = read("vista-chartqa", tmp_path, tmp_path / "store")
    text, choice = only_tasks([first, second])
    assert text.answer_type is AnswerType.TEXT
    assert (choice.answer_type, choice.answer) == (AnswerType.CHOICE, "4")
    assert [item.field for item in (third, fourth) if isinstance(item, RowProblem)] == ["images", "images"]


def test_llava_conversations(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "<image>\nWhat is it?"}, {"from": "gpt", "value": "A dog."}]
    rows = [
        {"id": "1", "images": ["a.png"], "conversations": turns},
        {"id": "2", "images": ["a.png"], "conversations": turns[:1]},
        {"id": "3", "images": ["a.png"], "conversations": "none"},
    ]
    write_json(tmp_path / "data.json", rows)
    write_png(tmp_path / "images/a.png")
    card = card_of(loader={"id": "llava@1", "files": "data.json"}, fields={"images": "images"})
    first, second, third = read(card, tmp_path, tmp_path / "store")
    (task,) = only_tasks([first])
    assert (task.question, task.answer) == ("What is it?", "A dog.")
    assert all(isinstance(item, RowProblem) and item.field == "conversations" for item in (second, third))


def test_verl_parquet(tmp_path: Path) -> None:
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "<image>What colour?"}]
    row = {
        "data_source": "vstar",
        "prompt": prompt,
        "images": [{"bytes": png(), "path": None}],
        "reward_model": {"style": "model", "ground_truth": "red"},
    }
    rows = [
        {**row, "extra_info": {"index": "4", "question": "Colour?"}},
        {**row, "extra_info": {"index": "5", "question": ""}},
    ]
    write_parquet(tmp_path / "train.parquet", rows)
    card = card_of(loader={"id": "verl@1", "files": "train.parquet"}, fields={"images": "images"})
    first, second = only_tasks(read(card, tmp_path, tmp_path / "store"))
    assert (first.id, first.question, first.answer) == ("made-up@1/vstar-4", "Colour?", "red")
    assert second.question == "What colour?"


def test_vsi_bench_numbers_and_choices_over_videos(tmp_path: Path) -> None:
    pytest.importorskip("av")
    rows = [
        {"id": 0, "question_type": "object_counting", "ground_truth": "4", "options": None},
        {"id": 1, "question_type": "object_rel_distance", "ground_truth": "B", "options": ["A. chair", "B. table"]},
    ]
    common = {"dataset": "arkitscenes", "scene_name": "41069025", "question": "How far?"}
    write_jsonl(tmp_path / "test.jsonl", [{**row, **common} for row in rows])
    clip = tmp_path / "arkitscenes/41069025.mp4"
    clip.parent.mkdir()
    clip.write_bytes(h264())
    number, choice = only_tasks(read("vsi-bench", tmp_path, tmp_path / "store"))
    assert (number.answer_type, number.answer) == (AnswerType.NUMBER, "4")
    assert (choice.choices, choice.answer) == (("chair", "table"), "table")
    assert isinstance(number.media[0].part, VideoPart)


def test_mathverse_vision_only_asks_what_the_picture_asks(tmp_path: Path) -> None:
    ask = "According to the question shown in the image, please directly answer"
    rows = [
        ("1", "multi-choice", "", f"{ask} and provide the correct option letter.", "D"),
        ("2", "free-form", "", f"{ask} and provide the final value.", "12"),
        ("3", "multi-choice", "", f"{ask} and provide the correct option letter.", "Z"),
    ]
    row = {"problem_index": "1", "problem_version": "Vision Only", "question_for_eval": "In the figure, AB = 3. ..."}
    write_json(
        tmp_path / "testmini.json",
        [
            {
                **row,
                "sample_index": i,
                "question_type": kind,
                "question": q,
                "query_wo": wo,
                "answer": a,
                "image": "x.png",
            }
            for i, kind, q, wo, a in rows
        ],
    )
    write_png(tmp_path / "x.png")
    choice, free, broken = read("mathverse", tmp_path, tmp_path / "store")
    assert isinstance(choice, Task)
    assert isinstance(free, Task)
    assert (choice.choices, choice.answer, choice.answer_type) == (("A", "B", "C", "D"), "D", AnswerType.CHOICE)
    assert choice.question == rows[0][3]
    assert "AB = 3" not in choice.question, "its text stands in the picture"
    assert (free.choices, free.answer, "variant=Vision Only" in free.tags) == ((), "12", True)
    assert isinstance(broken, RowProblem)
