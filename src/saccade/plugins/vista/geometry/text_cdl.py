"""`text_cdl` and `goal_cdl`: the statements and the goal of a problem's text, in CDL and as logic forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import Field

from saccade.plugins.vista.geometry.statements import as_cdl
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.definition import ToolModel

# Statements and the goal of a geometry problem in English, as logic forms, by rules.
#
# Reads the phrases of school books, with the signs of LaTeX or in words. A clause that no rule knows is given back
# unread; nothing is guessed.

_LATEX: Final = (
    (r"\$", " "),
    (r"\\(?:odot|bigodot)|⊙|\bcircle(?=\s+[A-Z]\b)", " ⊙ "),
    (r"\\(?:measured)?angle|\bangles?(?=\s+(?:[A-Z](?:\s?[A-Z]){0,2}|\d+)\b)|∠", " ∠ "),
    (r"\\(?:wide(?:hat|parallel)|overarc|frown)|\barc(?=\s+[A-Z])|⌒", " ⌒ "),
    (
        r"\\(?:overline|bar|overleftrightarrow|overrightarrow|overset)|\b(?:segment|line|ray)s?(?=\s+[A-Z]\s?[A-Z]\b)",
        " ",
    ),
    (r"\\perp|⊥|⟂|\bis perpendicular to\b", " ⟂ "),
    (r"\\parallel(?!ogram)|∥|\bis parallel to\b", " ∥ "),
    (r"\\cong|≅|\bis congruent to\b", " ≅ "),
    (r"\\sim|∼|\bis similar to\b", " ~ "),
    (r"\\triangle|△|\btriangle(?=\s+[A-Z])", " △ "),
    (r"\\parallelogram|▱", " parallelogram "),
    (r"\^?\s*\{?\\circ\}?|°|\bdegrees?\b", " "),
    (r"\\(?=sin|cos|tan)", ""),
    (r"[{}]", " "),
)
_POLYGONS: Final = (
    "parallelogram|rectangle|rhombus|square|trapezoid|kite|quadrilateral|polygon|pentagon|hexagon|octagon"
)
_ASKING: Final = (
    "[Ff]ind|[Ss]olve for|[Dd]etermine|[Cc]alculate|[Ww]hat is|[Hh]ow long is|[Hh]ow large is|[Hh]ow large are|Evaluate"
)
_BREAK: Final = r"\.\s(?=[A-Z])|(?<!\d)\.\s|\.$|[?!;]|,|\band\b|\b[Ii]f\b|\bso that\b|\bsuch that\b|\bwhere\b|\bwhen\b"
_LEAD: Final = r"^(?:In|Given|Let|Assume|Suppose|Use|Then|that|to|(?:In )?the figure(?! is ))\s+"
_UNITS: Final = r"(?:[Ll]engths are )?in(?: square)?(?: \w+)?"
"""Says in which units the answer is; the forms have none."""
_OF_UNITS: Final = " (?:units?|inch|feet|foot|yards?|miles?|[cmk]?m\\b|(?:centi|milli|kilo)?met)"
"""After `square`."""
_IN: Final = r"(?:[Aa]s shown )?[Ii]n "
_PICTURE: Final = r"(?:[Tt]he|[Tt]his) (?:figure|diagram|picture)(?: (?:below|above|shown|drawn))?"
"""Names the picture and says nothing of it."""
_NUMBER: Final = r"[-+]?[\w\\./√()^+\-*]*[\w)]"
_WORD: Final = r"(?<!\\)\b(?!sqrt|sin|cos|tan)[a-z]{3}"
_ROLES: Final = {"diameter": "IsDiameterOf", "radius": "IsRadiusOf", "chord": "IsChordOf"}
_LINES: Final = {"median": "IsMedianOf", "altitude": "IsAltitudeOf", "midsegment": "IsMidsegmentOf"}
_CENTRES: Final = {"incenter": "IsIncenterOf", "centroid": "IsCentroidOf"}
_SIZES: Final = {
    "area": "AreaOf", "perimeter": "PerimeterOf", "circumference": "CircumferenceOf", "radius": "RadiusOf",
    "diameter": "DiameterOf",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class EnglishForms:
    """Meaning of a text."""

    statements: tuple[str, ...]
    goal: str
    """As in `Find(x)`; empty if the text asks for nothing that is known."""
    unread: tuple[str, ...]
    """Clauses that no rule knows."""


def read_english(text: str) -> EnglishForms:
    """Return statements, goal and what was not understood."""
    statements: list[str] = []
    unread: list[str] = []
    goal = ""
    plain = _plain(text)
    for clause in _clauses(plain):
        asked = _goal(clause) or _goal_of_it(clause, plain)
        said = [] if asked else list(_statements(clause))
        goal = goal or asked
        statements += said
        if not asked and not said:
            unread.append(clause)
    return EnglishForms(tuple(dict.fromkeys(statements)), goal, tuple(unread))


def _plain(text: str) -> str:
    for pattern, sign in _LATEX:
        text = re.sub(pattern, sign, text)
    # `A B = 30` names one line; so do three letters of an angle.
    text = re.sub(r"\b([A-Z])\s+(?=[A-Z]\b)", r"\1", text)
    return re.sub(r"\s+", " ", text).strip()


def _clauses(text: str) -> Iterator[str]:
    for part in re.split(_BREAK, text):
        clause = re.sub(_LEAD, "", part.strip())
        if clause.strip(" .") and not re.fullmatch(rf"{_UNITS}|(?:{_IN})?{_PICTURE}", clause):
            yield re.sub(rf" {_IN}{_PICTURE}$", "", clause.strip(" ."))


def _line(name: str) -> str:
    return f"Line({name[0]},{name[1]})"


def _poly(kind: str, name: str) -> str:
    return f"{kind}({','.join(name)})"


def _angle(name: str) -> str:
    return f"Angle({','.join(name)})" if name.isalpha() else f"Angle({name})"


def _measured(text: str) -> str:
    """Return the term that a measure names: `m ∠ ABC`, `m ⌒ AB`, `AB`, `x`; empty for none."""
    text = text.strip()
    if match := re.fullmatch(r"(?:m )?∠ ?([A-Z]{1,3}|\d+)", text):
        return f"MeasureOf({_angle(match[1])})"
    if match := re.fullmatch(r"(?:m )?⌒ ?([A-Z]{2,3})", text):
        return f"MeasureOf({_poly('Arc', match[1])})"
    if match := re.fullmatch(r"(sin|cos|tan) ?(?:∠ ?)?([A-Z]{1,3}|[a-z])", text):
        angle = _angle(match[2]) if match[2][0].isupper() else match[2]
        return f"{match[1].capitalize()}Of({angle})"
    if re.fullmatch(r"[A-Z]{2}", text):
        return f"LengthOf({_line(text)})"
    return text if re.fullmatch(r"[a-z]", text) else ""


def _goal(clause: str) -> str:
    match = re.search(rf"(?:^|\b)(?:{_ASKING})\s+(.+)$", clause)
    if match is None:
        return ""
    if shape := _sized(match[1].strip()):
        return f"Find({shape})"
    asked = re.sub(r"^(?:the )?(?:value of|measure of|length of|side)\s+", "", match[1].strip())
    asked = re.sub(r"^(?:the )?(?:measure of|length of|side|angle marked|value of)\s+", "", asked)
    asked = re.sub(r"\s+(?:in|of) (?:the|this) .*$|\s*\(.*\)$| marked$|\s+to the nearest .*$", "", asked).strip()
    term = _measured(asked) or _sized(asked)
    return f"Find({term})" if term else ""


def _goal_of_it(clause: str, text: str) -> str:
    """Return `What is its area`, where the text is about one figure."""
    match = re.search(rf"\b(?:{_ASKING})\s+(?:its|the)\s+({'|'.join(_SIZES)})$", clause)
    named = {_figure(name) for name in re.findall(r"⊙ ?[A-Z]\b|△ ?[A-Z]{3}\b|\b[A-Z]{4,8}\b", text)}
    nouns = {_figure(noun) for noun in re.findall(rf"\b(?:{_NOUNS}|circle)\b(?!{_OF_UNITS})", text.lower())}
    kinds = {kind[0] if (kind := re.match("Circle|Triangle", shape)) else "polygon" for shape in named | nouns}
    if match is None or len(named or nouns) != 1 or len(kinds) != 1:
        return ""
    is_round = match[1] in ("circumference", "radius", "diameter")
    return "" if is_round and kinds != {"Circle"} else f"Find({_SIZES[match[1]]}({(named or nouns).pop()}))"


def _sized(text: str) -> str:
    match = re.fullmatch(rf"(?:the |its )?({'|'.join(_SIZES)}) of (?:the )?(.+)", text)
    shape = "" if match is None else _figure(match[2].strip())
    return f"{_SIZES[match[1]]}({shape})" if match and shape else ""


def _figure(text: str) -> str:
    if match := re.fullmatch(r"⊙ ?([A-Z])", text):
        return f"Circle({match[1]})"
    if match := re.fullmatch(r"△ ?([A-Z]{3})", text):
        return _poly("Triangle", match[1])
    if match := re.fullmatch(rf"(?:({_POLYGONS}) )?([A-Z]{{4,8}})", text):
        return _poly((match[1] or "quadrilateral").capitalize(), match[2])
    if match := re.fullmatch(rf"(?:right |isosceles |equilateral )?(triangle|circle|{_POLYGONS})", text):
        return f"{match[1].capitalize()}($)"
    return ""


_Maker = Callable[["re.Match[str]"], list[str]]


def _statements(clause: str) -> Iterator[str]:
    for pattern, make in _RULES:
        for match in re.finditer(pattern, clause):
            yield from make(match)
    yield from _equations(clause)


def _equations(clause: str) -> Iterator[str]:
    """`AB = 3x + 5`, `m∠ABC = m∠DEF`, `the radius of ⊙X is 5`."""
    # Not the article of `∠ C is a right angle`.
    parts = re.split(r"\s*=\s*|\s+is\s+(?=[\d\\.√]|[a-z]\b(?! [a-z]{2}))", clause)
    if len(parts) != 2:
        return
    left = re.search(r"(?:(?:m )?[∠⌒] ?(?:[A-Z]{1,3}|\d+)|\b[A-Z]{2}|\b[a-z])$", parts[0])
    a = _sized(parts[0]) or (_measured(left[0]) if left else "")
    right = parts[1].strip()
    joined = right.replace(" ", "")
    number = re.fullmatch(_NUMBER, joined) and not re.search(_WORD, right)
    b = _measured(right) or (joined if number else "")
    if a and b and not re.search(r"[A-Z]{3}", b.replace("MeasureOf", "")):
        yield f"Equals({a},{b})"


def _pair(head: str) -> _Maker:
    return lambda m: [f"{head}({_line(m[1])},{_line(m[2])})"]


def _triangles(head: str) -> _Maker:
    return lambda m: [f"{head}({_poly('Triangle', m[1])},{_poly('Triangle', m[2])})"]


def _same_angles(m: re.Match[str]) -> list[str]:
    return [f"Equals(MeasureOf({_angle(m[1])}),MeasureOf({_angle(m[2])}))"]


def _same_lines(m: re.Match[str]) -> list[str]:
    return [f"Equals(LengthOf({_line(m[1])}),LengthOf({_line(m[2])}))"]


def _of_kinds(words: str | None, shape: str) -> list[str]:
    """Return a figure and what is said of it: `isosceles right` are two statements."""
    kinds = re.findall(r"(?<!-)\b[a-z]+", words or "")
    if shape.startswith("Triangle") and kinds:
        return [f"{kind.capitalize()}({shape})" for kind in kinds]
    # Equal sides alone make no other figure regular, as the forms would have it.
    return [] if "equilateral" in kinds else [shape, *(f"{kind.capitalize()}({shape})" for kind in kinds)]


_A = "(?:an? |the )?"
_THE = "(?:(?:[Tt]he|[Tt]his|[Ee]ach|[Aa]n?) )?"
_WHERE = "(?: (?:below|above|shown|drawn))?"
_NOUNS: Final = f"triangle|{_POLYGONS}"
_KINDS: Final = r"(?:(?:equilateral|isosceles|right|regular)(?:-angled)?\b ?)+"
_SPECIAL: Final = "parallelogram|rectangle|rhombus|square|trapezoid|kite"
_RULES: Final[tuple[tuple[str, _Maker], ...]] = (
    (r"⊙ ?([A-Z])\b", lambda m: [f"Circle({m[1]})"]),
    (r"\b([A-Z]{2}) ⟂ ([A-Z]{2})\b", _pair("Perpendicular")),
    (r"\b([A-Z]{2}) ∥ ([A-Z]{2})\b", _pair("Parallel")),
    (r"\b([A-Z]{2}) ≅ ([A-Z]{2})\b", _same_lines),
    (r"∠ ?([A-Z]{1,3}|\d+) ≅ ∠ ?([A-Z]{1,3}|\d+)", _same_angles),
    (rf"∠ ?([A-Z]{{1,3}}|\d+) is {_A}right(?: angle)?$", lambda m: [f"Equals(MeasureOf({_angle(m[1])}),90)"]),
    (r"△ ?([A-Z]{3}) ≅ △ ?([A-Z]{3})", _triangles("Congruent")),
    (r"△ ?([A-Z]{3}) ~ △ ?([A-Z]{3})", _triangles("Similar")),
    (rf"\b({_POLYGONS}) ([A-Z]{{4,8}})\b(?! is an?)", lambda m: [_poly(m[1].capitalize(), m[2])]),
    (rf"\b([A-Z]{{4,8}}) is an? ({_KINDS})?({_POLYGONS})\b", lambda m: _of_kinds(m[2], _poly(m[3].capitalize(), m[1]))),
    (rf"△ ?([A-Z]{{3}}) is {_A}({_KINDS})", lambda m: _of_kinds(m[2], _poly("Triangle", m[1]))),
    (rf"\b({_KINDS})△ ?([A-Z]{{3}})", lambda m: _of_kinds(m[1], _poly("Triangle", m[2]))),
    # Without a name: the one of the picture.
    (
        rf"^{_THE}(?:figure|shape|{_NOUNS}){_WHERE} is an? ({_KINDS})?({_NOUNS})$",
        lambda m: _of_kinds(m[1], f"{m[2].capitalize()}($)"),
    ),
    (rf"^{_THE}({_NOUNS}){_WHERE} is ({_KINDS})$", lambda m: _of_kinds(m[2], f"{m[1].capitalize()}($)")),
    (rf"^{_THE}({_KINDS})({_NOUNS}){_WHERE}$", lambda m: _of_kinds(m[1], f"{m[2].capitalize()}($)")),
    (rf"^{_THE}({_SPECIAL}){_WHERE}$", lambda m: [f"{m[1].capitalize()}($)"]),
    (rf"\b([A-Z]) is {_A}midpoint of ([A-Z]{{2}})\b", lambda m: [f"IsMidpointOf(Point({m[1]}),{_line(m[2])})"]),
    (r"\b([A-Z]{2}) is tangent to ⊙ ?([A-Z])", lambda m: [f"Tangent({_line(m[1])},Circle({m[2]}))"]),
    (
        rf"\b([A-Z]{{2}}) is {_A}(diameter|radius|chord) of ⊙ ?([A-Z])",
        lambda m: [f"{_ROLES[m[2]]}({_line(m[1])},Circle({m[3]}))"],
    ),
    (r"\b([A-Z]{2}) bisects ∠ ?([A-Z]{1,3})", lambda m: [f"BisectsAngle({_line(m[1])},{_angle(m[2])})"]),
    (
        rf"\b([A-Z]{{2}}) is {_A}(median|altitude|midsegment) of △ ?([A-Z]{{3}})",
        lambda m: [f"{_LINES[m[2]]}({_line(m[1])},{_poly('Triangle', m[3])})"],
    ),
    (
        rf"\b([A-Z]) is {_A}(incenter|centroid) of △ ?([A-Z]{{3}})",
        lambda m: [f"{_CENTRES[m[2]]}(Point({m[1]}),{_poly('Triangle', m[3])})"],
    ),
)
_NAMES_OF_THE_TEXT: Final = MappingProxyType(dict.fromkeys(("question", "problem", "query", "arguments"), "text"))


class ProblemText(ToolModel):
    """A problem in words."""

    text: Annotated[str, Field(min_length=1, max_length=4000, description="The problem as it is worded.")]


class TextCdlResult(ToolModel):
    """Statements of the text."""

    cdl: tuple[str, ...]
    """Statements in the language of FormalGeo; those without a counterpart are in `logic_forms` only."""
    logic_forms: tuple[str, ...]
    """The same as logic forms of Geometry3K, as `inter_gps` takes them; the goal is among them as Find(...)."""
    unread: tuple[str, ...]
    """Clauses that were not understood."""


class TextCdl(Tool[ProblemText, TextCdlResult]):
    """Statements of a text."""

    name = "text_cdl"
    suits = (("problems of geometry", 0),)
    description = (
        "Turn the wording of a plane geometry problem into formal statements. Gives them in CDL and as logic forms, "
        "and the clauses that were not understood. Looks at no picture."
    )
    arguments = ProblemText
    renames = _NAMES_OF_THE_TEXT
    from_task = "text"
    result = TextCdlResult

    def run(self, arguments: ProblemText, context: ToolContext) -> ToolOutcome[TextCdlResult]:
        statements = read_english(arguments.text)
        forms = (*statements.statements, *([statements.goal] if statements.goal else []))
        cdl = tuple(one for form in statements.statements if (one := as_cdl(form)) is not None)
        return ToolOutcome(TextCdlResult(cdl=cdl, logic_forms=forms, unread=statements.unread))


class GoalCdlResult(ToolModel):
    """Quantities that the text asks for."""

    cdl: str | None
    """As in Value(LengthOfLine(AB)); null if the text asks for nothing that is known."""
    logic_form: str | None
    """As in Find(LengthOf(Line(A,B)))."""


class GoalCdl(Tool[ProblemText, GoalCdlResult]):
    """The goal of a text."""

    name = "goal_cdl"
    suits = (("problems of geometry", 1),)
    description = (
        "Turn what a plane geometry problem asks for into a formal goal. Gives it in CDL and as a logic form, or null "
        "if no goal was understood. Looks at no picture."
    )
    arguments = ProblemText
    renames = _NAMES_OF_THE_TEXT
    from_task = "text"
    result = GoalCdlResult

    def run(self, arguments: ProblemText, context: ToolContext) -> ToolOutcome[GoalCdlResult]:
        """Return the first request that is understood."""
        goal = read_english(arguments.text).goal or None
        value = GoalCdlResult(cdl=None if goal is None else as_cdl(goal), logic_form=goal)
        return ToolOutcome(value, text="" if goal else "No goal was understood in this text.")
