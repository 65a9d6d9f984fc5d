"""Formulas by hand: what the grammar reads, at which bounds it stops, and when two values, units or brackets agree."""

from __future__ import annotations

import cmath
import math

import pytest
from tests.grading.rows import rows

from saccade.grading.formula import (
    DEEPEST,
    LARGEST_EXPONENT,
    LONGEST,
    SETTINGS,
    NoValueError,
    read_formula,
    same_formula,
    told_apart,
    values_of,
)

READ = {
    "7": 7,
    ".5": 0.5,
    "1,234.5": 1234.5,
    "2+3-4": 1,
    "2-3+4": 3,
    "2*3/4": 1.5,
    r"2 \times 3 \div 4 \cdot 5": 7.5,
    "2×3÷4·5": 7.5,
    "-2": -2,
    "--2": 2,
    "+2": 2,
    "3*-2": -6,
    "2(3+4)": 14,
    "(2)(3)": 6,
    "[2+1]{3}": 9,
    "2^3": 8,
    "2**3": 8,
    "2^-1": 0.5,
    "2^+1": 2,
    "-2^2": -4,
    "2*3^2": 18,
    "e": math.e,
    "pi": math.pi,
    "π": math.pi,
    r"2\pi": 2 * math.pi,
    "180°": math.pi,
    "180°^2": math.pi**2,
    r"\sin 30°": 0.5,
    "sin(pi/2)": 1,
    "cos(pi)": -1,
    "tan(pi/4)": 1,
    "arcsin(1)": math.pi / 2,
    "arccos(-1)": math.pi,
    "arctan(1)": math.pi / 4,
    r"\log 100": 2,
    r"\ln e": 1,
    "exp(2)": math.e**2,
    "sqrt(9)": 3,
    "√16": 4,
    r"\sqrt{2}": math.sqrt(2),
    r"\sqrt{-4}": 2j,
    r"\sqrt{1-5}": 2j,
    r"\sqrt[3]{27}": 3,
    r"\sqrt[1]{5}": 5,
    r"\sqrt[9]{512}": 2,
    r"\frac{1}{2}": 0.5,
    r"\frac12": 0.5,
    r"\frac{12}{3}": 4,
    r"3\frac14": 3.25,
    r"-1\frac{1}{2}\pi": -1.5 * math.pi,
    r"2\frac{3}{2}": 3,
    r"2\frac{x}{x}": 2,
    r"\frac12+1": 1.5,
    r"\frac12 \cdot 4 - 1": 1,
    r"\frac1{4}": 0.25,
    r"\frac{3}4": 0.75,
    r"\binom{5}{2}": 10,
    r"\dbinom{5}{0}": 1,
    r"\tbinom{5}{5}": 1,
    r"\binom{300}{1}": 300,
    "x-x": 0,
    r"\frac{2x}{x}": 2,
    f"{2**0.5}^2": 2,
    "(" * (DEEPEST - 1) + "5" + ")" * (DEEPEST - 1): 5,
    f"1^{LARGEST_EXPONENT}": 1,
    f"1^-{LARGEST_EXPONENT}": 1,
}


@rows("text", READ)
def test_a_formula_has_the_value_that_it_has_by_hand(text: str) -> None:
    values = values_of(text)
    assert len(values) == SETTINGS
    assert all(cmath.isclose(value, READ[text], rel_tol=1e-12, abs_tol=1e-12) for value in values)


@rows(
    "text",
    [
        "",
        " ",
        "two",
        "the",
        "2 3",
        "x 2 3",
        "(1) 2 3",
        "2+",
        "2+*3",
        "+",
        "(2",
        "2)",
        "(2]",
        "{2)",
        "2;3",
        "2^3^2",
        "2**3**2",
        f"1^{LARGEST_EXPONENT + 1}",
        f"1^-{LARGEST_EXPONENT + 1}",
        "171!",
        "1/0",
        "10^200*10^200",
        "log(0)",
        r"\frac{1}",
        r"\frac{1}{0}",
        r"\frac123",
        r"\frac123 4",
        "10^200*10^40*x^200",  # infinite for one of the values of x alone
        "(1)+" * 5 + "(" * 20 + "5" + ")" * 20,
        r"\frac x2",
        r"\frac.52",
        r"\sqrt[10]{2}",
        r"\sqrt[0]{2}",
        r"\sqrt[3",
        r"\sqrt[3)8",
        r"\unknown",
        r"\binom{2}{3}",
        r"\binom{2.5}{1}",
        r"\binom{5}{1.5}",
        r"\binom{-1}{0}",
        r"\binom{5}{-1}",
        r"\binom{301}{1}",
        r"\binom{\sqrt{-4}}{0}",
        r"\binom{4}{\sqrt{-4}}",
        "(" * 20 + "5" + ")" * 20,
    ],
)
def test_what_is_no_formula_has_no_value(text: str) -> None:
    with pytest.raises(NoValueError):
        values_of(text)


def test_depth_counts_what_is_open_and_not_what_was() -> None:
    assert values_of("+".join(["((1))"] * DEEPEST)) == (DEEPEST,) * SETTINGS
    assert values_of("(" * 19 + "5" + ")" * 19) == (5,) * SETTINGS


def test_letters_stand_for_values_of_their_own() -> None:
    # Verdicts must not depend on the version of this package.
    assert values_of("x") == pytest.approx((2.017074487765367, 2.495540133795986, 2.0640130796076117), rel=1e-12)
    letters = [values_of(letter) for letter in ("a", "b", "x", "X", "x_1", "x_{2}", r"\alpha", r"\theta")]
    assert len(set(letters)) == len(letters)
    assert all(len({*values}) == SETTINGS for values in letters)
    assert all(value.imag == 0 and 0.5 <= value.real < 2.51 for values in letters for value in values)


@rows(
    ("left", "right"),
    [
        (r"\frac{1}{2}", "0.5"),
        ("x = 5", "5"),
        ("(5)", "5"),
        ("[x+1]", "1+x"),
        ("((5))", "(5)"),
        ("A_{n}=5", "5"),
        ("f(x) = 2x", "x+x"),
        ("(a+b)^2", "a^2+2ab+b^2"),
        (r"\sqrt{2}", "1.4142135623731"),
        (r"\sqrt{2}", "1.414213562373095"),
        ("(1, 2)", r"\left(1, 2\right)"),
        (r"\{1, 2\}", r"\{2, 1\}"),
        (r"\{1, 1, 2\}", r"\{1, 2, 1\}"),
        (r"\{3\}", r"\{6/2\}"),
        ("[0, 1)", "[0, 2/2)"),
        ("(0, 1]", "(0, 1]"),
        ("((1, 2), 3)", "((1, 2), 6/2)"),
        ("(f(1), 2)", "(f(1), 2)"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix}1&2\\[2pt]3&4\\\end{bmatrix}"),
        ("90°", r"\frac{\pi}{2}"),
        (r"\frac{\pi}{2}", "90°"),
        ("90 degrees", r"\pi/2 rad"),
        ("1 radian", "57.29577951308232°"),
        ("45°", "45"),
        (f"{math.degrees(1.5707963)}°", "1.5707963"),
        ("5+x/10^{10}", "5"),  # as near as what holds letters must be
        ("0°", "0"),
        ("5 cm", "5"),
        ("5cm", "5 cm"),
        ("5 m", "5 metres"),
        ("5", "5 cm"),
        ("5 cm", "5.0 centimeters"),
        (r"5\text{ cm}^2", "5 square cm"),
        ("5 cubic cm", "5 cm^3"),
        ("5 sq cm", "5 cm^{2}"),
        ("5 units", "5 unit"),
        ("5 square units", "5 units^2"),
        ("2x", "x*2"),
        ("2x 3", "6x"),
        ("3m", "3m"),
    ],
)
def test_formulas_that_are_the_same(left: str, right: str) -> None:
    assert same_formula(left, right) is same_formula(right, left) is True
    assert told_apart(left, right) is False


@rows(
    ("left", "right"),
    [
        ("1/3", "0.333"),
        (r"\sqrt{2}", "1.41421356237"),
        ("(a+b)^2", "a^2+b^2"),
        ("x", "y"),
        ("(1, 2)", "(2, 1)"),
        ("(1, 2)", "(1, 2, 3)"),
        (r"\{1, 2\}", r"\{1, 2, 3\}"),
        (r"\{1, 2, 3\}", r"\{1, 2\}"),
        (r"\{1, 1, 2\}", r"\{1, 2, 2\}"),
        (r"\{3\}", r"\{4\}"),
        ("[0, 1)", "[0, 2)"),
        ("((1, 2), 3)", "((1, 4), 3)"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&5\end{pmatrix}"),
        (r"\begin{pmatrix}1&2&3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"),
        ("90°", r"\frac{\pi}{3}"),
        ("90°", "1.5708"),  # a short decimal near a multiple of pi
        ("90°", "1.570796"),
        ("57.29577951308232°", "1"),
        (f"{math.degrees(1.570796)}°", "1.570796"),
        ("5 cm", "5 m"),
        ("5m", "5 m"),
        ("5 cm", "5 cm^2"),
        ("5 cm^2", "5 cm^3"),
        ("5 square cm", "5 cubic cm"),
        ("5 units", "5 square units"),
        ("5 units", "5 cm"),
        ("5 cm", "6"),
        ("x", "2.017074487765367"),  # what x stands for once
        ("3m", "3"),  # a letter grown onto a digit is a letter
    ],
)
def test_formulas_that_are_not_the_same(left: str, right: str) -> None:
    assert same_formula(left, right) is same_formula(right, left) is False
    assert read_formula(left) is not None
    assert read_formula(right) is not None


@rows(
    ("left", "right"),
    [
        ("(1, 2)", r"\{1, 2\}"),
        ("(1, 2)", "[1, 2]"),
        ("(1, 2]", "[1, 2)"),
        (r"\begin{pmatrix}1&2\end{pmatrix}", "(1, 2)"),
    ],
)
def test_formulas_of_another_kind(left: str, right: str) -> None:
    assert told_apart(left, right) is True
    assert same_formula(left, right) is False


@rows(
    "text",
    [
        "",
        "the dog",
        "1, 2",
        "(1,, 2)",
        "(1, 2, )",
        "(1), 2)",
        "(1), (2, 3)",
        "((1, 2), 3",
        r"\{1, 2",
        r"\{12345",
        r"(12345\}",
        "((1, 2)",
        r"\begin{pmatrix}1&2\\3\end{pmatrix}",
        r"\begin{pmatrix}\end{pmatrix}",
        "(1, (1, (1, (1, (1, (1, 2))))))",
        "1+" * (LONGEST // 2) + "1",
    ],
)
def test_what_is_no_formula_is_the_same_as_nothing(text: str) -> None:
    assert read_formula(text) is None
    assert not same_formula(text, text)
    assert not told_apart(text, "(1, 2)")


def test_the_longest_formula_and_the_deepest_brackets_are_read() -> None:
    assert read_formula("1+" * (LONGEST // 2 - 1) + "10") is not None
    assert read_formula("(1, (1, (1, (1, 2))))") is not None
    assert read_formula("(1, (1, (1, (1, (1, 2)))))") is None
    assert read_formula(r"\{" * 4 + "3" + r"\}" * 4) is not None
    assert read_formula(r"\{" * 5 + "3" + r"\}" * 5) is None
    for brackets, read in ((3, True), (4, False)):
        cell = "(1, " * brackets + "2" + ")" * brackets
        matrix = rf"\begin{{pmatrix}}{cell}\end{{pmatrix}}"
        assert (read_formula(matrix) is not None) is read
