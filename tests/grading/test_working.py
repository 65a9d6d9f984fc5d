r"""Worked solutions: which value their last sentence says, and what it must not be taken for."""

from __future__ import annotations

from tests.grading.rows import rows

from saccade.grading.registry import load_grader
from saccade.record.task import Task


def accepted(question: str, gold: str, answer: str) -> bool:
    return load_grader("math").grade(answer, Task(id="row", question=question, answer=gold)).accepted


@rows(
    ("question", "gold", "answer"),
    [
        ("Volume?", r"36\pi\text{ cm}^3", "V = (4/3)πr³ = (4/3)·π·27 = 36π cm³ ≈ 113,1 cm³"),
        ("المساحة؟", r"24\text{ cm}^2", "المساحة = ½ × القاعدة × الارتفاع = ½ × 8 × 6 = 24 سم²"),
        ("Aire ?", r"25\pi", "$\\mathcal{A}=\\pi\\times5^2=25\\pi$ cm², soit environ 78,5 cm²."),
        ("Jaká je hodnota x?", r"2\sqrt{13}", r"$x=\sqrt{52}=2\sqrt{13}\doteq 7{,}21$"),
        ("Simplify.", "a^5b^3", r"$$\frac{(a^2b)^3}{a}=\frac{a^6b^3}{a}=a^{5}b^{3}$$"),
        ("Transfer function?", r"\frac{G}{1+G}", "**Y/R = G/(1 + G)**"),
        ("Find the gradient of z at (1,1).", "(2, 4)", "∇z(1,1) = ⟨2, 4⟩"),
        ("What is sin A?", r"\frac{3}{5}", "sin A = opposite/hypotenuse = 3/5 = 0.6"),
        ("Quelle est l'image de 2 ?", "5", "On lit sur le graphique f(2) = 5."),
        ("Tập nghiệm?", "(-1; 3)", "Vậy tập nghiệm là S = (−1; 3)."),
        ("Виразіть β через α.", r"90^\circ - \alpha", "Сума гострих кутів 90°, тому β = 90° − α."),
        ("点B关于原点的对称点?", "(-3,-2)", "B点坐标为(3, 2)，关于原点对称后横纵坐标都变号，得 (−3, −2)。"),
        ("Phương trình?", "y=x+2", "Đường thẳng đi qua $(-2;0)$ và $(0;2)$ nên có phương trình $y = x + 2$."),
        ("Which interval?", "(-2, 5]", "The open circle at −2 and closed circle at 5 indicate −2 < x ≤ 5."),
        ("Wzór?", "x^2-2x-3", "f(x) = (x + 1)(x − 3) = x² − 2x − 3. Sprawdzenie: f(1) = −4 ✓"),
        ("Jaka liczba mieszana?", r"2\frac{1}{4}", "Dwa koła w całości, a trzecie w jednej czwartej, czyli 2 i 1/4."),
        ("Razão?", "5:3", "São 10 pretos e 6 brancos. 10/6 = 5/3, então a razão é 5 para 3."),
        ("Vector?", r"\begin{pmatrix}3\\-2\end{pmatrix}", r"The translation vector is $\binom{3}{-2}$."),
        ("Zeros?", "-1, 3", "The graph crosses the x-axis at x = −1 and x = 3."),
        ("求x的值", "x=2或x=-3", "分解因式得(x-2)(x+3)=0，所以x=2或x=-3。"),
        ("求sinB", r"\frac{4}{5}", "在Rt△ABC中，AB=5，AC=4，∴sinB=AC/AB=4/5。"),
        ("Find x.", "x=30", "x + 2x + 90 = 180\n3x = 90\nx = 30"),
        ("Geradengleichung?", "y=0.5x-1", "Sie hat die Steigung 0,5, also y = 0,5x − 1."),
    ],
)
def test_the_formula_that_ends_a_working_is_its_answer(question: str, gold: str, answer: str) -> None:
    assert accepted(question, gold, answer)


@rows(
    ("question", "gold", "answer"),
    [
        ("Find x.", "25", "So x² = 25."),
        ("Find x.", "10", "Dann ist 2x = 10."),
        ("Find x.", "5", "所以x=5或x=-5。"),
        ("Find x.", "5", "Por tanto x = 5 y x = −5."),
        ("Find x.", "5", "Therefore |x| = 5."),
        ("Find x.", "x=5", "x = 3\nx = 5"),
        ("Find x.", "7", "5\n7"),
        ("Find AB.", "2", "By similarity, AB/BC = 2."),
        ("Find AB.", "2", "由相似得 AB:BC=2。"),
        ("Find the angle A.", r"\frac12", "so sin A = 1/2"),
        ("Find f(3).", "5", "From the table we read f(2) = 5."),
        ("Angle?", "55°", "∠1+∠2=55°。"),
        ("Fraction?", "3/8", "阴影部分大于3/8。"),
        ("Fraction?", "3/8", "If the figure had 8 parts, it would be 3/8."),
        ("Fraction?", "3/8", "It's between 1/4 and 3/8."),
        ("Vertex?", "(2,5)", "The vertex lies to the left of (2, 5)."),
        ("Vertex?", "(2,5)", "(2, 5) or (2, 4)"),
        ("Line?", "y=2x+1", "La droite est parallèle à y = 2x + 1."),
        ("Line?", "y=2x+1", "f'(x) = 2x + 1"),
        ("Derivative?", "2x", "f(x) = x² = 2x"),
        ("Simplify.", "2x+4", "2(x + 2) = 2x + 2"),
        ("Interval?", "[2,5)", "This gives x ≥ 2."),
        ("Interval?", "(1;3)", "⟨1; 3⟩"),
        ("Ratio?", "5:3", "de 5 a 3"),
        ("Area?", r"9\pi", "A = 9π = 3π"),
        ("Area?", r"24\text{ cm}^2", "S = 24 мм²"),
        ("Equation?", "x^2+y^2=25", "So y² = 25."),
    ],
)
def test_what_a_last_formula_does_not_say(question: str, gold: str, answer: str) -> None:
    assert not accepted(question, gold, answer)
