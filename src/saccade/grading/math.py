"""Mathematics: equal formulas, by math-verify where neither text nor number decides.

Numbers and plain text are compared as `number` and `text` do, formulas by their values (`formula`: units, matrices,
degrees); only what is left, and is a small formula on both sides, goes to the algebra system, in a process of its own
(`math_process`). 1/3 is not 0.333; a decimal against a root counts to six places. `x = 5` is 5. What could not be
decided within the limits is wrong, and the verdict says so.
"""

from __future__ import annotations

import atexit
import cmath
import contextlib
import importlib.util
import json
import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from saccade.core.registry import install
from saccade.errors import UnavailableError
from saccade.grading.base import Verdict, golds_of, judged, right, wrong
from saccade.grading.clean import tight, unwrapped
from saccade.grading.extract import emphasised, in_final_part, without_question, words_said
from saccade.grading.formula import read_formula, same_formula, told_apart
from saccade.grading.languages import DOUBT, NOT_THE_OTHER
from saccade.grading.quantities import quantity
from saccade.grading.relations import same_statement
from saccade.grading.text import number_said, same_quantity, same_text
from saccade.grading.working import conclusions, is_derivation, only_compares
from saccade.record.task import Task

START_SECONDS = 120.0
"""Longest wait for the imports of the process."""
REPLY_SECONDS = 30.0
"""Longest wait for a reply; its own limit of processor time ends it long before, unless the machine stands still."""


class FormulaComparer:
    """Compares formulas, which passed `latex`, in a separate process, started on demand and after a timeout.

    Thread-safe, also after a fork.
    """

    def __init__(self, worker: Path) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def same(self, gold: str, answer: str) -> bool | None:
        """Tell whether two formulas are equal; None if the limits did not allow an answer.

        Raises:
            UnavailableError: math-verify is not installed, or the process cannot be started.
        """
        request = json.dumps({"gold": gold, "answer": answer}).encode() + b"\n"
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            try:
                process.stdin.write(request)
                process.stdin.flush()
            except BrokenPipeError:
                reply = b""
            else:
                reply = _line(process, REPLY_SECONDS)
            if not reply:
                self._stop()
                return None
            return bool(json.loads(reply)["same"])

    def close(self) -> None:
        """End the process; the next comparison starts another."""
        with self._lock:
            self._stop()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
            return self._process
        self._stop()
        if importlib.util.find_spec("math_verify") is None:
            raise UnavailableError(f"the package `math-verify` is not installed. Run: {install('math')}")
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(self._worker)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._owner = os.getpid()
        if not _line(self._process, START_SECONDS):
            self._stop()
            raise UnavailableError(
                f"the process that compares formulas did not start. Run {self._worker} by hand to see why."
            )
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        if self._owner == os.getpid():
            process.kill()
            process.wait()


def _line(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """Return the next short line of the process, or nothing if it ended or took longer."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return process.stdout.readline() if ready else b""


@cache
def shared_comparer() -> FormulaComparer:
    """Return the comparer of this program; its process ends with it."""
    comparer = FormulaComparer(Path(__file__).with_name("math_worker.py"))
    atexit.register(comparer.close)
    return comparer


# A gate before the algebra: which formulas may be compared at all, and their spelling for it.
#
# Only short formulas of known commands pass: no unknown command, no word, no exponent in an exponent, no exponent
# beyond two digits (one digit on a bracket), no factorial, no sum or integral, bounded depth and bounded numbers. So
# neither a tower of powers nor a text that is no formula reaches the algebra system. Plain spellings (`2*sqrt(3)`,
# `pi/4`) become LaTeX.


LONGEST: Final = 300
DEEPEST: Final = 8
_FUNCTIONS: Final = "sin cos tan cot sec csc arcsin arccos arctan log ln exp"
_COMMANDS: Final = frozenset(
    (
        "frac sqrt cdot times div pm mp pi theta alpha beta gamma lambda mu phi omega infty cup cap in le leq ge geq "
        f"lt gt ne neq approx {_FUNCTIONS} mathbb emptyset varnothing setminus mid colon sim angle triangle"
    ).split()
)
_ALPHABET: Final = re.compile(r"[A-Za-z0-9\s+\-*/^_=.,()\[\]{}|<>:'°%·×÷π√∞≤≥≠∪∩∈±∅&\\]*")
_RATIO = re.compile(r"[0-9]\s?:\s?[0-9]")  # a time or a ratio, which the algebra would divide
_COMMAND = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)
_WORD = re.compile(r"(?<![A-Za-z\\])(?:[A-Za-z]{4,}|(?<=\s)(?:to|is|of|if|so|no|or|and)(?=\s))")
_PLAIN_SQRT = re.compile(r"(?<![\\A-Za-z])sqrt\s?\(([^()]*)\)")
_PLAIN_NAME = re.compile(rf"(?<![\\A-Za-z])(pi|infty|theta|{_FUNCTIONS.replace(' ', '|')})(?![A-Za-z])")
_EXPONENT = re.compile(r"(?:\^|\*\*)\s?(?:\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}|\(([^()]*)\)|(-?[0-9]+|.))", re.DOTALL)
_SIGNS: Final = {
    "√": "\\sqrt ",
    "π": "\\pi ",
    "∞": "\\infty ",
    "≤": "\\le ",
    "≥": "\\ge ",
    "≠": "\\ne ",
    "∪": "\\cup ",
} | {
    "∩": "\\cap ",
    "∈": "\\in ",
    "±": "\\pm ",
    "×": "\\times ",
    "·": "\\cdot ",
    "÷": "\\div ",
    "∅": "\\emptyset ",
}


def comparable_formula(text: str) -> str | None:
    """Return `text` as LaTeX that may be parsed, or None if it is no such formula."""
    if len(text) > LONGEST or not text.strip() or _ALPHABET.fullmatch(text) is None or _RATIO.search(text):
        return None
    for sign, command in _SIGNS.items():
        text = text.replace(sign, command)
    text = _PLAIN_NAME.sub(r"\\\1 ", _PLAIN_SQRT.sub(r"\\sqrt{\1}", text)).replace("**", "^")
    text = re.sub(r"\^\s?\(([^()]*)\)", r"^{\1}", text).replace("*", "\\cdot ")
    known = all(name in _COMMANDS or name in "{}|" for name in _COMMAND.findall(text))
    return text if known and _is_small(text) else None


def _is_small(text: str) -> bool:
    few = text.count("^") <= 12 and text.count("\\sqrt") <= 8 and text.count("(") <= 16 and _depth(text) <= DEEPEST
    long = _WORD.search(_COMMAND.sub(" ", text)) or re.search(r"[0-9]{16}", text)
    return few and not long and not any(_is_large(exponent) for exponent in _EXPONENT.finditer(text))


def _is_large(exponent: re.Match[str]) -> bool:
    inside = next((group for group in exponent.groups() if group is not None), "")
    on_bracket = exponent.string[: exponent.start()].rstrip().endswith((")", "}", "]"))
    large = r"[0-9]{2}|[A-Za-z]{2}|\^" if on_bracket else r"[0-9]{3}|\^"
    return re.search(large, inside) is not None or exponent.string[exponent.end() :].lstrip().startswith("^")


def _depth(text: str) -> int:
    depth = deepest = 0
    for sign in text:
        depth += (sign in "({[") - (sign in ")}]")
        deepest = max(deepest, depth)
    return deepest


@dataclass(frozen=True, slots=True)
class MathGrader:
    """Equality of formulas: fractions, roots, sets, intervals, equations."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`.

        Raises:
            UnavailableError: a formula has to be compared, and math-verify is not installed.
        """
        golds = golds_of(task)
        read: list[str] = []

        def best(prediction: str) -> Verdict:
            read.append(prediction)
            return _best(prediction, golds)

        verdict = judged(answer, task, best, _said)
        if verdict.accepted and only_compares(read[-1]) and not any(map(only_compares, golds)):
            return wrong("the answer is only compared with it", read[-1])
        if verdict.accepted or answer is None:
            return verdict
        whole = _OR_ABROAD.sub(" or ", in_final_part(without_question(answer, task.question)) or "".join(read))
        named = any("=" in gold for gold in golds)
        for said in conclusions(whole, task.question, named) if verdict.read or is_derivation(whole) else ():
            if (found := _best(said, golds)).accepted and not only_compares(whole):
                return replace(found, extracted=verdict.extracted or found.extracted)
        pieces = emphasised(answer, task.question, formulas=True)
        if len(pieces) > 1 and (both := _best(" or ".join(pieces), golds)).accepted:
            return both
        stressed = [_best(piece, golds) for piece in pieces]
        return stressed[-1] if stressed and all(one.accepted for one in stressed) else verdict


def _said(candidate: str) -> object:
    return number_said(candidate) or words_said(candidate)


def _best(prediction: str, golds: Sequence[str]) -> Verdict:
    """Give the verdict by the accepted answer that is met, or else by the first."""
    prediction = _OR_ABROAD.sub(" or ", _NOT_THE_OTHER.sub("", _THEREFORE.sub("", prediction)))
    golds = [_OR_ABROAD.sub(" or ", gold) for gold in golds]
    verdicts = [_compare(prediction, gold) for gold in golds]
    return next((verdict for verdict in verdicts if verdict.accepted), verdicts[0])


_THEREFORE = re.compile(r"\A[\s$]*(?:\\therefore|∴|\\Rightarrow|⇒|\\implies)\s*")
_NOT_THE_OTHER = re.compile(
    rf"(?<=[\w$)}}\]*]),\s(?:(?:and|und|et|y|e)\s)?(?:{NOT_THE_OTHER}|non?\s)"
    r"(?=[$\\0-9(\[{-])(?:\\[a-z]+|[A-Za-z](?![A-Za-z])|[^,;:=A-Za-z]){1,60}\Z"
)
"""Another value, named behind the answer only to be denied: "1/2, not 2"."""
_OR_ABROAD = re.compile(
    r"(?<=[$0-9})])\s?(?:\b(?:oder|ou|o|или|або|lub|of|eller|atau|hoặc|veya)\b|或者?|または|또는|या)\s?(?=[$\\A-Za-z(0-9-])"
)
_SPELT: Final = (
    (re.compile(r"\\log_\{?e\}?(?![A-Za-z])"), r"\\ln "),
    (re.compile(r"\A\[\[(?P<rows>[-0-9./,\s\[\]]{1,200})\]\]\Z"), None),
    (
        re.compile(
            r"\A(?:(?:it|the\s(?:limit|integral|series|sum))\s(?:is|diverges\sto|tends\sto|goes\sto)\s)?(?:positive\s)?infinity\Z",
            re.I,
        ),
        r"\\infty",
    ),
    (
        re.compile(
            r"\A(?:there\s(?:is|are)\s|(?:it|the\s[a-z]{1,12})\shas\s)?no\s(?:real\s)?solutions?\Z|\A\\(?:varnothing|emptyset)\Z",
            re.I,
        ),
        "∅",
    ),
)

_PAIR_ABROAD = re.compile(
    r"\A(?:[A-Z]|[a-z]\s?(?:\\in(?![A-Za-z])|∈))?\s?([(\[\]])([^()\[\];]+);([^()\[\];]+)([)\[\]])\Z|\A(\])([^()\[\]]+),([^()\[\]]+)([\])\[])\Z"
)
_PAIR_IN_BARS = re.compile(r"\A[A-Z]?\s?\(\s?([^()|,]{1,20}?)\s?\|\s?([^()|,]{1,20}?)\s?\)\Z")
"""Pairs as French, Italian and German books write them: `(2; 5)`, `]-2; 5[`."""


def _pair(match: re.Match[str]) -> str:
    opening, first, second, closing = (group for group in match.groups() if group is not None)
    if match[1]:
        first, second = (re.sub(r"(?<=[0-9]),(?=[0-9])", ".", part) for part in (first, second))
    opening, closing = "(" if opening == "]" else opening, ")" if closing == "[" else closing
    return f"{opening}{first.strip()}, {second.strip()}{closing}"


_VECTOR = re.compile(r"\\(?:vec|overrightarrow|boldsymbol|mathbf)\s?\{\s?([A-Za-z])\s?\}")
_A_RATIO = re.compile(r"\A([1-9][0-9]{0,8})\s?:\s?([1-9][0-9]{0,8})\Z")


_MIXED = re.compile(r"\A-?[0-9]{1,4}\s?(?:\\frac|\s[0-9]{1,4}/[0-9])")
_MIXED_IN_WORDS = re.compile(
    r"(?<![0-9.,])([0-9]{1,4})\s(?:and|und|et|y|e|и|і|i|a|og|och|en|ja|ve|và|又|と|와|과)\s"
    r"([1-9][0-9]{0,3}/[1-9][0-9]{0,3})(?![0-9])"
)
_COLUMN = re.compile(
    r"\\begin\{[bp]?matrix\}([^&]{1,200})\\end\{[bp]?matrix\}|\\[dt]?binom\s?\{([^{}]{1,60})\}\s?\{([^{}]{1,60})\}"
)
_ROW = re.compile(r"(?:\(|\\langle|⟨|[A-Z]\s?\()[^()\[\]]{1,200}(?:\)|\\rangle|⟩)")
_ANGLED = re.compile(
    r"(?:\\langle|[⟨〈])([^()\[\]⟨⟩]{1,120}?)(?:\\rangle|[⟩〉]|(?P<close>[)\]]))"
    r"|(?P<open>[(\[])([^()\[\]⟨⟩]{1,120}?)(?:\\rangle|[⟩〉])"
)


def _as_column(text: str, other: str) -> str:
    r"""Return a vector as `other` has it, in a column or a row: `⟨3, -2⟩`, `\binom{3}{-2}`, `(3, -2)`."""
    text = _ANGLED.sub(lambda found: _square(found, other), text)
    if "matrix" in other:
        return _COLUMN.sub(lambda found: "\\begin{pmatrix}" + "\\\\".join(_entries(found)) + "\\end{pmatrix}", text)
    if _ROW.fullmatch(unwrapped(other)) is None:
        return text
    return _COLUMN.sub(lambda found: f"({', '.join(_entries(found))})", text)


def _entries(found: re.Match[str]) -> list[str]:
    parts = re.split(r"\\\\(?:\[[^\]]{0,9}\])?", found[1]) if found[1] else [found[2], found[3]]
    return [part.strip() for part in parts if part.strip()]


def _square(found: re.Match[str], other: str) -> str:
    """Return `⟨a, b⟩` as a vector, or as the closed interval that it is in some countries."""
    inside = found[1] or found[4]
    closed = found["close"] or found["open"] or ";" in inside or "[" in other
    return f"{found['open'] or '(['[bool(closed)]}{inside}{found['close'] or ')]'[bool(closed)]}"


def _one_spelling(text: str, other: str) -> str:
    r"""Return `text` in one spelling of `\ln`, matrices, infinity, "no solution", and a ratio as `other` has it."""
    if _VECTOR.search(other) is None:
        text = _VECTOR.sub(r"\1", text)
    text = _as_column(text, other)
    if _MIXED.search(unwrapped(other)):
        text = _MIXED_IN_WORDS.sub(r"\1 \2", text)
    if "_" in other:
        text = re.sub(r"(?<![A-Za-z\\])([A-Z])([0-9])(?![0-9.])", r"\1_\2", text)
    plain = unwrapped(text)
    plain = _PAIR_IN_BARS.sub(r"(\1, \2)", plain)
    if _PAIR_ABROAD.match(plain):
        return _PAIR_ABROAD.sub(_pair, plain)
    if "/" in other or "frac" in other:
        plain = _A_RATIO.sub(r"\1/\2", plain)
    for form, spelling in _SPELT:
        found = form.search(plain)
        if found is not None and spelling is None:
            rows = re.split(r"\]\s?,\s?\[", found["rows"])
            return "\\begin{pmatrix}" + "\\\\".join(row.replace(",", "&") for row in rows) + "\\end{pmatrix}"
        if found is not None and spelling is not None:
            return form.sub(spelling, plain)
    return plain if _A_RATIO.search(text) or _PAIR_IN_BARS.match(unwrapped(text)) else text


def _compare(prediction: str, gold: str) -> Verdict:
    prediction, gold = _one_spelling(prediction, gold), _one_spelling(gold, prediction)
    if same_text(prediction, gold) or tight(unwrapped(prediction)) == tight(unwrapped(gold)) != "":
        return right("same text", prediction)
    if DOUBT.search(_OF_NOT.sub("P(", prediction)):
        return wrong("takes something back", prediction)
    if (equation := _chemical(gold)) is not None and _chemical(prediction) == equation:
        return right("same chemical equation", prediction)
    stated = same_statement(prediction, gold, lambda value, target: _compare_values(value, target).accepted)
    if stated is None:
        return _compare_values(prediction, gold)
    if stated:
        return right("equal equations, inequalities or solutions", prediction)
    return wrong("other equations, inequalities or solutions", prediction)


_OF_NOT = re.compile(r"\bPr?\s?\(\s?(?:\\text\s?\{\s?)?(?:not|nicht|non|no|nie|не|não)\s", re.IGNORECASE)
"""The probability of an opposite, which denies nothing: `P(not red)`."""
_REACTS = re.compile(r"\s*(?:\\(?:long)?rightarrow|\\to(?![A-Za-z])|→|⟶|-+>|⇌|<?=+>)\s*")


def _chemical(text: str) -> str | None:
    r"""Return a chemical equation in one spelling: `\ce{CaCO3 -> CaO + CO2}`; None for what is none."""
    sides = _REACTS.split(_TEXT_IN.sub(r"\1", unwrapped(text).replace("$", "")))
    plain = [re.sub(r"[\s_{}$]|\((?:s|l|g|aq)\)", "", side) for side in sides]
    known = len(sides) == 2 or (len(sides) == 1 and _CHARGED.search(plain[0]))
    return " -> ".join(plain) if known and all(map(_SUBSTANCES.fullmatch, plain)) else None


_TEXT_IN = re.compile(r"\\(?:ce|text|mathrm)\s?\{((?:[^{}]|\{[^{}]*\})*)\}")
_CHARGED = re.compile(r"[A-Za-z0-9)]\^[0-9]?[+-]\Z")
_SUBSTANCES = re.compile(r"(?:[0-9]{0,3}(?:\(?[A-Z][a-z]?[0-9]{0,3}\)?[0-9]{0,2})+(?:\^[0-9]?[+-])?\+?)+")


def _compare_values(prediction: str, gold: str) -> Verdict:
    if same_text(prediction, gold) or tight(unwrapped(prediction)) == tight(unwrapped(gold)) != "":
        return right("same text", prediction)
    number, target = quantity(prediction), quantity(gold)
    if number is not None and target is not None and not (_is_no_number(prediction) or _is_no_number(gold)):
        same = same_quantity(number, target)
        return right("same number", prediction) if same else wrong("another number or unit", prediction)
    if target is not None and _DECIMAL.search(gold) is None and _UNWORKED.fullmatch(unwrapped(prediction)):
        return wrong("a sum or product that is not worked out", prediction)
    if same_formula(prediction, gold) or ((number or target) and _is_rounded(prediction, gold)):
        return right("equal formulas", prediction)
    if told_apart(prediction, gold):
        return wrong("a formula of another value or kind: a set is no point, and a matrix no number", prediction)
    formulas = comparable_formula(unwrapped(gold)), comparable_formula(prediction)
    if formulas[0] is None or formulas[1] is None:
        return wrong("another text, and not two formulas that can be compared", prediction)
    try:
        equal = _equal(formulas[0], formulas[1])
    except TimeoutError:
        return wrong("could not be compared within the limits", prediction)
    return right("equal formulas", prediction) if equal else wrong("another formula", prediction)


@lru_cache(maxsize=1024)
def _equal(gold: str, answer: str) -> bool:
    """Tell whether two formulas are equal, once for all the readings of an answer. Raises `TimeoutError` at a limit."""
    found = shared_comparer().same(gold, answer)
    if found is None:
        raise TimeoutError
    return found


def _is_no_number(text: str) -> bool:
    """Tell whether a formula holds an unknown or is a point or a set: `x + 4`, `(a, 1)`."""
    formula = read_formula(text)
    return formula is not None and (bool(formula.brackets) or (not formula.unit and len(set(formula.values)) > 1))


# Digits with a sign of calculation between them: the question's own sum is no answer to it.
_WORKING: Final = rf"sqrt|{_FUNCTIONS.replace(' ', '|')}"
_UNWORKED = re.compile(
    r"(?=.*(?:[0-9)}]\s?(?:[-+*×·÷^]|\\(?:cdot|times|div)\b)\s?[-+]?\s?[0-9({\\]"
    rf"|√|[0-9)]!|(?:{_WORKING})))(?!10\s?\^)"
    rf"(?:[-+*/×·÷^(){{}}\s0-9.,√°\[\]_!]|\\?(?:[dt]?frac|cdot|times|div|left|right|{_WORKING})(?![A-Za-z]))+"
)
_DECIMAL = re.compile(r"[0-9]\.[0-9]{6,}")
_SIX_PLACES: Final = 5e-7


def _is_rounded(prediction: str, gold: str) -> bool:
    """Tell whether one of two constants is a decimal of six places or more, and the other within half a millionth."""
    first, second = read_formula(prediction), read_formula(gold)
    if first is None or second is None or first.brackets or second.brackets or first.unit != second.unit:
        return False
    decimal = _DECIMAL.search(prediction) or _DECIMAL.search(gold)
    pairs = zip(first.values, second.values, strict=True)
    return decimal is not None and all(cmath.isclose(a, b, rel_tol=_SIX_PLACES) for a, b in pairs)


MATH = MathGrader()
