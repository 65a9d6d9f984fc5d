"""Boxes and points in the forms of model families, as their cards and public transcripts show them."""

from __future__ import annotations

import pytest
from tests.grading.rows import rows

from saccade.errors import GradingError
from saccade.grading.registry import load_grader
from saccade.record.content import ImagePart
from saccade.record.task import AnswerType, EvidenceBox, NamedMedia, Task

PICTURE = NamedMedia(
    name="image_0", part=ImagePart(sha256="0" * 64, width=500, height=400, mode="RGB", mime="image/png")
)
GOLD = "[50, 40, 250, 200]"
TWO = "[[50, 40, 250, 200], [300, 40, 400, 200]]"


def credit(
    grader: str, answer: str | None, gold: str | None = GOLD, media: tuple[NamedMedia, ...] = (PICTURE,)
) -> float:
    task = Task(id="t", question="Where?", answer=gold, media=media, answer_type=AnswerType.BOX)
    return load_grader(grader).grade(answer, task).correct


@rows(
    ("grader", "answer"),
    [
        ("box", '{"bbox_2d": [50, 40, 250, 200], "label": "cup"}'),
        ("box", '```json\n[\n\t{"bbox_2d": [50, 40, 250, 200], "label": "no entry sign"}\n]\n```'),
        ("box", 'The cup is here:\n```json\n[{"bbox_2d": [50, 40, 250, 200], "label": "2 cups"}]\n```\nIt is red.'),
        ("box", "{'bbox': [50, 40, 250, 200]}"),
        ("box", "<|object_ref_start|>cup<|object_ref_end|><|box_start|>(50,40),(250,200)<|box_end|><|im_end|>"),
        ("box", "<ref>cup</ref><box>[[50, 40, 250, 200]]</box>"),
        ("box", "<|ref|>cup<|/ref|><|det|>[[50, 40, 250, 200]]<|/det|>"),
        ("box", "<box>(50,40),(250,200)</box>"),
        ("box", "<think>[0, 0, 9, 9]?</think><answer><|begin_of_box|>[[50,40,250,200]]<|end_of_box|></answer>"),
        ("box", "[[50, 40, 250, 200]]"),
        ("box", "(50, 40), (250, 200)"),
        ("box", "x1=50, y1=40, x2=250, y2=200"),
        ("box", "xmin: 50, ymin: 40, xmax: 250, ymax: 200"),
        ("box", '{"x1": 50, "y1": 40, "x2": 250, "y2": 200}'),
        ("box", '{"left": 50, "top": 40, "right": 250, "bottom": 200}'),
        ("box", '{"ymin": 40, "xmin": 50, "ymax": 200, "xmax": 250}'),
        ("box", '{"x": 50, "y": 40, "width": 200, "height": 160}'),
        ("box", '<box x1="50" y1="40" x2="250" y2="200"/>'),
        ("box", "\\boxed{[50, 40, 250, 200]}"),
        ("box", "It is at [50, 40, 250, 200]."),
        ("box", '[{"bbox_2d": [50, 40, 250, 200]}, {"bbox_2d": [50, 40, 250, 200]}]'),
        ("box", "<loc0102><loc0102><loc0512><loc0512> cup"),
        ("box", "cup<loc_100><loc_100><loc_500><loc_500>"),
        ("box:order=yxyx,scale=1000", '[{"box_2d": [100, 100, 500, 500], "label": "cup"}]'),
        ("box:order=yxyx", "[40, 50, 200, 250]"),
        ("box:order=xywh", "[50, 40, 200, 160]"),
        ("box:scale=1000", '{"bbox_2d": [100, 100, 500, 500]}'),
        ("box:scale=1", "[0.1, 0.1, 0.5, 0.5]"),
        ("point", "(150, 100)"),
        ("point", '{"point_2d": [150, 100], "label": "cup"}'),
        ("point", "x=150, y=100"),
        ("point", "<|box_start|>(150,100)<|box_end|>"),
        ("point:scale=100", '<point x="30.5" y="25" alt="cup">cup</point>'),
        ("point:scale=1000,order=yx", '[{"point": [250, 300], "label": "cup"}]'),
    ],
)
def test_a_right_answer_in_the_form_of_a_family(grader: str, answer: str) -> None:
    assert credit(grader, answer) == 1


@rows(
    ("grader", "answer"),
    [
        ("box", None),
        ("box", "there is no cup"),
        ("box", "not [50, 40, 250, 200]"),
        ("box", "[100, 100, 500, 500]"),  # of 1000, and nobody said so
        ("box", "[0.1, 0.1, 0.5, 0.5]"),
        ("box", '{"box_2d": [100, 100, 500, 500]}'),  # Gemini's, and nobody said so
        ("box:scale=1", "[100, 100, 500, 500]"),
        ("box:scale=1000", "[100, 100, 500, 1500]"),
        ("box", '{"bbox_2d": [50, 40, 250]}'),
        ("box", '{"bbox_2d": [250, 200, 50, 40]}'),
        ("box", '- {"bbox_2d": [0, 0, 9, 9], "label": "cup"},\n- {"bbox_2d": [50, 40, 250, 200], "label": "a cup"}'),
        ("box", "<box>[[0, 0, 9, 9]]</box> or <box>[[50, 40, 250, 200]]</box>"),
        ("box", "<answer>[0, 0, 9, 9]</answer><answer>[50, 40, 250, 200]</answer>"),
        ("box", '{"bbox_2d": [50, 40, 250, 200]} Answer: [0, 0, 9, 9]'),
        ("box", "<loc0102><loc0102><loc0512>"),
        ("box", "<loc0512><loc0512><loc0900><loc0900>"),
        ("box", " ".join(f"<box>{n},{n},{n + 9},{n + 9}</box>" for n in range(100))),
        ("point", "(10, 10)"),
        ("point", "[50, 40, 250, 200]"),
        ("point", "(150, 100) and (10, 10)"),
        ("point", '<point x="30.5" y="25">cup</point>'),
        ("point", "not (150, 100)"),
    ],
)
def test_another_place_or_none(grader: str, answer: str | None) -> None:
    assert credit(grader, answer) == 0


@rows(
    ("grader", "answer", "expected"),
    [
        ("box", '[{"bbox_2d": [300, 40, 400, 200]}, {"bbox_2d": [50, 40, 250, 200]}]', 1),
        ("box", TWO, 1),
        ("box", GOLD, 0),
        ("box", "[[50, 40, 250, 200], [300, 40, 400, 200], [0, 0, 5, 5]]", 0),
        ("box", "[[50, 40, 250, 200], [51, 40, 250, 200]]", 0),
        ("iou", GOLD, 0.5),
        ("iou", "[[50, 40, 250, 200], [300, 40, 400, 120]]", 0.75),
        ("point:scale=100", '<points x1="30" y1="25" x2="70" y2="25" alt="cups">cups</points>', 1),
        ("point", '[{"point_2d": [150, 100]}, {"point_2d": [160, 100]}]', 0),
        ("point", "(150, 100)", 0),
    ],
)
def test_several_boxes_are_matched_one_to_one(grader: str, answer: str, expected: float) -> None:
    assert credit(grader, answer, TWO) == pytest.approx(expected)


def test_relative_coordinates_need_a_picture() -> None:
    with pytest.raises(GradingError, match="has no picture"):
        credit("box:scale=1000", "[1, 2, 3, 4]", media=())
    assert credit("box", "<loc0102><loc0102><loc0512><loc0512>", media=()) == 0


def test_the_first_evidence_is_the_gold_box_where_there_is_no_answer() -> None:
    box = EvidenceBox(image="image_0", xyxy=(50, 40, 250, 200))
    task = Task(id="t", question="Where?", media=(PICTURE,), evidence=(box,), answer_type=AnswerType.BOX)
    assert load_grader("box").grade("[50, 40, 250, 200]", task).accepted
