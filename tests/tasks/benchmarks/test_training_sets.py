"""The papers' training data in their published forms, with what is awkward in them; rows made by hand."""

from __future__ import annotations

import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.media.clips import h264
from tests.tasks.benchmarks.cases import (
    base64_png,
    only_tasks,
    place_of,
    png,
    read,
    write_json,
    write_jsonl,
    write_parquet,
    write_png,
)
from tests.tasks.benchmarks.test_vista_sources import tasks_of

from saccade.record.content import ImagePart, VideoPart
from saccade.record.task import AnswerType, Task
from saccade.tasks.benchmarks.loaders.training_rows import final_answer
from saccade.tasks.benchmarks.row_files import RowProblem

GLOVE = "What is the glove made of?\n(A) rubber\n(B) cotton\nAnswer with the letter of the option."
TEMPLATE = (
    "Look again.\n\n*image resolution:*\n\nImage Width: 12\n\n*user question:*\nAnswer the following in "
    "\\boxed{}\n\nHow many?\n\nRemember to place the final answer last:\n<answer>\n\\boxed{'it'}\n</answer>"
)


def encoded(mode: str, kind: str) -> bytes:
    file = BytesIO()
    Image.new("RGB", (12, 9), "red").convert(mode).save(file, kind)
    return file.getvalue()


def ready(kind: str, path: str, **more: Any) -> dict[str, Any]:
    """A row as PyVision-RL's loader takes it."""
    row = {
        "prompt": [{"content": "<image>\n" + TEMPLATE, "role": "user"}],
        "data_source": "deepeyes",
        "ability": "visual_search",
        "env_name": "pyvision_gym_w_image_hint",
        "reward_model": {"ground_truth": "3", "style": "model"},
        "extra_info": {"answer": "3", "index": 17, "question": "How many?", "split": "train"},
        "mm_hint": {"hint_path": path, "hint_type": kind},
    }
    return {**row, **more}


def test_pyvision_image_rl_in_both_forms(tmp_path: Path) -> None:
    write_png(tmp_path / "images/1.png")
    raw = {"id": "0", "question": GLOVE, "answer": "A", "ability": "visual_search", "data_source": "vstar"}
    rows = [
        ready("image", "/mnt/data/images/1.png"),
        ready("image", "images/1.png", extra_info={"index": 18, "answer": "3"}),
        {**raw, "image_path": "/path/to/images/1.png"},
    ]
    write_json(tmp_path / "pyvision_image_rl_data.json", rows)
    first, asked, choice = tasks_of("pyvision-image-rl", tmp_path, tmp_path)
    assert (first.id, first.question, first.answer) == ("pyvision-image-rl@1/deepeyes-17", "How many?", "3")
    assert asked.question == "How many?", "of a row that has it in its prompt alone"
    assert (choice.question, choice.choices) == ("What is the glove made of?", ("rubber", "cotton"))
    assert choice.answer == "rubber"
    assert "data_source=vstar" in choice.tags


def test_pyvision_rows_whose_media_are_not_there_have_their_numbers(tmp_path: Path) -> None:
    write_png(tmp_path / "images/1.png")
    rows = [ready("image", "images/1.png"), ready("image", "images/2.png", extra_info={"index": 1}), ready("image", "")]
    write_json(tmp_path / "pyvision_image_rl_data.json", rows)
    _, second, third = read("pyvision-image-rl", tmp_path, tmp_path / "store")
    assert isinstance(second, RowProblem)
    assert isinstance(third, RowProblem)
    assert str(second).startswith("pyvision_image_rl_data.json, row 2, images: there is no file")
    assert (third.row, third.field) == (2, "images")


def test_pyvision_video_rl_choices_and_numbers(tmp_path: Path) -> None:
    pytest.importorskip("av")
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos/scene.mp4").write_bytes(h264())
    number = ready("video", "/mnt/scannet/scene.mp4", data_source="vsi_numerical", prompt=[])
    raw = {"id": "1", "question": "Where?\nA. left\nB. right", "answer": "B", "data_source": "vsi", "ability": "video"}
    write_json(tmp_path / "pyvision_video_rl_data.json", [number, {**raw, "video_path": "videos/scene.mp4"}])
    first, second = tasks_of("pyvision-video-rl", tmp_path, tmp_path)
    assert isinstance(first.media[0].part, VideoPart)
    assert (first.answer_type, second.answer) == (AnswerType.NUMBER, "right")


def test_pyvision_sft_rows_as_tasks(tmp_path: Path) -> None:
    prompt = "<image_clue_0><image></image_clue_0>\n\n" + TEMPLATE.replace("How many?", "Which?\nA. one\nB. two")
    turns = [
        {"content": prompt},
        {"content": "<code>\n```python\nplt.show()\n```\n</code>"},
        {"content": "<interpreter>\nImage Result:\n<image_clue_1><image></image_clue_1></interpreter>\n"},
        {"content": "So.\n<answer>\n\\boxed{B}\n</answer>"},
    ]
    row = {"conversations": turns, "images": ["images/a/1.png", "images/a/2.png"], "source_dataset": "mmpr"}
    two = prompt.replace("\n\nLook", "\n<image_clue_1><image></image_clue_1>\n\nLook", 1)
    unmarked = [{"content": "<image>\nHow many?"}, {"content": "<answer>3</answer>"}]
    rows = [
        row,
        {**row, "conversations": [{"content": two}, *turns[1:]]},
        {**row, "conversations": unmarked},
        {**row, "conversations": turns[:3]},
        {**row, "conversations": []},
    ]
    write_json(tmp_path / "pyvision_image_sft_data.json", rows)
    for name, colour in (("1", "red"), ("2", "blue")):
        write_png(tmp_path / f"images/a/{name}.png", colour)
    first, second, *broken = read("pyvision-image-sft", tmp_path, tmp_path / "store")
    one, more = only_tasks([first, second])
    assert (one.question, one.choices, one.answer) == ("Which?", ("one", "two"), "two")
    assert (len(one.media), len(more.media)) == (1, 2), "pictures that code made are no part of the question"
    fields = [(item.row, item.field) for item in broken if isinstance(item, RowProblem)]
    assert fields == [(2, "question"), (3, "answer"), (4, "conversations")]


def test_deepeyes_parts_and_pictures_of_all_modes(tmp_path: Path) -> None:
    pictures = [encoded("P", "PNG"), encoded("CMYK", "JPEG"), encoded("LA", "PNG"), encoded("I;16", "PNG")]
    row = {
        "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "<image>\nWhat colour?"}],
        "env_name": "visual_toolbox_v2",
        "ability": "vl_agent",
        "reward_model": {"ground_truth": "red", "style": "model"},
    }
    rows = [
        {
            **row,
            "data_source": "vstar",
            "images": [{"bytes": data, "path": None}],
            "extra_info": {"answer": "red", "index": str(number), "question": "What colour?", "split": "train"},
        }
        for number, data in enumerate(pictures)
    ]
    write_parquet(tmp_path / "data_0.1.2_visual_toolbox_v2.parquet", rows)
    think = {**rows[0], "data_source": "thinklite_eureka", "images": [{"bytes": png(), "path": None}] * 2}
    write_parquet(tmp_path / "data_thinklite_reasoning_acc.parquet", [think])
    tasks = tasks_of("deepeyes-47k", tmp_path, tmp_path)
    assert len(tasks) == 5
    assert len(tasks_of("vstar-train", tmp_path, tmp_path)) == 4
    (math,) = tasks_of("deepeyes-thinklite", tmp_path, tmp_path)
    assert len(math.media) == 2
    parts = [task.media[0].part for task in tasks]
    assert all(isinstance(part, ImagePart) and (part.width, part.height) == (12, 9) for part in parts)


THYME_QUESTION = (
    '<image>\nWhat colour?\n\n### User Image Path:** "1.png"\n### User Image Size:** "12x9"\n\n'
    "### **Output Format (strict adherence required):**\n\n<think>...</think>\n<answer>...</answer>\n"
)
RESPONSE = (
    "<think>I cut.\n<code>\nprint(1)\n</code><sandbox_output><image></sandbox_output>Red.</think>\n<answer>red</answer>"
)


def test_thyme_sft_in_base64_and_with_paths(tmp_path: Path) -> None:
    row = {"question": THYME_QUESTION, "response": RESPONSE}
    write_png(tmp_path / "own/images/1.png")
    write_png(tmp_path / "own/images/cut.png", "blue")
    computed = {"question": "2 + 3?", "response": "<think>5</think>\n<answer>5</answer>", "image": []}
    write_jsonl(tmp_path / "own/thyme.jsonl", [{**row, "image": ["images/1.png", "images/cut.png"]}, computed])
    raw = [{**row, "image": [base64_png(), base64_png("blue")]}, {**row, "image": [base64_png()], "response": "hm"}]
    write_parquet(tmp_path / "hub/data/2round-00000-of-00001.parquet", raw)
    write_parquet(tmp_path / "hub/data/wo_thinking_thyme_single_round-0.parquet", raw[:1])
    first, second = tasks_of("thyme-sft", tmp_path / "own", tmp_path)
    assert (first.question, first.answer, len(first.media)) == ("What colour?", "red", 1)
    assert (second.answer, second.media) == ("5", ())
    assert len(tasks_of("thyme-sft:single-round", tmp_path / "hub", tmp_path)) == 1
    good, bad = read("thyme-sft:2round", tmp_path / "hub", tmp_path / "store")
    assert only_tasks([good])[0].media == first.media
    assert place_of(bad) == (1, "answer")


def test_thyme_rl_rows(tmp_path: Path) -> None:
    said = [{"role": "system", "content": "s"}, {"role": "user", "content": THYME_QUESTION}]
    row = {"messages": said, "images": ["images/1.png"], "solution": "B", "question": THYME_QUESTION}
    options = {**row, "question": "Which?\nA. red\nB. blue"}
    write_jsonl(tmp_path / "thyme_rl.jsonl", [{**row, "solution": "red"}, options, {**row, "images": []}])
    write_png(tmp_path / "images/1.png")
    first, second, third = read("thyme-rl", tmp_path, tmp_path / "store")
    plain, choice = only_tasks([first, second])
    assert (plain.question, plain.answer, choice.answer) == ("What colour?", "red", "blue")
    assert place_of(third) == (2, "images")


def test_thinklite_with_and_without_choices(tmp_path: Path) -> None:
    row = {"image": {"bytes": png(), "path": None}, "id": "a", "problem": "<image>Which?", "ground_truth": "B"}
    rows = [
        {**row, "choices": ["cat", "dog"], "answer": "B"},
        {**row, "id": "b", "choices": [], "answer": "12"},
        {**row, "id": "c", "choices": ["cat", ""], "answer": "B"},
    ]
    write_parquet(tmp_path / "ThinkLite-VL-70k.parquet", rows)
    first, second, third = read("thinklite-vl", tmp_path, tmp_path / "store")
    choice, free = only_tasks([first, second])
    assert (choice.question, choice.answer, free.answer) == ("Which?", "dog", "12")
    assert place_of(third) == (2, "answer"), "an empty option is none"
    write_parquet(tmp_path / "ThinkLite-VL-11k.parquet", rows[:1])
    assert len(tasks_of("thinklite-vl:11k", tmp_path, tmp_path)) == 1


def test_mmk12_free_and_with_options_in_the_question(tmp_path: Path) -> None:
    row = {"id": "1", "image": {"bytes": png(), "path": None}, "subject": "math"}
    write_parquet(tmp_path / "data/train-0.parquet", [{**row, "question": "<image>Find x.", "answer": "\\frac{1}{2}"}])
    options = "Which?\nA. one\nB. two\nC. three\nD. four"
    write_parquet(tmp_path / "data/test-0.parquet", [{**row, "question": options, "answer": "C"}])
    (free,) = tasks_of("mmk12", tmp_path, tmp_path)
    (choice,) = tasks_of("mmk12:test", tmp_path, tmp_path)
    assert (free.answer, choice.answer, choice.split) == ("\\frac{1}{2}", "three", "test")


def test_pixmo_count_train(tmp_path: Path) -> None:
    row = {"image_url": "https://example.org/1.jpg", "image_sha256": "ab12", "count": 4, "label": "boats"}
    write_parquet(tmp_path / "data/train-0.parquet", [row, {**row, "image_sha256": "gone"}])
    write_png(tmp_path / "images/ab12.jpg")
    first, second = read("pixmo-count:train", tmp_path, tmp_path / "store")
    assert only_tasks([first])[0].question == "How many boats are there in the image?"
    assert place_of(second) == (1, "images")


def test_spacer_and_longvila(tmp_path: Path) -> None:
    pytest.importorskip("av")
    for place in ("s/videos", "l/longvila_videos"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "v.mp4").write_bytes(h264())
    row = {"data_type": "video", "path": "./videos/v.mp4", "data_source": "SR"}
    rows = [
        {
            **row,
            "problem_id": 1,
            "problem": "Where?",
            "options": ["A. left", "B. right"],
            "solution": "<answer>B</answer>",
        },
        {**row, "problem_id": 2, "problem": "How far?", "options": [], "solution": "<answer>2.5</answer>"},
        {**row, "problem_id": 3, "problem": "Where?", "options": [], "solution": "", "path": "gone.mp4"},
    ]
    rows[1]["problem_type"] = "regression"
    write_jsonl(tmp_path / "s/SpaceR-151k.jsonl", rows)
    first, second, third = read("spacer", tmp_path / "s", tmp_path / "store")
    choice, number = only_tasks([first, second])
    assert (choice.choices, choice.answer) == (("left", "right"), "right")
    assert (number.answer, number.answer_type) == ("2.5", AnswerType.NUMBER)
    assert isinstance(third, RowProblem)
    long = {
        "problem_id": 0,
        "problem": "Why?\nA. to rest\nB. to play\nC. to eat",
        "problem_type": "goal",
        "reasoning": "It runs.",
        "videos": "longvila_videos/v.mp4",
        "answer": "<answer>B</answer>",
    }
    write_jsonl(tmp_path / "l/train.jsonl", [long])
    (task,) = tasks_of("longvila", tmp_path / "l", tmp_path)
    assert (task.question, task.answer, task.tags) == ("Why?", "to play", ("type=goal",))


def test_mmpr_pairs_and_prompts(tmp_path: Path) -> None:
    asked = "<image>\nYour task is to answer the question below. Give step by step reasoning.\n\nQuestion:\n\nFind x."
    row = {"image": "images/geo/1.png", "question": asked, "rejected": "Final answer: 4"}
    rows = [
        {**row, "chosen": "It is five.\n\nFinal answer: 5"},
        {**row, "chosen": "A nice picture."},
        {**row, "image": ["images/geo/1.png", "images/geo/2.png"], "question": "Compare.", "answer": "A cat"},
    ]
    write_jsonl(tmp_path / "annotations/geoqa+_en_extracted.jsonl", rows)
    write_png(tmp_path / "images/geo/1.png")
    write_png(tmp_path / "images/geo/2.png", "blue")
    first, second, third = read("mmpr", tmp_path, tmp_path / "store")
    one, two = only_tasks([first, third])
    assert (one.question, one.answer) == ("Find x.", "5")
    assert (two.answer, len(two.media)) == ("A cat", 2)
    assert place_of(second) == (1, "answer")


def test_geoqa_plus_of_internvl_and_of_r1v(tmp_path: Path) -> None:
    asked = "<image>\n如图,则∠A等于()\nChoices:\n(A) 30°\n(B) 40°"
    turns = [{"from": "human", "value": asked}, {"from": "gpt", "value": "解:∠A=40°。\n答案:B"}]
    write_jsonl(tmp_path / "i/geoqa+.jsonl", [{"id": 0, "image": "images/1.png", "conversations": turns}])
    write_png(tmp_path / "i/data/geoqa+/images/1.png")
    (task,) = tasks_of("geoqa-plus", tmp_path / "i", tmp_path)
    assert (task.choices, task.answer) == (("30°", "40°"), "40°")
    row = {"image": {"bytes": png(), "path": None}, "problem": "Find CE.", "solution": "<answer> 4\\sqrt{3} </answer>"}
    write_parquet(tmp_path / "r/data/train-0.parquet", [row])
    (free,) = tasks_of("geoqa-plus", tmp_path / "r", tmp_path)
    assert free.answer == "4\\sqrt{3}"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>\\boxed{\\frac{1}{2}}</answer>", "\\frac{1}{2}"),
        ("first <answer>1</answer> then <answer>2</answer>", "2"),
        ("\\boxed{a{b{c}}}", "a{b{c}}"),
        ("**Final answer: 7.**", "7"),
        ("The correct answer is: B.", "B"),
        ("所以答案为：C。", "C"),
        ("I do not know.", None),
        ("<answer> </answer>", None),
    ],
)
def test_final_answers(text: str, answer: str | None) -> None:
    assert final_answer(text) == answer


def test_base64_of_a_file_that_is_no_picture_is_a_broken_row(tmp_path: Path) -> None:
    noise = base64.b64encode(b"no picture at all" * 9).decode()
    row = {"question": THYME_QUESTION, "response": RESPONSE, "image": [noise]}
    write_jsonl(tmp_path / "thyme.jsonl", [row])
    (problem,) = read("thyme-sft", tmp_path, tmp_path / "store")
    assert place_of(problem) == (0, "images")


def test_llava_cot_answers_in_the_conclusion(tmp_path: Path) -> None:
    def row(reply: str, question: str = "<image>\nWhat is it?") -> dict[str, Any]:
        turns = [{"from": "human", "value": question}, {"from": "gpt", "value": reply}]
        return {"id": reply[:3] + question[-3:], "image": "chartqa/a.png", "conversations": turns}

    write_png(tmp_path / "images/chartqa/a.png")
    said = "<SUMMARY>s</SUMMARY><REASONING>r</REASONING>"
    choices = "Which?\nA. red\nB. blue\nAnswer with the option's letter."
    rows = [row(f"1{said}<CONCLUSION> A cat. </CONCLUSION>"), row(f"2{said}<CONCLUSION>B</CONCLUSION>", choices)]
    rows += [row(f"3{said}<CONCLUSION>The answer is B.</CONCLUSION>", choices), row(f"4{said}")]
    write_jsonl(tmp_path / "train.jsonl", rows)
    free, letter, words, broken = read("llava-cot", tmp_path, tmp_path / "store")
    assert isinstance(free, Task)
    assert isinstance(letter, Task)
    assert isinstance(words, Task)
    assert (free.question, free.answer) == ("What is it?", "A cat.")
    assert (letter.choices, letter.answer, words.answer) == (("red", "blue"), "blue", "blue")
    assert isinstance(broken, RowProblem)
    assert "no part CONCLUSION" in str(broken)


def test_codedance_rl_as_the_hub_lists_its_fields(tmp_path: Path) -> None:
    tools = {"execute_python_code": {"create_kwargs": {"image": {"bytes": png(), "path": None}}}}
    points = {"label": "cup", "point": {"x": [1.0, 2.5], "y": [3.0, 4.0]}}
    extra = {"answer": "A", "index": 3, "question": GLOVE, "split": "train", "need_tools_kwargs": True}
    row = {
        "data_source": "sa1b",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "<image>\nHow many cups?"}],
        "images": [png(), png("blue")],
        "ability": "vqa",
        "reward_model": {"ground_truth": "A", "style": "rule"},
        "extra_info": extra | {"detected_objects": points, "tools_kwargs": tools},
    }
    bare = extra | {"question": None, "index": 4, "answer": None, "detected_objects": None, "tools_kwargs": None}
    count = row | {"extra_info": bare, "reward_model": {"ground_truth": "2", "style": "rule"}, "images": [png()]}
    lost = count | {"reward_model": {"ground_truth": None, "style": "rule"}, "extra_info": bare | {"index": 5}}
    write_parquet(tmp_path / "data/train-00000-of-00002.parquet", [row, count])
    first, second = tasks_of("codedance-rl", tmp_path, tmp_path)
    assert (first.id, first.answer, len(first.media)) == ("codedance-rl@1/sa1b-3", "rubber", 2)
    assert (second.question, second.answer) == ("How many cups?", "2"), "in the messages, where it is nowhere else"
    write_parquet(tmp_path / "data/train-00001-of-00002.parquet", [lost])
    *_, broken = read("codedance-rl", tmp_path, tmp_path / "store")
    assert place_of(broken)[1] == "answer"


def test_codedance_sft_questions_and_final_answers(tmp_path: Path) -> None:
    def row(*turns: str, images: int = 1, **more: Any) -> dict[str, Any]:
        roles = ["system", *["user", "assistant"] * 4]
        messages = [{"role": role, "content": text} for role, text in zip(roles, ["Think.", *turns], strict=False)]
        return {"messages": messages, "images": [png("red", (12 + n, 9)) for n in range(images)], **more}

    code = "<think>I cut.</think>\n```python\nprint(1)\n```"
    rows = [
        row("<image>\nHow many?", code, "<image>\nHere.", "So.\n<answer>\\boxed{3}</answer>", images=2),
        row("<image><image>\nWhich?\n(A) one\n(B) two", "<answer>B</answer>", images=2),
        row("<image>\nHow many?", code),
        row("<image>\nHow many?", "The answer is near, I look again.\n" + code),
    ]
    write_parquet(tmp_path / "data/train-00000-of-00009.parquet", rows)
    first, choice = tasks_of("codedance-sft", tmp_path, tmp_path)
    assert (first.question, first.answer, len(first.media)) == ("How many?", "3", 1), "no picture that code made"
    assert (choice.choices, choice.answer, len(choice.media)) == (("one", "two"), "two", 2)


def coldstart(*turns: str, images: int = 1, source: str = "visual_probe") -> dict[str, Any]:
    """A row of Mini-o3-Coldstart: the dialogue is a text, JSON or as Python writes it."""
    said = [{"from": "system", "value": "You look."}]
    said += [{"from": ("human", "gpt")[n % 2], "value": text} for n, text in enumerate(turns)]
    cells = [{"bytes": png("red", (12 + n, 9)), "path": None} for n in range(images)]
    names = ["original_image.jpg", *(f"observation_{n}.jpg" for n in range(1, images))]
    return {
        "data_source": source,
        "sample_index": 7,
        "rollout_index": 0,
        "image_names": names,
        "images": cells,
        "conversations": json.dumps(said) if images % 2 else repr(said),
    }


def test_mini_o3_coldstart_rows_that_end_in_an_answer(tmp_path: Path) -> None:
    asked = "<image>\nQuestion: What is on the sign?"
    look = '<think>The answer is small.</think><grounding>{"bbox_2d": [0.1, 0.2, 0.3, 0.4]}</grounding>'
    seen = "After the above Action 1, here is the zoom-in image (Observation 1):\n<image>.\nContinue."
    rows = [
        coldstart(asked, look),  # a row for each turn: this one ends before the answer
        coldstart(asked, look, seen, "<think>I read.</think><answer>STOP</answer>", images=2),
        coldstart(f"{asked}\n(A) go\n(B) stop", "<answer>B</answer>", source="deepeyes_chart"),
        coldstart(asked, look, seen, images=2),
    ]
    write_parquet(tmp_path / "data/train-00000-of-00005.parquet", rows)
    first, second = tasks_of("mini-o3-coldstart", tmp_path, tmp_path)
    assert (first.question, first.answer, len(first.media)) == ("What is on the sign?", "STOP", 1)
    assert (second.choices, second.answer) == (("go", "stop"), "stop")
    assert "data_source=deepeyes_chart" in second.tags


@pytest.mark.parametrize(
    "value", ["no list", "[]", "[1, 2]", '[{"from": "gpt", "value": "x"}]', None, '[{"from": "human"}]']
)
def test_dialogues_that_cannot_be_read_are_problems(tmp_path: Path, value: str | None) -> None:
    rows = [coldstart("<image>\nWhat?", "<answer>x</answer>"), coldstart("a", "b") | {"conversations": value}]
    write_parquet(tmp_path / "data/train-00000-of-00005.parquet", rows)
    first, broken = read("mini-o3-coldstart", tmp_path, tmp_path / "store")
    assert isinstance(first, Task)
    assert place_of(broken)[1] == "conversations"


def test_v_thinkers_two_sets(tmp_path: Path) -> None:
    cell, code = {"bytes": png(), "path": None}, "import matplotlib"
    row = {"id": "1", "question": "What is AB?", "image": cell, "original_img_code": code, "edited_image": cell}
    row |= {"tool_code": code, "CoT_with_code": "<code>", "answer": "\\frac{1}{2}"}
    rows = [row, row | {"question": "Which?\nA. 1\nB. 2", "answer": "B", "edited_image": None}, row | {"answer": None}]
    write_parquet(tmp_path / "data/train_part1-00000-of-00002.parquet", rows)
    write_parquet(tmp_path / "data/train_part10-00000-of-00002.parquet", [row])
    first, choice, broken, other = read("v-interaction", tmp_path, tmp_path / "store")
    assert isinstance(broken, RowProblem)
    (math, letter, again) = only_tasks([first, choice, other])
    assert (math.answer, letter.choices, letter.answer, len(math.media)) == ("\\frac{1}{2}", ("1", "2"), "2", 1)
    assert math.id != again.id, "parts may count from the same id"
    point = {"id": "p", "image": cell, "question": "Where is A?", "answer": "(1, 2)", "python_code": code}
    write_parquet(tmp_path / "data/v_perception_40k-0.parquet", [point | {"element_arrtibute": ["A", "B"]}])
    (task,) = tasks_of("v-perception", tmp_path, tmp_path)
    assert (task.question, task.answer) == ("Where is A?", "(1, 2)")


@pytest.mark.parametrize("name", ["visualprobe-train", "deepeyes-4k"])
def test_mini_o3_training_rows(name: str, tmp_path: Path) -> None:
    write_png(tmp_path / "data/sa_1.jpg")
    row = {
        "problem": "<image>\nWhat is on the sign?",
        "images": ["VisualProbe_train/data/sa_1.jpg"],
        "solution": "stop",
    }
    rows = [
        row,
        row | {"problem": "<image>Which?\n(A) go\n(B) stop", "solution": "B", "images": ["sa_1.jpg"]},
        row | {"images": []},
        row | {"solution": ""},
    ]
    write_json(tmp_path / "train.json", rows)
    first, choice, *broken = read(name, tmp_path, tmp_path / "store")
    one, two = only_tasks([first, choice])
    assert (one.question, one.answer, two.answer) == ("What is on the sign?", "stop", "stop")
    assert [item.field for item in broken if isinstance(item, RowProblem)] == ["images", "answer"]


def test_wemath2_rows_without_question_or_answer_are_told(tmp_path: Path) -> None:
    cell = {"bytes": png(), "path": None}
    row = {"question": "Find x.\nA. 1\nB. 2", "answer": "B", "image": cell, "question_id": 1, "difficulty": "1,0,2"}
    rows = [row, row | {"question_id": 2, "question": "Find x.", "answer": "2\\pi"}]
    rows += [row | {"question_id": 3, "question": None}, row | {"question_id": 4, "answer": ""}]
    write_parquet(tmp_path / "data/pro-00000-of-00002.parquet", rows)
    choice, free, *broken = read("wemath2-pro", tmp_path, tmp_path / "store")
    one, two = only_tasks([choice, free])
    assert (one.answer, two.answer, one.tags) == ("2", "2\\pi", ("difficulty=1,0,2",))
    assert [item.field for item in broken if isinstance(item, RowProblem)] == ["question", "answer"]
    plain = {"question": "Find x.", "answer": "2", "image": cell, "knowledge points": ["circle", "area"]}
    write_parquet(tmp_path / "mathbook_standard.parquet", [plain])
    (task,) = tasks_of("wemath2-standard", tmp_path, tmp_path)
    assert task.tags == ("knowledge=circle, area",)


def test_gmai_reasoning_questions_with_options(tmp_path: Path) -> None:
    write_png(tmp_path / "images/ct/1.png")

    def row(question: str, answer: str | None, image: object = "ct/1.png") -> dict[str, Any]:
        turns = [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]
        return {"image": image, "conversations": turns}

    asked = "<image>\nWhich organ?\nA. liver\nB. lung"
    rows = [row(asked, "B"), row(asked, "lung", ["ct/1.png"]), row(asked, None), row(asked, "B", None)]
    write_jsonl(tmp_path / "reasoning_mcq_rl.jsonl", rows)
    first, second, *broken = read("gmai-reasoning", tmp_path, tmp_path / "store")
    assert [task.answer for task in only_tasks([first, second])] == ["lung", "lung"]
    assert [item.field for item in broken if isinstance(item, RowProblem)] == ["answer", "images"]


def test_pyvision_video_sft_rows_as_tasks(tmp_path: Path) -> None:
    pytest.importorskip("av")
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos/scene.mp4").write_bytes(h264())
    prompt = "<video>\n" + TEMPLATE.replace("How many?", "Which?\nA. one\nB. two")
    turns = [{"content": prompt}, {"content": "<answer>\\boxed{B}</answer>"}]
    row = {"conversations": turns, "videos": ["/data/videos/scene.mp4"], "source_dataset": "longvila"}
    write_json(tmp_path / "pyvision_video_sft_data.json", [row, row | {"videos": None}])
    first, broken = read("pyvision-video-sft", tmp_path, tmp_path / "store")
    (task,) = only_tasks([first])
    assert isinstance(task.media[0].part, VideoPart)
    assert (task.answer, task.tags) == ("two", ("source_dataset=longvila",))
    assert isinstance(broken, RowProblem)
    assert broken.field in ("videos", "media")
