"""VISTA's sets in the forms that their own sources publish; rows made by hand."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.tasks.benchmarks.cases import card_of, only_tasks, place_of, png, read, write_json, write_parquet, write_png

from saccade.errors import DataError
from saccade.grading.registry import load_grader
from saccade.media.store import MediaStore
from saccade.record.task import AnswerType, Task
from saccade.tasks.benchmarks.benchmark import open_benchmark
from saccade.tasks.benchmarks.card import Card, Fields
from saccade.tasks.benchmarks.registry import card_ids, load_card
from saccade.tasks.benchmarks.row_files import RowProblem
from saccade.tasks.sources.resolve import CardReader


def tasks_of(card: str, folder: Path, tmp: Path) -> list[Task]:
    """The tasks of a card, which a stream and a source of tasks give alike."""
    tasks = only_tasks(read(card, folder, tmp / "store"))
    source = CardReader(open_benchmark(load_card(card), folder))
    spots = list(source.scan())
    assert not [spot for spot in spots if isinstance(spot, RowProblem)]
    made = [source.make(spot[0], MediaStore(tmp / "store")) for spot in spots if not isinstance(spot, RowProblem)]
    assert [task.model_copy(update={"grader": ""}) for task in made] == tasks
    return tasks


def problems_of(card: str, folder: Path, tmp: Path) -> list[str]:
    return [str(item) for item in read(card, folder, tmp / "store") if isinstance(item, RowProblem)]


def picture(shape: tuple[int, ...] = (9, 12, 3), kind: str = "uint8") -> Any:
    return numpy.arange(numpy.prod(shape)).reshape(shape).astype(kind)


def test_figureqa(tmp_path: Path) -> None:
    row = {"question_string": "Is Red the minimum?", "image_index": 7, "question_id": 2, "color1_name": "Red"}
    rows = [{**row, "answer": 1}, {**row, "answer": 0, "question_id": 3}]
    write_json(tmp_path / "train1/qa_pairs.json", {"qa_pairs": rows, "total_distinct_questions": 15})
    write_png(tmp_path / "train1/png/7.png")
    first, second = tasks_of("vista-figureqa", tmp_path, tmp_path)
    assert (first.answer, second.answer, first.answer_type) == ("yes", "no", AnswerType.YES_NO)
    assert first.tags == ("type=2",)
    assert first.split == "train"


def test_chartqa_train_has_people_and_machines(tmp_path: Path) -> None:
    write_json(tmp_path / "train/train_human.json", [{"imgname": "1.png", "query": "How many?", "label": "14"}])
    write_json(tmp_path / "train/train_augmented.json", [{"imgname": "1.png", "query": "Who?", "label": "Ann"}])
    write_png(tmp_path / "train/png/1.png")
    tasks = tasks_of("vista-chartqa:train", tmp_path, tmp_path)
    assert [task.answer for task in tasks] == ["Ann", "14"]
    assert tasks[0].id == "vista-chartqa@1/train/train_augmented-0"
    assert open_benchmark(load_card("vista-chartqa:train"), tmp_path).card.size.taken == 1500
    write_json(tmp_path / "test/test_human.json", [{"imgname": "1.png", "query": "What?", "label": "3"}])
    write_png(tmp_path / "test/png/1.png")
    assert [task.question for task in tasks_of("vista-chartqa", tmp_path, tmp_path)] == ["What?"]


def test_geometry3k_folders_and_hub(tmp_path: Path) -> None:
    row = {"id": 0, "problem_text": "Find x.", "compact_text": "Find x", "choices": ["1", "2"], "answer": "B"}
    write_json(tmp_path / "own/train/0/data.json", {**row, "problem_type_goal": ["Length"]})
    write_png(tmp_path / "own/train/0/img_diagram.png")
    (task,) = tasks_of("vista-geometry3k:train", tmp_path / "own", tmp_path)
    assert (task.answer, task.choices, task.tags) == ("2", ("1", "2"), ("goal=Length",))
    hub = [{"images": [{"bytes": png(), "path": None}], "problem": "<image>Find x.", "answer": r"3 \sqrt { 2 }"}]
    write_parquet(tmp_path / "hub/data/train-00000-of-00001.parquet", hub)
    (free,) = tasks_of("vista-geometry3k:train", tmp_path / "hub", tmp_path)
    assert (free.question, free.answer, free.choices) == ("Find x.", r"3 \sqrt { 2 }", ())


PROBLEM = {"id": 11, "choices": ["30°", "40°"], "label": 1, "problem_type": "angle", "numbers": [80.0]}


@pytest.mark.parametrize(("name", "file"), [("geoqa", "GeoQA3/train.pk"), ("unigeo", "UniGeo/calculation_train.pk")])
def test_pickled_geometry(tmp_path: Path, name: str, file: str) -> None:
    grey = {**PROBLEM, "id": 12, "image": picture((5, 4)), "subject": "如图", "English_problem": ""}
    many = {**PROBLEM, "id": 13, "image": picture((5, 4, 1), "float64"), "subject": "如图"}
    rows = [{**PROBLEM, "image": picture(), "subject": "如图", "English_problem": "Find the angle."}, grey, many]
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_bytes(pickle.dumps(rows))
    first, second, third = tasks_of(f"vista-{name}:train", tmp_path, tmp_path)
    assert (first.question, first.answer, first.choices) == ("Find the angle.", "40°", ("30°", "40°"))
    assert (second.question, second.media[0].part.kind, third.media[0].part.kind) == ("如图", "image", "image")
    card = open_benchmark(load_card(f"vista-{name}:train"), tmp_path).card
    assert (card.size.tasks, card.size.taken) == (3499, 2000)


def test_pickled_rows_that_are_broken_have_their_numbers(tmp_path: Path) -> None:
    rows = [
        {**PROBLEM, "image": picture((2, 2, 7)), "subject": "q"},
        {**PROBLEM, "image": None, "subject": "q"},
        {**PROBLEM, "image": picture(), "subject": "q", "choices": []},
        {**PROBLEM, "image": picture(), "subject": "q", "label": 4},
        "no row",
    ]
    (tmp_path / "test.pk").write_bytes(pickle.dumps(rows))
    found = problems_of("vista-geoqa", tmp_path, tmp_path)
    assert len(found) == 5, found
    assert "row 1, images: an array (2, 2, 7)" in found[0]
    assert "row 2, images" in found[1]
    assert "row 3, choices" in found[2]
    assert "row 4, answer" in found[3]
    assert "row 5, row" in found[4]


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("should-not-be-there"),))


def test_a_pickle_calls_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.pk").write_bytes(pickle.dumps([{"image": Evil()}]))
    with pytest.raises(DataError, match="it asks for"):
        read("vista-geoqa", tmp_path, tmp_path / "store")
    assert not Path("should-not-be-there").exists()
    (tmp_path / "test.pk").write_bytes(b"nothing")
    with pytest.raises(DataError, match="is not read"):
        read("vista-geoqa", tmp_path, tmp_path / "store")


def test_mathv360k_replies_and_options(tmp_path: Path) -> None:
    hint = "<image>\nHint: Please answer the question.\nQuestion: "
    rows = [
        ("Which?\nChoices:\n(A) cat\n(B) dog", "The answer is B"),
        ("How many?", "The answer is 4."),
        ("How many?", "I see a cat"),
    ]
    data = [
        {
            "id": f"identity_{number}",
            "image": "IconQA/images/1.png",
            "conversations": [{"from": "human", "value": hint + asked}, {"from": "gpt", "value": reply}],
        }
        for number, (asked, reply) in enumerate(rows)
    ]
    write_json(tmp_path / "train_samples_all_tuning.json", data)
    write_png(tmp_path / "data_images/IconQA/images/1.png")
    first, second, third = read("vista-mathv360", tmp_path, tmp_path / "store")
    choice, number = only_tasks([first, second])
    assert (choice.choices, choice.answer, number.answer) == (("cat", "dog"), "dog", "4")
    assert choice.question.endswith("Question: Which?")
    assert place_of(third) == (2, "answer")


def test_mapqa_subsets_with_maps_of_one_name(tmp_path: Path) -> None:
    row = {"map_id": "map_3.png", "question_type": "retrieval", "question_template_id": "t1", "question_id": 5}
    for subset, colour in (("V", "red"), ("S", "blue")):
        base = tmp_path / f"MapQA_{subset}/MapQA_{subset}"
        write_png(base / "images/map_3.png", colour)
        rows = [{**row, "question": f"What in {subset}?", "answer": "Ohio"}]
        write_json(base / "questions/test-QA.json", rows)
    first, second = tasks_of("vista-mapqa", tmp_path, tmp_path)
    assert [task.id for task in (first, second)] == ["vista-mapqa@1/MapQA_S-0", "vista-mapqa@1/MapQA_V-0"]
    assert first.media[0].part != second.media[0].part, "each subset has its own map of that name"


def test_documents_have_several_right_answers(tmp_path: Path) -> None:
    about = {"dataset_name": "docvqa", "dataset_split": "train", "dataset_version": "1.0"}
    row = {"questionId": 9, "question": "Who?", "answers": ["ITC", "I.T.C."], "question_types": ["layout", "form"]}
    write_json(tmp_path / "d/train_v1.0_withQT.json", {**about, "data": [{**row, "image": "documents/a_1.png"}]})
    write_png(tmp_path / "d/spdocvqa_images/a_1.png")
    (task,) = tasks_of("vista-docvqa", tmp_path / "d", tmp_path)
    assert task.answer == '["ITC", "I.T.C."]'
    assert task.tags == ("type=layout, form",)
    write_json(
        tmp_path / "i/infographicsVQA_train_v1.0.json", {**about, "data": [{**row, "image_local_name": "7.png"}]}
    )
    write_png(tmp_path / "i/infographicsvqa_images/7.png")
    assert len(tasks_of("vista-infographicvqa", tmp_path / "i", tmp_path)) == 1


def test_vizwiz_answers_of_ten_people(tmp_path: Path) -> None:
    given = [{"answer": "basil", "answer_confidence": "yes"}, {"answer": "herb", "answer_confidence": "maybe"}]
    row = {"image": "VizWiz_train_0.png", "question": "What is it?", "answers": given, "answerable": 1}
    write_json(tmp_path / "train.json", [row, {**row, "image": "VizWiz_train_1.png"}, {**row, "image": "none.png"}])
    for number in range(2):
        write_png(tmp_path / f"train/VizWiz_train_{number}.png")
    first, second, third = read("vista-vizwiz", tmp_path, tmp_path / "store")
    assert only_tasks([first, second])[0].answer == '["basil", "herb"]'
    assert place_of(third) == (2, "images")


def test_scienceqa_of_its_authors_and_of_the_hub(tmp_path: Path) -> None:
    row = {
        "question": "Which?",
        "choices": ["a", "b"],
        "answer": 1,
        "hint": "Look.",
        "split": "train",
        "grade": "grade2",
    }
    problems = {
        "1": {**row, "image": "image.png"},
        "2": {**row, "image": None},
        "3": {**row, "image": "image.png", "split": "test"},
    }
    write_json(tmp_path / "own/problems.json", problems)
    write_png(tmp_path / "own/images/train/1/image.png")
    (task,) = tasks_of("vista-scienceqa", tmp_path / "own", tmp_path)
    assert (task.question, task.answer) == ("Look.\nWhich?", "b")
    hub = [{**row, "image": {"bytes": png(), "path": None}}, {**row, "image": None}]
    write_parquet(tmp_path / "hub/data/train-0.parquet", hub)
    seen, unseen = tasks_of("vista-scienceqa", tmp_path / "hub", tmp_path)
    assert (len(seen.media), len(unseen.media)) == (1, 0)


def test_clevr_and_clevr_math(tmp_path: Path) -> None:
    row = {"image_filename": "CLEVR_train_0.png", "question": "How many?", "question_index": 3, "answer": "2"}
    write_json(
        tmp_path / "c/CLEVR_v1.0/questions/CLEVR_train_questions.json", {"info": {"split": "train"}, "questions": [row]}
    )
    write_png(tmp_path / "c/CLEVR_v1.0/images/train/CLEVR_train_0.png")
    (task,) = tasks_of("vista-clevr", tmp_path / "c", tmp_path)
    assert (task.id, task.answer) == ("vista-clevr@1/3", "2")
    other = {"image_filename": "CLEVR_test_0.png", "question": "Subtract all. How many?", "answer": 0, "template": "x"}
    write_json(tmp_path / "m/clevr-math-test.json", {"questions": [other]})
    write_png(tmp_path / "m/images/CLEVR_test_0.png")
    (number,) = tasks_of("vista-clevr-math", tmp_path / "m", tmp_path)
    assert (number.answer, number.answer_type) == ("0", AnswerType.NUMBER)


def test_aokvqa_with_pictures_of_coco(tmp_path: Path) -> None:
    row = {"image_id": 299207, "question_id": "22jb", "question": "What is it?", "choices": ["a cab", "a bus"]}
    rows = [{**row, "correct_choice_idx": 0}, {**row, "question_id": "23", "correct_choice_idx": 7}]
    write_json(tmp_path / "aokvqa_v1p0_train.json", rows)
    write_png(tmp_path / "train2017/000000299207.jpg")
    first, second = read("vista-aokvqa", tmp_path, tmp_path / "store")
    assert only_tasks([first])[0].answer == "a cab"
    assert place_of(second)[1] == "answer"


def test_ai2d_of_its_authors_and_of_the_hub(tmp_path: Path) -> None:
    questions = {
        "What is A?": {"abcLabel": True, "answerTexts": ["ears", "nose"], "correctAnswer": 1, "questionId": "0.png-0"},
        "What is B?": {"abcLabel": True, "answerTexts": ["nose", "ears"], "correctAnswer": 1, "questionId": "0.png-1"},
    }
    for name in ("10.png", "9.png"):
        own = {q: {**about, "questionId": about["questionId"].replace("0.png", name)} for q, about in questions.items()}
        write_json(tmp_path / f"own/ai2d/questions/{name}.json", {"imageName": name, "questions": own})
        write_png(tmp_path / f"own/ai2d/images/{name}")
    tasks = tasks_of("vista-ai2d", tmp_path / "own", tmp_path)
    assert [task.id for task in tasks] == [f"vista-ai2d@1/{name}-{n}" for name in ("10.png", "9.png") for n in range(2)]
    assert (tasks[0].answer, tasks[0].tags) == ("nose", ("labels=yes",))
    hub = [{"question": "What?", "options": ["x", "y"], "answer": "1", "image": {"bytes": png(), "path": None}}]
    write_parquet(tmp_path / "hub/data/test-0.parquet", hub)
    (task,) = tasks_of("vista-ai2d", tmp_path / "hub", tmp_path)
    assert task.answer == "y"


def test_plotqa_numbers_and_words(tmp_path: Path) -> None:
    row = {"image_index": 4, "qid": "a", "question_string": "How much?", "type": "dot_line", "template": "structural"}
    rows = [{**row, "answer": 12.5, "answer_bbox": []}, {**row, "qid": "b", "answer": "Yes"}]
    write_json(tmp_path / "test/qa_pairs_V2.json", {"qa_pairs": rows})
    write_png(tmp_path / "test/png/4.png")
    tasks = tasks_of("vista-plotqa", tmp_path, tmp_path)
    assert [task.answer for task in tasks] == ["12.5", "Yes"]


ICON = {"question": "Which one?", "grade": "grade1", "label": "S2"}


def test_iconqa_choices_that_are_pictures(tmp_path: Path) -> None:
    choose = {**ICON, "ques_type": "choose_img", "choices": ["choice_0.png", "choice_1.png"], "answer": 1}
    problems = {
        "1": {**choose, "split": "test"},
        "2": {**ICON, "ques_type": "choose_txt", "choices": ["two", "three"], "answer": 0, "split": "test"},
        "3": {**ICON, "ques_type": "fill_in_blank", "answer": "5", "split": "test"},
        "4": {**choose, "split": "train"},
    }
    write_json(tmp_path / "problems.json", problems)
    for kind, key in (("choose_img", 1), ("choose_txt", 2), ("fill_in_blank", 3)):
        write_png(tmp_path / f"iconqa/test/{kind}/{key}/image.png")
    for number, colour in enumerate(("green", "blue")):
        write_png(tmp_path / f"iconqa/test/choose_img/1/choice_{number}.png", colour)
    first, second, third = tasks_of("vista-iconqa", tmp_path, tmp_path)
    assert (first.choices, first.answer) == (("<image 2>", "<image 3>"), "<image 3>")
    assert len({item.part for item in first.media}) == 3
    assert (second.answer, len(second.media)) == ("two", 1)
    assert (third.answer, third.choices) == ("5", ())
    (tmp_path / "iconqa/test/choose_img/1/choice_1.png").unlink()
    assert ["row 1, images" in text for text in problems_of("vista-iconqa", tmp_path, tmp_path)] == [True]


def test_iconqa_folders(tmp_path: Path) -> None:
    for key in ("2", "10"):
        write_json(
            tmp_path / f"iconqa/test/choose_img/{key}/data.json", {**ICON, "choices": ["choice_0.png"], "answer": 0}
        )
        for name in ("image", "choice_0"):
            write_png(tmp_path / f"iconqa/test/choose_img/{key}/{name}.png")
    tasks = tasks_of("vista-iconqa", tmp_path, tmp_path)
    assert [task.id for task in tasks] == ["vista-iconqa@1/choose_img-2", "vista-iconqa@1/choose_img-10"]
    assert tasks[0].answer == "<image 2>"


def test_tabmwp_and_mathvista_and_mathvision(tmp_path: Path) -> None:
    row = {"question": "How much?", "choices": None, "answer": "1,000", "ans_type": "integer_number", "unit": "$"}
    write_json(tmp_path / "t/problems_test.json", {"5": row})
    write_png(tmp_path / "t/tables/5.png")
    assert tasks_of("vista-tabmwp", tmp_path / "t", tmp_path)[0].id == "vista-tabmwp@1/5"
    vista = {
        "pid": "1",
        "question": "q",
        "decoded_image": {"bytes": png(), "path": None},
        "choices": ["a", "b"],
        "answer": "b",
    }
    write_parquet(tmp_path / "v/data/testmini-0.parquet", [{**vista, "metadata": {"task": "geo"}}])
    assert tasks_of("vista-mathvista", tmp_path / "v", tmp_path)[0].tags == ("task=geo",)
    vision = {"id": "4", "question": "q <image1>", "options": [], "answer": "16", "level": 2, "subject": "counting"}
    write_parquet(tmp_path / "m/data/test-0.parquet", [{**vision, "decoded_image": {"bytes": png(), "path": None}}])
    (task,) = tasks_of("vista-mathvision", tmp_path / "m", tmp_path)
    assert (task.question, task.answer, task.split) == ("q <image 1>", "16", "train")


def test_mapqa_lists_are_sets_and_yes_is_yes_or_no(tmp_path: Path) -> None:
    base = tmp_path / "MapQA_U/questions"
    write_png(tmp_path / "MapQA_U/images/m.png")
    answers: list[Any] = [["Ohio", "Iowa"], "Ohio", "Yes", ["Ohio"]]
    write_json(
        base / "test-QA.json", [{"map_id": "m.png", "question": "Which?", "answer": answer} for answer in answers]
    )
    tasks = tasks_of("vista-mapqa", tmp_path, tmp_path)
    kinds = [AnswerType.LIST, AnswerType.TEXT, AnswerType.YES_NO, AnswerType.LIST]
    assert [task.answer_type for task in tasks] == kinds
    card = load_card("vista-mapqa")
    grader = load_grader(card.grader_of(tasks[0]).spec)
    for said, right in (("Ohio", 0), ("Ohio, Iowa", 1), ("Iowa and Ohio", 1), ("Ohio, Iowa, Utah", 0)):
        assert (grader.grade(f"<answer>{said}</answer>", tasks[0]).correct == 1) is bool(right), said


@pytest.mark.parametrize(
    ("own", "lost", "stated"),
    [
        ({"cases": [{"when": {"answer": "yes"}, "answer_type": "text"}]}, "cases", {"cases": []}),
        ({"only": {"kind": "a"}}, "only", {"only": {}}),
        ({"fields.boxes": "bbox"}, "fields.boxes", {"fields.boxes": []}),
        ({"fields.group": "g"}, "fields.group", {"fields.group": "other"}),
        ({"fields.choices": "c"}, "fields.choices", {"fields.choices_from": "question"}),
        ({"fields.choices_from": "columns"}, "fields.choices_from", {"fields.choices": []}),
        ({"fields.videos": "v"}, "fields.videos", {"fields.videos": []}),
        ({"fields.default_choices": ["A", "B"]}, "fields.default_choices", {"fields.default_choices": []}),
        ({"fields.tag_lists": "a"}, "fields.tag_lists", {"fields.tag_lists": []}),
        ({"fields.split": "part"}, "fields.split", {"fields.split": []}),
        ({"fields.published": "others"}, "fields.published", {"fields.published": []}),
        ({"fields.without_answers": True}, "fields.without_answers", {"fields.without_answers": False}),
        ({"fields.hint": "h"}, "fields.hint", {"fields.hint": []}),
        ({"fields.answer_names": {"0": "no"}}, "fields.answer_names", {"fields.answer_names": {}}),
        (
            {"fields.tags": {"level": "level"}, "metric": {"id": "accuracy@1", "by": ["level"]}},
            "fields.tags.level",
            {"fields.tags": {"level": "grade"}},
        ),
    ],
)
def test_a_form_cannot_lose_what_the_cards_own_declares(own: dict[str, Any], lost: str, stated: dict[str, Any]) -> None:
    def changed(data: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
        for name, value in changes.items():
            *above, last = name.split(".")
            held = data
            for step in above:
                held = held[step]
            held[last] = value
        return data

    form = {
        "title": "another",
        "loader": {"id": "rows@1", "files": "b.jsonl"},
        "fields": {"question": "q", "images": "i", "answer": "a"},
    }
    card = changed(card_of().model_dump(mode="json"), own)
    with pytest.raises(ValueError, match=f"'another' says nothing of {re.escape(lost)}, which"):
        Card.model_validate({**card, "forms": [form]})
    made = Card.model_validate({**card, "forms": [changed(form, stated)]})
    assert made.forms[0].title == "another"


@pytest.mark.parametrize("name", card_ids())
def test_no_form_of_any_card_loses_a_field_of_the_cards_own(name: str) -> None:
    card = load_card(name)
    of_its_own = {"id", "question", "images", "answer", "answer_is", "tags", "boxes_are", "boxes_scale"}
    own = {field for field, kind in Fields.model_fields.items() if getattr(card.fields, field) != kind.default}
    for form in card.forms:
        stated = form.fields.model_fields_set
        lost = own - of_its_own - stated
        assert lost <= {"choices", "choices_from"}, form.title
        assert not lost or stated & {"choices", "choices_from"}, form.title
        assert set(card.metric.by) & card.fields.tags.keys() <= form.fields.tags.keys(), form.title
        for part in ("cases", "only"):
            assert not getattr(card, part) or part in form.model_fields_set, form.title
