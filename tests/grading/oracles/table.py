"""Our graders beside the official evaluators: `make oracles` prints this table.

Drawn answers have a person's verdict (`blind.tsv`, the torture table), so that each disagreement is settled: they are
wrong, or we are. Of the stored answers of models, the disputed ones were read by a person, see `disputed.tsv`.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
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
AGREE, JUDGE, STRICTER, THEIRS_WRONG, OURS_WRONG = (
    "agree",
    "they ask a judge",
    "ours stricter",
    "theirs wrong",
    "ours wrong",
)
OUTCOMES = (AGREE, JUDGE, STRICTER, THEIRS_WRONG, OURS_WRONG)
OPEN = "nobody has said who is right"
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
    verdict: str = ""
    """Of a person: `right`, `wrong`, `two` (different answers are marked), `about`; empty if nobody read it."""
    extracted: str = ""
    """What a language model of the benchmark took out of the answer."""


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
    last = text.rpartition("Answer:")[2]  # as MMMU-Pro's own script cuts it
    return _is_gold(task, module.parse_multi_choice_response(last, letters, texts))


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


_EVALUATED = re.compile(r"(?!.*(?:\*\*|__|\^\{[^}]*\^))[0-9a-z\\{}()+*/^_., =-]{1,60}")
"""What `is_equal` may evaluate: it runs the text of an answer as Python, and powers of powers for ever."""


def _math_vision(task: Task, text: str) -> bool | None:
    if not all(_EVALUATED.fullmatch(one) for one in (text, task.answer or "")):
        return None
    return bool(official("vlmeval.dataset.utils.mathv").is_equal.__wrapped__(text, task.answer))


def _refcoco(task: Task, text: str) -> bool | None:
    module = official("vlmeval.dataset.refcoco").RefCOCODataset
    boxes = [module._parse_prediction(one) for one in (text, task.answer)]
    if boxes[0] is None:
        return False
    return bool(module._compute_iou(*(module._to_absolute(box, 1000, 1000) for box in boxes)) >= 0.5)


_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


def _any(answer: Answer) -> bool:
    return True


def _is_number(answer: Answer) -> bool:
    return _NUMBER.fullmatch(answer.task.answer or "") is not None


def _is_extracted(answer: Answer) -> bool:
    return answer.source.startswith("mathvista")


EVALUATORS: Mapping[str, tuple[tuple[str, ...], Callable[[Answer], bool], Theirs]] = {
    "VLMEvalKit, options: `can_infer`": (("choice",), _any, _can_infer),
    "VLMEvalKit, options of SpatialBench: `can_match_option`": (("choice",), _any, _can_match_option),
    "lmms-eval, MMMU: `parse_multi_choice_response`": (("choice",), _any, _mmmu_choice),
    "lmms-eval, MathVista, options: `normalize_extracted_answer`": (
        ("choice",),
        _is_extracted,
        _mathvista("choice"),
    ),
    "lmms-eval, MathVista, numbers: `normalize_extracted_answer`": (
        ("number-rounded",),
        _is_number,
        _mathvista("number"),
    ),
    "VLMEvalKit, yes or no: `YOrN_Extraction`": (
        ("yes-no",),
        lambda answer: answer.task.answer in ("yes", "no"),
        _yes_or_no,
    ),
    "VLMEvalKit, numbers of SpatialBench: `can_match_na`": (("number", "count"), _is_number, _last_number),
    "VLMEvalKit, DynaMath: `DynaMath_auxeval`": (("number",), _is_number, _dynamath),
    "VLMEvalKit, ChartQA: `relaxed_correctness`": (("relaxed",), _any, _relaxed),
    "VLMEvalKit, VQA: `process_answer`": (("text", "vqa"), lambda answer: "[" not in (answer.task.answer or ""), _vqa),
    "VLMEvalKit, MathVerse: `post_check_score`": (("math",), _any, _mathverse),
    "VLMEvalKit, MathVision: `is_equal`": (("math",), _any, _math_vision),
    "VLMEvalKit, RefCOCO: `_parse_prediction`": (("box",), lambda answer: answer.task.answer is not None, _refcoco),
}


def drawn() -> Iterator[Answer]:
    """Yield the answers that people wrote, with their verdicts."""
    for line in (HERE.parent / "blind.tsv").read_text(encoding="utf-8").splitlines():
        verdict, grader, gold, choices, text, *asked = line.split("\t")
        options = tuple(filter(None, choices.split("|")))
        kind = AnswerType.CHOICE if options else AnswerType.TEXT
        if "+" in gold and options:
            continue  # nobody else grades sets of options
        gold = gold.replace("\\\\", "\\")
        question = asked[0] if asked else "What is it?"
        task = Task(id="t", question=question, answer=gold, choices=options, answer_type=kind)
        said = text.replace("\\n", "\n").replace("\\\\", "\\")
        yield Answer("by hand", text, grader, task, said, verdict)
    for line in (HERE.parent / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("expect") not in ("accept", "reject") or not isinstance(row["answer"], str):
            continue
        options = tuple(row.get("choices", ()))
        kind = AnswerType.CHOICE if options else AnswerType.TEXT
        task = Task(id="t", question="What is it?", answer=row["gold"], choices=options, answer_type=kind)
        grader = row["grader"].partition("@")[0]
        verdict = "right" if row["expect"] == "accept" else "wrong"
        yield Answer("torture table", row["answer"][:60], grader, task, row["answer"], verdict)


def stored(folder: Path) -> Iterator[Answer]:
    """Yield the answers of models; the disputed ones with what a person says of them."""
    lines = (HERE / "disputed.tsv").read_text(encoding="utf-8").splitlines()
    disputed = {(file, name): verdict for file, name, verdict, _ in (line.split("\t") for line in lines)}
    for path in sorted(folder.glob("*.json*")):
        rows = json.loads(path.read_text(encoding="utf-8")) if path.suffix == ".json" else {}
        for one in stored_answers(path):
            if one.task.answer is not None and one.response is not None:
                # MathVista's own rules read what a language model had extracted from the answer.
                text = str(rows.get(one.task.id, {}).get("extraction", one.response))
                verdict = disputed.get((path.name, one.task.id), "")
                yield Answer(path.name, one.task.id, one.grader, one.task, one.response, verdict, text)


@cache
def _accepted(answer: Answer) -> bool:
    return load_grader(answer.grader).grade(answer.text, answer.task).accepted


def compared(answer: Answer, theirs: Theirs) -> str:
    """Return how our verdict on one answer and theirs compare."""
    accepted = _accepted(answer)
    try:
        other = theirs(answer.task, answer.extracted or answer.text)
    except (ValueError, OverflowError):  # DynaMath's float("10³")
        other = None
    if other is None:
        return JUDGE
    if other == accepted:
        return AGREE
    if not answer.verdict:
        return OPEN
    if answer.verdict in ("right", "wrong"):
        return OURS_WRONG if (answer.verdict == "right") == other else THEIRS_WRONG
    return STRICTER


def counts(answers: Iterable[Answer]) -> dict[tuple[str, str], Counter[str]]:
    """Return how often each outcome occurs, by evaluator and source; what we cannot grade is left out."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for answer in answers:
        for name, (graders, fits, theirs) in EVALUATORS.items():
            if answer.grader in graders and fits(answer):
                with suppress(GradingError):
                    found.setdefault((name, answer.source), Counter())[compared(answer, theirs)] += 1
    return found


def as_markdown(found: Mapping[tuple[str, str], Counter[str]]) -> str:
    """Return the table of `docs/grading.md`."""
    head = ("evaluator", "answers", "number", *OUTCOMES)
    lines = [f"| {' | '.join(head)} |", "|---|---|" + "---|" * (len(head) - 2)]
    total: Counter[str] = Counter()
    for (name, source), own in sorted(found.items()):
        total.update(own)
        lines.append(_row(name, source, own))
    return "\n".join([*lines, _row("all", "", total)])


def _row(name: str, source: str, own: Counter[str]) -> str:
    return f"| {name} | {source} | {own.total()} | {' | '.join(str(own[outcome]) for outcome in OUTCOMES)} |"


if __name__ == "__main__":
    print(as_markdown(counts([*drawn(), *(stored(ANSWERS) if ANSWERS.is_dir() else ())])))
