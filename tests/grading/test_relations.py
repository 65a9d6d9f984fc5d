r"""Equations, inequalities, intervals, solutions and systems: what meets a gold answer, and what must not."""

from __future__ import annotations

from tests.grading.rows import rows

from saccade.grading.equals import stated
from saccade.grading.registry import load_grader
from saccade.record.task import Task

LAZY = ("0", "1", "=0", "x=0", "y=1", "x", "y", "=", "0=0", "1=1", "x=x", "", "25", "yes", "A", "{0}", "(0,0)", "x>0")

# Each gold answer: what meets it, and what does not.
TABLE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "3x-y+13=0": (
        (
            "3*x - y + 13 = 0",
            "6x-2y+26=0",
            "0 = 3x - y + 13",
            "y = 3x+13",
            "-3x+y=13",
            "y-3x-13=0",
            "$3x - y = -13$",
            r"The line is $3x-y+13=0$.",
            r"\boxed{y=3x+13}",
            r"\frac{3x-y+13}{2}=0",
            "y=13+3x",
            "f(x)=3x+13",
        ),
        ("3x+4y+14=0", "3x-y-13=0", "x=3x+13", "3x-y+13", "3x-y+13>0", "3x-y+13=1", "3x - z + 13 = 0", "(3x-y+13)^2=0"),
    ),
    "x^2+y^2=25": (
        (
            "x² + y² = 25",
            "y^2+x^2=25",
            "25=x^2+y^2",
            "x^2+y^2-25=0",
            "2x^2+2y^2=50",
            "x**2 + y**2 = 5^2",
            r"x^{2}+y^{2}=25",
            "The equation is x^2 + y^2 = 25.",
        ),
        ("x+y=25", "x^2-y^2=25", "x^2+y^2=5", "x^2+y^2", "x^2+y^2=25z", "(x+y)^2=25", "x^2+y^2<25", "x^2=25", "5"),
    ),
    "2x+3y=6": (("3y+2x=6", "y = 2 - \\frac{2}{3}x", r"\frac{x}{3}+\frac{y}{2}=1"), ("3x+2y=6", "6", "2x+3y=7")),
    r"\frac{x^2}{4}+y^2=1": (
        (r"y^2+\frac{x^2}{4}=1", "x^2+4y^2=4", r"\frac{x^{2}}{4} + \frac{y^{2}}{1} = 1"),
        (r"\frac{x^2}{9}+y^2=1", r"\frac{y^2}{4}+x^2=1"),
    ),
    "y=x^2": (
        ("x^2=y", "y = x*x", "f(x)=x^2", "x^2", "y - x^2 = 0", "2y=2x^2", r"y=\frac{x^3}{x}"),
        ("x=x^2", "x=y^2", "y=x", "y=2x", "y^2=x^2", "y=x^3", "x^2=0", "y>x^2"),
    ),
    "f(x)=2x+1": (
        ("y=2x+1", "2x+1", "1+2x", "f(x) = 1 + 2x", "2x-y+1=0"),
        ("g(x)=2x+1", "f(x)=2x-1", "2x", "x=2x+1", "f(2)=5", "f'(x)=2x+1"),
    ),
    "x=3": (
        (
            "3",
            "x = 3",
            "3=x",
            "x=3.0",
            r"x=\frac{6}{2}",
            "x = 1+2 = 3",
            r"2x=6 \Rightarrow x=3",
            "x: 3",
            "Answer: x = 3",
            "The solution is x = 3.",
        ),
        ("y=3", "2x=6", "x-3=0", "x^2=9", "x=-3", "x>3", "x=3y", "3x", "x=3,4", "x=3 or x=4", "x=30", "x+3=0", "x≠3"),
    ),
    "x=0": (("0", "x=0", "0=x"), ("y=0", "x^2=0", "2x=0", "sin x = 0", "x=1", "xy=0")),
    "x^2=5": (("x^2=5", "5=x^2", "2x^2=10", "x^2-5=0"), ("5", "x=5", "x", "x^2=25", r"x=\sqrt{5}", r"\sqrt 5")),
    r"x=\pm 2": (
        (
            "x=2 or x=-2",
            "x = -2, 2",
            r"\pm 2",
            "±2",
            "x_1=2, x_2=-2",
            r"x \in \{-2, 2\}",
            r"\{2,-2\}",
            "2 and -2",
            r"x=2 \text{ or } x=-2",
            "x=±2",
        ),
        ("2", "-2", "x=2", "x=-2", "x=2 or x=3", "x^2=4", "x=2, x=2", "|x|=2", r"\pm 3", "-2<x<2"),
    ),
    r"x=1\pm\sqrt{2}": (
        (r"1\pm\sqrt{2}", r"x=1+\sqrt2 \text{ and } x=1-\sqrt2", r"1-\sqrt{2}, 1+\sqrt{2}"),
        (r"1+\sqrt{2}", r"\pm\sqrt{2}", r"1\pm\sqrt{3}", r"x=1\pm 2"),
    ),
    r"\pm 2021": ((r"\pm 2021", "±2021", "2021, -2021", "2021 or -2021"), ("2021", "-2021", r"\pm 2020")),
    "2021": (("x=2021",), (r"\pm 2021", "±2021", "2021, -2021")),
    "x=1 or x=2": (
        ("x=2 or x=1", "x = 1, 2", "1, 2", "2 and 1", r"\{1,2\}", "x=1; x=2", "x_1 = 1, x_2 = 2", "x=1 and x=2"),
        ("1", "x=1", "12", "(1,2)", "1<x<2", "x=1 or x=3", "1, 2, 3", "x=1, y=2", "x=1 or x=2 or x=3"),
    ),
    "x=1, y=2": (
        (
            "y=2, x=1",
            "x = 1 and y = 2",
            "(1, 2)",
            "(x,y)=(1,2)",
            "(y, x) = (2, 1)",
            r"\begin{cases} x=1 \\ y=2 \end{cases}",
        ),
        ("x=2, y=1", "(2,1)", "x=1", "y=2", "1, 2", "x=1, y=3", "x=1, x=2", "x=1, z=2"),
    ),
    r"\begin{cases} x+y=3 \\ x-y=1 \end{cases}": (
        (
            r"\begin{cases} x-y=1 \\ x+y=3 \end{cases}",
            "x+y=3, x-y=1",
            "x + y = 3 and x - y = 1",
            "2x-2y=2; y+x=3",
            r"\left\{\begin{array}{l} x+y=3 \\ x-y=1 \end{array}\right.",
        ),
        ("x+y=3", "x+y=3, x-y=2", "x+y=3 or x-y=1", "3, 1", "x+y=3, x+y=3", "(2,1)", "x=2, y=1"),
    ),
    "x>3": (
        (
            "3<x",
            "x > 3.0",
            "-x<-3",
            r"x \gt 3",
            r"(3,\infty)",
            "(3, ∞)",
            r"x\in(3,\infty)",
            r"x \in (3, +\infty)",
            r"\{x \mid x>3\}",
            r"\{x | 3 < x\}",
        ),
        (
            "x<3",
            "x≥3",
            "3",
            "x=3",
            "y>3",
            "-x>-3",
            r"[3,\infty)",
            r"(-\infty,3)",
            "x>4",
            "x>3 or x<0",
            "x>3, x<5",
            "3>x",
        ),
    ),
    r"x\le 3": (
        (r"3\ge x", "x<=3", "x ≤ 3", r"x \leq 3", r"x \leqslant 3", r"(-\infty,3]", "-x>=-3"),
        ("x<3", "x>=3", "3", r"(-\infty,3)"),
    ),
    "2x-y<3": (
        ("y-2x>-3", "-2x+y>-3", "4x-2y<6", "3>2x-y", "2x<3+y", "2x-3<y", "y>2x-3"),
        ("2x-y>3", "y-2x<-3", r"2x-y\le 3", "2x-y=3", "-4x+2y<-6", "3"),
    ),
    "2 \\le x < 5": (
        (
            "[2,5)",
            "x ∈ [2,5)",
            r"x\in[2, 5)",
            "5 > x >= 2",
            r"x \ge 2 \text{ and } x<5",
            "x<5, x≥2",
            r"\{x : 2\le x<5\}",
            "2<=x<5",
        ),
        ("(2,5)", "[2,5]", "2<x<5", "(2,5]", "x<5", "x≥2", "2, 5", r"\{2,5\}", "2≤y<5", r"x\ge 2 \text{ or } x<5"),
    ),
    r"x\in[a,b)": (("x∈[a,b)", "[a,b)"), ("[a,b]", "(a,b)", "[b,a)", "y∈[a,b)")),
    "(-1,4)": (("-1<x<4", r"x\in(-1,4)", "(-1, 4)"), ("[-1,4]", "(4,-1)", r"-1\le x<4", "-1,4", "-1<x<5")),
    r"(-\infty,1)\cup(4,\infty)": (
        (r"(4,\infty)\cup(-\infty,1)", "x<1 or x>4", "x<1, x>4", r"x \in (-\infty,1) \cup (4,\infty)", "x>4 or x<1"),
        (r"(-\infty,1]\cup(4,\infty)", r"(-\infty,1)", "1<x<4", "x<1", "x<1 and y>4", r"(-\infty,1)\cup(5,\infty)"),
    ),
    r"x\ne 3": (
        ("x≠3", "x != 3", r"(-\infty,3)\cup(3,\infty)", r"\mathbb{R}\setminus\{3\}", "x<3 or x>3", r"x \neq 3"),
        ("x=3", "3", "x>3", r"\mathbb{R}", r"x\ne 4"),
    ),
    r"\mathbb{R}": ((r"(-\infty,\infty)", r"x\in\mathbb{R}", "all real numbers"), ("0", r"(0,\infty)", r"x\ne 0")),
    r"\{1,2,3\}": ((r"\{3,2,1\}", "1, 2, 3", "x=1, x=2, x=3", r"x\in\{1,2,3\}"), ("123", r"\{1,2\}", "1", "(1,2,3)")),
    r"A=\begin{pmatrix}1&2\\3&4\end{pmatrix}": (
        (r"\begin{bmatrix}1&2\\3&4\end{bmatrix}", r"A = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
        (r"B=\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&5\end{pmatrix}", "1", r"A=1"),
    ),
    "A = \\pi r^2 = 9\\pi": (("9\\pi", "A=9\\pi", "A = 3^2 \\pi"), ("A=9", "9", "r^2=9\\pi", "A=\\pi r")),
    "V = \\frac{4}{3}\\pi r^3": (
        ("\\frac{4}{3}\\pi r^3", "V=\\frac{4\\pi r^3}{3}", "3V=4\\pi r^3"),
        ("V=\\frac{4}{3}\\pi r^2", "V=4\\pi r^3", "r=\\frac{4}{3}\\pi r^3"),
    ),
    "6\\pi": (("Area = 6\\pi \\text{ cm}^2", "A=6\\pi", "x = 6π"), ("6", "x^2=6\\pi", "2x = 6\\pi", "\\pi=6")),
    "5": (
        (
            "x=5",
            "2+3=5",
            "Area = 5",
            "f(x) = 5",
            "AB = 5",
            "m\\angle A = 5",
            "P(A)=5",
            "x = 10/2 = 5",
            "\\sqrt{25} = 5",
        ),
        (
            "x^2=5",
            "2x=5",
            "x+y=5",
            "f(2)=5",
            "f(5)=x",
            "f(5)",
            "sqrt(5)",
            "\\sqrt{5}",
            "log 5",
            "\\log 5",
            "5!",
            "5^2",
            "-x=5",
            "x/2=5",
            "|x|=5",
            "xy=5",
            "x>5",
            "x\\ge5",
            "5<x",
            "x≠5",
            "±5",
            "e^5",
            "5:1",
            "5 = 2x",
            "\\theta^2=5",
            "x!=5",
            "sin(5)",
        ),
    ),
    "(1,2)": (
        ("(1, 2)", "x=1, y=2", "(x,y)=(1,2)"),
        ("(2,1)", "x=2, y=1", "x=1", "1, 2", "12", r"\{1,2\}", "x=1, y=3"),
    ),
    "x=2, y=3 or x=3, y=2": (
        ("x=3, y=2 or x=2, y=3", "y=3, x=2 or y=2, x=3"),
        ("x=2, y=2 or x=3, y=3", "x=2, y=3", "2, 3", "x=2, y=3 or x=2, y=3"),
    ),
    "f(x)=x^2": (("f(t)=t^2", "x^2", "y=x^2"), ("f(t)=x^2", "g(x)=x^2", "f(t)=t")),
    r"\frac{dy}{dx}=2x": (("2x", "dy/dx = 2x", "y'=2x"), ("y=2x", "x", "y''=2x")),
    "a_n=2n+1": (("a_{n} = 2n+1", "2n+1"), ("b_n=2n+1", "a_n=2n")),
    "xyz=6": (("yxz=6", "2xyz=12"), ("6", "xy=6")),
    "PV=nRT": (("nRT=PV", "PV = nRT", "2PV=2nRT"), ("PV=nR", "P=nRT", "nT")),
    r"1\frac{1}{2}\pi": ((r"\frac{3\pi}{2}", r"1.5\pi"), (r"0.5\pi", r"\frac{\pi}{2}")),
    r"\emptyset": ((r"\varnothing", r"\emptyset"), ("0", r"\{0\}")),
    "3": (("x=3",), ("4=3", "0=1=2=3", "x=4=3", "x=0 or x=3", "x=0, y=3", "x=0,y=3", "x=1 and y=3", "x=2; x=3")),
    "y=2x": (("f(x)=2x", "2x"), ("f'(x)=2x", "f^{-1}(x)=2x", "x=2y", "y'=2x")),
    r"\{3,-3\}": (("3, -3", "±3", "x=3 or x=-3"), ("(-3,3)", "(3,-3)", "x=3, y=-3", "3")),
    "{3,-3}": (("3, -3", r"\{-3, 3\}", "x=3 or x=-3"), ("(-3,3)", "(3,-3)", "3")),
    "(0,1)": (("0<x<1", "x=0, y=1"), ("x=0 or y=1", "x=0 or x=1", "0, 1")),
    "xy=12": (("yx=12", "2xy=24", "12=x y"), ("12", "x+y=12", "x=12")),
    "x=2y": (("2y=x", "y=x/2", "x-2y=0"), ("y=2x", "2", "x=2")),
    "0.5": (("1/2", "P=0.5", "x=0.5"), ("x^2=0.5", "\\sin x=0.5")),
    "AB=5": (("5", "AB = 5"), ("BC=5", "AB^2=5", "2AB=5")),
    "e^{-40}": (("e^{-40}", "\\frac{1}{e^{40}}"), ("e^{-41}", "0", "-e^{-40}", "e^{-39}", "10^{-17}")),
    "2^{-99}": (("\\frac{1}{2^{99}}", "2^{-100} \\cdot 2"), ("2^{-98}", "\\frac{1}{2^{98}}", "0", "10^{-30}")),
    "10^{-12}": (("1e-12", "0.000000000001"), ("10^{-13}", "2e-12", "0", "1e-11")),
    "2^{99}": (("2 \\cdot 2^{98}",), ("2^{98}", "2^{99}+2^{80}")),
    "\\frac{1}{2004!}": (("\\frac{1}{2004!}",), ("\\frac{1}{2006!}", "0", "\\frac{1}{2004}")),
    "12:00": (("12:00",), ("1:00", "12", "12:01")),
    "3:1": (("3:1",), ("3", "6", "1:3")),
    "\\sin(\\pi)": (("0", "\\sin \\pi"), ("10^{-16}", "1")),
}


@rows("gold", TABLE)
def test_an_equation_is_met_by_an_equal_one_and_not_by_its_right_side(gold: str) -> None:
    accepted, rejected = TABLE[gold]
    task = Task(id="row", question="Which one is it?", answer=gold)
    lazy = tuple(answer for answer in LAZY if answer not in accepted and f"{answer}.0" not in accepted)
    lazy = () if gold in ("x=0", "\\sin(\\pi)", "xy=12") else lazy
    failed = [answer for answer in accepted if not load_grader("math").grade(answer, task).accepted]
    failed += [
        f"accepted: {answer}" for answer in (*rejected, *lazy) if load_grader("math").grade(answer, task).correct
    ]
    assert not failed


@rows(
    ("text", "value"),
    [
        ("x=5", "5"),
        ("P(X=2)=0.3", "0.3"),
        ("length × width = 24", "24"),
        ("3 apples + 2 apples = 5 apples", "5 apples"),
        ("A = bh/2 = 6", "6"),
        ("So, x^2 = 25, and x = 5", "5"),
        ("n = 5 (since 2 + 3 = 5)", "5)"),
        ("2x=10 => x=5", "5"),
        ("\\theta = 30", "30"),
        ("f^{-1}(x)=5", "5"),
        ("5 = x", "5"),
        ("5 = 2x", "2x"),
        ("no equation", "no equation"),
        *(
            (text, None)
            for text in ("2\\theta=60", "bh/2=6", "C(5,2)=10", "AB+BC=5", "x = 5 and 2x = 10", "dy=5", "e^x=5")
        ),
    ],
)
def test_an_equation_states_a_value_where_it_solves_for_a_name(text: str, value: str | None) -> None:
    assert stated(text) == value


@rows("grader", ["number", "count", "number-rounded", "number-1pct", "relaxed", "mra", "text"])
@rows(
    "answer",
    ["x^2=5", "f(2)=5", "f(5)=3", "sqrt(5)", "log 5", "ln(5)", "5!", "5^2", "2x=5", "x+y=5", "The answer is x^2 = 5.",
     "±5", "-(-5)", "|x| = 5", "f(5)", "Therefore, 2x = 5", "x > 5", "Answer: \\sqrt{5}", "\\boxed{x^2=5}",
     "sin 5", "C(5)"],
)  # fmt: skip
def test_no_grader_of_numbers_takes_a_number_out_of_a_formula(grader: str, answer: str) -> None:
    assert load_grader(grader).grade(answer, Task(id="row", question="How many?", answer="5")).correct == 0
