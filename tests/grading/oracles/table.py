"""Our graders beside the official evaluators: `make oracles` prints this table.

Drawn answers have a person's verdict (`blind.tsv`, the torture table), so that each disagreement is settled: either they
are wrong, or we are. Of the stored answers of models, the disputed ones were read by a person, see `disputed.tsv`.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from types import SimpleNamespace

from tests.grading.oracles.official import official

from benchmarks.grading import stored_answers
from saccade.errors import GradingError
from saccade.grading.registry import load_grader
from saccade.record.task import AnswerType, Task

HERE = Path(__file__).resolve().parent
ANSWERS = HERE.parents[3] / "shared" / "data" / "answers"
STRICTER, THEIRS_WRONG, OURS_WRONG = "ours stricter", "theirs wrong", "ours wrong"
Theirs = Callable[[Task, str], bool | None]
"""Their verdict; None where they would ask a language model."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer with the verdict of a person, if there is one."""

    source: str
    name: str
    grader: str
    task: Task
    text: str
    right: bool | None = None


def _letters(task: Task) -> dict[str, str]:
    return dict(zip(ascii_uppercase, task.choices, strict=False))


def _is_gold(task: Task, letter: object) -> bool | None:
    return None if not letter else _letters(task).get(str(letter)) == task.answer


def _can_infer(task: Task, text: str) -> bool | None:
    return _is_gold(task, official("vlmeval.utils.matching_util").can_infer(text, _letters(task)))


def _can_match_option(task: Task, text: str) -> bool | None:
    found = official("vlmeval.dataset.utils.spatial_bench.matching_func").can_match_option(text, [*_letters(task)])
    return _is_gold(task, found)


def _mmmu_choice(task: Task, text: str) -> bool | None:
    module = official("lmms_eval.tasks.mmmu.utils")
    random.seed(0)  # where it reads no letter it draws one
    texts, letters = module.get_multi_choice_info(list(task.choices))
    return _is_gold(task, module.parse_multi_choice_response(text, letters, texts))


def _mathvista(kind: str) -> Theirs:
    def theirs(task: Task, text: str) -> bool | None:
        evaluator = official("lmms_eval.tasks.mathvista.mathvista_evals").MathVistaEvaluator
        gold = task.answer or ""
        precision = len(gold.partition(".")[2]) or None
        form = "multi_choice" if kind == "choice" else "free_form"
        answer = "text" if kind == "choice" else "float" if precision else "integer"
        normal = evaluator.__new__(evaluator).normalize_extracted_answer
        found = normal(text, list(task.choices), form, answer, precision)
        return found == gold if found is not None else False

    return theirs


def _yes_or_no(task: Task, text: str) -> bool | None:
    found = official("vlmeval.dataset.utils.yorn").YOrN_Extraction(text)
    return None if found == "Unknown" else found.lower() == (task.answer or "").lower()


def _last_number(task: Task, text: str) -> bool | None:
    found = official("vlmeval.dataset.utils.spatial_bench.matching_func").can_match_na(text)
    return None if found is None else found == float(task.answer or "nan")


def _dynamath(task: Task, text: str) -> bool | None:
    judge = SimpleNamespace(generate=lambda prompt: "")
    line = {"prediction": text, "answer_type": "float", "answer": task.answer}
    found = official("vlmeval.dataset.dynamath").DynaMath_auxeval(judge, line)
    return bool(found["correct"]) if found["parse"] else None


def _relaxed(task: Task, text: str) -> bool:
    return bool(official("vlmeval.dataset.utils.vqa_eval").relaxed_correctness(task.answer, text.strip()))


def _vqa(task: Task, text: str) -> bool:
    process = official("vlmeval.dataset.utils.vqa_eval").process_answer
    return bool(process(text) == process(task.answer or ""))


def _mathverse(task: Task, text: str) -> bool | None:
    line = {"answer": task.answer, "extract": text}
    return True if official("vlmeval.dataset.utils.mathverse").post_check_score(line) else None


_EVALUATED = re.compile(r"[0-9a-z\\{}()+*/^_., =-]{1,60}")
"""What `is_equal` may evaluate: it runs the text of an answer as Python."""


def _math_vision(task: Task, text: str) -> bool | None:
    if not all(_EVALUATED.fullmatch(one) and "**" not in one and "__" not in one for one in (text, task.answer or "")):
        return None
    return bool(official("vlmeval.dataset.utils.mathv").is_equal.__wrapped__(text, task.answer))


def _refcoco(task: Task, text: str) -> bool | None:
    module = official("vlmeval.dataset.refcoco").RefCOCODataset
    boxes = [module._parse_prediction(one) for one in (text, task.answer)]
    if boxes[0] is None:
        return False
    return bool(module._compute_iou(*(module._to_absolute(box, 1000, 1000) for box in boxes)) >= 0.5)


_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


def _is_number(task: Task) -> bool:
    return _NUMBER.fullmatch(task.answer or "") is not None


EVALUATORS: Mapping[str, tuple[tuple[str, ...], Callable[[Task], bool], Theirs]] = {
    "VLMEvalKit, options: `can_infer`": (("choice",), lambda task: True, _can_infer),
    "VLMEvalKit, options of SpatialBench: `can_match_option`": (("choice",), lambda task: True, _can_match_option),
    "lmms-eval, MMMU: `parse_multi_choice_response`": (("choice",), lambda task: True, _mmmu_choice),
    "lmms-eval, MathVista, options: `normalize_extracted_answer`": (
        ("choice",),
        lambda task: True,
        _mathvista("choice"),
    ),
    "lmms-eval, MathVista, numbers: `normalize_extracted_answer`": (
        ("number-rounded",),
        _is_number,
        _mathvista("number"),
    ),
    "VLMEvalKit, yes or no: `YOrN_Extraction`": (("yes-no",), lambda task: task.answer in ("yes", "no"), _yes_or_no),
    "VLMEvalKit, numbers of SpatialBench: `can_match_na`": (("number", "count"), _is_number, _last_number),
    "VLMEvalKit, DynaMath: `DynaMath_auxeval`": (("number",), _is_number, _dynamath),
    "VLMEvalKit, ChartQA: `relaxed_correctness`": (("relaxed",), lambda task: True, _relaxed),
    "VLMEvalKit, VQA: `process_answer`": (("text", "vqa"), lambda task: "[" not in (task.answer or ""), _vqa),
    "VLMEvalKit, MathVerse: `post_check_score`": (("math",), lambda task: True, _mathverse),
    "VLMEvalKit, MathVision: `is_equal`": (("math",), lambda task: True, _math_vision),
    "VLMEvalKit, RefCOCO: `_parse_prediction`": (("box",), lambda task: not task.evidence, _refcoco),
}


def drawn() -> Iterator[Answer]:
    """Yield the answers that people wrote, with their verdicts."""
    for line in (HERE.parent / "blind.tsv").read_text(encoding="utf-8").splitlines():
        verdict, grader, gold, choices, text = line.split("\t")
        options = tuple(filter(None, choices.split("|")))
        kind = AnswerType.CHOICE if options else AnswerType.TEXT
        if "+" in gold and options:
            continue  # nobody else grades sets of options
        task = Task(id="t", question="What is it?", answer=gold, choices=options, answer_type=kind)
        said = text.replace("\\n", "\n").replace("\\\\", "\\")
        yield Answer("by hand", text, grader, task, said, verdict == "right")
    for line in (HERE.parent / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("expect") not in ("accept", "reject") or not isinstance(row["answer"], str):
            continue
        options = tuple(row.get("choices", ()))
        kind = AnswerType.CHOICE if options else AnswerType.TEXT
        task = Task(id="t", question="What is it?", answer=row["gold"], choices=options, answer_type=kind)
        grader = row["grader"].partition("@")[0]
        yield Answer("torture table", row["answer"][:60], grader, task, row["answer"], row["expect"] == "accept")


def stored(folder: Path) -> Iterator[Answer]:
    """Yield the answers of models; those that a person read have their verdict."""
    disputed = {}
    for line in (HERE / "disputed.tsv").read_text(encoding="utf-8").splitlines():
        file, name, verdict, _ = line.split("\t")
        disputed[file, name] = verdict
    for path in sorted(folder.glob("*.json*")):
        rows = json.loads(path.read_text(encoding="utf-8")) if path.suffix == ".json" else {}
        for one in stored_answers(path):
            if one.task.answer is None or one.response is None:
                continue
            # MathVista's own rules read what a language model had extracted from the answer.
            text = str(rows.get(one.task.id, {}).get("extraction", one.response)) if one.grader != "choice" else ""
            verdict = disputed.get((path.name, one.task.id))
            right = None if verdict is None else verdict == "right"
            yield Answer(path.name, one.task.id, one.grader, one.task, one.response, right), text or one.response


def compared(answer: Answer, accepted: bool, other: bool | None) -> str:
    """Return how our verdict on one answer and theirs compare."""
    if other is None:
        return "asks a judge"
    if other == accepted:
        return "agree"
    if answer.right is None:
        return "open"
    return OURS_WRONG if answer.right == other else THEIRS_WRONG
