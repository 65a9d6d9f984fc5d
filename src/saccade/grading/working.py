r"""Read what a worked solution concludes: the formula that ends it, and the value that ends a chain of equalities.

Only the last sentence is read, and only a formula at its end: `V = (4/3)πr^3 = 36π ≈ 113.1` says `36π`, whatever
language the words before it are in. What several formulas list (`x = 1 or x = 2`) is one answer, never its last part.
A side that is no name (`x^2`, `2x`, `AB/BC`) says nothing of the value behind it, unless the question asks for it or
both are equal by algebra.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from saccade.grading.clean import clean, tight, unwrapped
from saccade.grading.equals import FUNCTIONS, NAME, SIGNS, cut, is_name, is_worked, spelt
from saccade.grading.extract import concluded
from saccade.grading.formula import read_formula, same_formula
from saccade.grading.languages import BECAUSE, DOUBT
from saccade.grading.quantities import BOUND_BEFORE, is_known, quantity
from saccade.grading.relations import agree

_LONGEST: Final = 6_000
_LATIN: Final = "A-Za-zÀ-ɏḀ-ỿ"
_PIECE = re.compile(
    r"\\(?:begin|end)\s?\{[a-z*]{1,10}\}|\\[A-Za-z]+|\\[{}|\\]|[0-9]+(?:[.,][0-9]+)*"
    rf"|(?<![{_LATIN}])(?:{FUNCTIONS}|lim|pi|grad)(?![{_LATIN}])|(?<![{_LATIN}])(?:sin|cos|tan)(?=[A-Z](?![a-z]))|(?<=sin|cos|tan)[A-Z]"
    rf"|(?<![{_LATIN}])(?:[A-Z]{{1,4}}|[a-z][A-Za-z]?|(?<=[0-9)/^*+=-])[a-z]{{3}})"
    rf"(?:_(?:\{{[^{{}}]{{1,12}}\}}|[A-Za-z0-9]{{1,5}}))?'*(?![{_LATIN}])"
    r"|(?<![Α-ωά-ώ])[Α-ω](?![Α-ωά-ώ])|[-+*/^=<>≤≥≠≈±∓×·÷√∞∪∩∈∅°%|‖(){}\[\]⟨⟩!&∠△∇∂ℝ∖∣_]"
    rf"|(?<=[0-9A-Za-z)])\s?(?:→|⟶|⇌|->)\s?(?=[0-9]{{0,2}}[A-Z][A-Za-z0-9]*(?![\w(]|\s?=))|(?<=[0-9A-Z)])\s?:\s?(?=[0-9A-Z(])|(?P<inner>[,;])|(?P<word>(?:[^\W\d_A-Za-z]+|[{_LATIN}]+)(?:\^[23])?)|(?P<blank>\s+)"
)
_FORMULA = re.compile(rf"[0-9{SIGNS}\\√π∞∅]|[A-Za-z)]\s?[-+*/·×^]\s?[A-Za-z(]|[A-Z]{{2}}")
_SHORT_WORDS: Final = frozenset(
    """
        is of in to at or as by we so it on an if be no de du le la un en es el il lo al do da na em um se di au ce im
        am zu er og av om ja po že za ou et su us my me up go he hi ma ta te tu ni si mi ya wa vi có là bị od
    """.split()  # noqa: SIM905
)
_UNIT_WORDS: Final = frozenset(("unit", "units", "square", "cubic", "sq"))
_ABROAD: Final = {
    **dict.fromkeys(("سم", "см", "厘米", "公分", "सेमी", "センチメートル", "센티미터"), "cm"),
    **dict.fromkeys(("м", "م", "米", "मीटर", "メートル", "미터"), "m"),
    **dict.fromkeys(("мм", "مم", "毫米"), "mm"),
    **dict.fromkeys(("br", "birim", "ед", "од", "单位", "單位", "단위"), "units"),
}
_UNIT_ABROAD = re.compile(
    r"(?<=[0-9)}π\s])(?:(?P<square>平方|वर्ग|кв\.?|квадратных)|(?P<cubic>立方|घन|куб\.?))?\s?"
    rf"(?P<unit>{'|'.join(_ABROAD)})(?![^\W\d_])"
)
_UNIT_IN_BRACKETS = re.compile(r"(?<=[0-9πi}])\s?\((?P<unit>(?:[cdkm]m|m|kg|ft|in)(?:\^[23])?)\)")
_REMARK = re.compile(r"\s\((?=[^()]{0,200}(?<![^\W\d_])(?<!\\)[^\W\d_]{3})[^()]{1,200}\)")
_OPEN_PAIR = re.compile(r"([\]\[])([^\]\[();]{1,40});([^\]\[();]{1,40})([\]\[])")
_SENTENCE = re.compile(
    r"\n|(?<=[^\s.][.!?])(?<!\b[Aa]pprox\.)(?<!\bsq\.)(?<!\bcu\.)(?<!\bca\.)"
    r"(?:\s+(?=[^\Wa-z_]|[($\\∴])|(?<=[a-z]{3}\.)\s+(?=[0-9]))|∴|(?<=[\u3040-\ud7a3]\.)\s?"
)
_CHECK = re.compile(r"\s*[^\W\d_]{3,20}(?:\s[^\W\d_]{1,12})?:?\s[^\n]*[✓✔☑✅]\s*\Z")
_IF = re.compile(
    r"\s*(?:if|suppose|assum\w+|wenn|falls|si|se|если|якщо|jeśli|jestliže|als|om|eğer|nếu|jika|αν|अगर|यदि|إذا|لو)\b"
    r"|\s*(?:如果|若|假设|もし|만약)",
    re.IGNORECASE,
)
_ENDING = re.compile(
    r"\s?(?:です|である|だ|[とに]なる|[とに]なります|입니다|이다|이에요|예요|이 된다|가 된다|है|हैं|হয়|olur|bulunur|است"
    r"|'?[dt][iıuü]r)?[\s.!✓✔☑✅$*\"')]*\Z"
)
_BREAK = re.compile(
    r"[,;:]\s|[—→]|\b(?:is|are|equals|bei|est|es|è|é|ist|lautet|sind|sono|sont|son|são|är|er|jest|są|là|adalah|равно|равен"
    r"|равна|это|that|que|że|что|dass|denklemi?|άρα|so|thus|hence|therefore|now|then|gives?|get|means?)\s|[是为は]"
)
_JOINS = re.compile(
    r"\s*(?:[,;、]\s*)?(?:(?<![^\W\d_])(?:and|und|et|y|e|и|і|i|a|og|och|en|ja|ve|và|dan|και|or|oder|ou|u|o|или|або|lub|albo"
    r"|of|eller|atau|hoặc|veya|nebo|vagy)(?![^\W\d_])|或者?|または|또는|[和と및와과]|और|या)?\s*"
)
_OR = re.compile(r"\b(?:oder|or|ou|o|u|или|або|lub|albo|of|eller|atau|hoặc|veya|nebo|vagy)\b|或|または|또는|या")
_EQUAL = re.compile("[=≈]")
_RELATION = re.compile(f"[{SIGNS}]")
_NUMBER = re.compile(r"-?[0-9.,]+")
_ONLY_SAYS = re.compile(r"\s*|(?:(?!\sand\b|\sis\b|[,;:]).)*\sis\s", re.DOTALL)
_POINT = re.compile(r"\A(?:[A-Z]'{0,2}(?:_?[0-9])?|[a-z])?\s?(?=[(\[⟨][^()\[\]]*[,;|][^()\[\]]*[)\]⟩]\Z)")
_RATIO = re.compile(
    r"(?<!from\s)(?<!von\s)(?<!de\s)(?<!da\s)(?<!от\s)(?<![0-9.从從/=:-]\s)(?<![0-9.,从從/=:-])([1-9][0-9]{0,5})"
    r"\s?(?:to|zu|para|per|su|a|à|к|do|ke|til|till|tot|na|对|對|比|대)\s?([1-9][0-9]{0,5})[\s.]*\Z"
)

_PAIR = re.compile(r"[(\[⟨].*[)\]⟩]")
_REASON = re.compile(rf",?\s(?:because|since|as|for|{BECAUSE})\s.*\Z", re.IGNORECASE | re.DOTALL)
_WHERE = re.compile(r",?\s(?:for|where|when|with|at|für|mit|bei|pour|para|con|per|при|для|dla)\s")
_SIDEWAYS = re.compile(
    r"(?:(?:paral|perpend|senkrecht|ort[ho]+gon|парал|перпенд|平行|垂直|평행|수직|song\ssong|vuông|sejajar|tegak|समांतर|लंब|متواز|عمود"
    r"|prostopad|równoleg|kolm|rovnob).{0,12}"
    r"|\bthan|\b(?:left|right|top|bottom|above|below|near|from|beyond|before|between|through|unlike|off|past|against)"
    r"(?:\s(?:of|to|the|point|line))*|\b(?:größer|kleiner|mehr|weniger)\sals|\b(?:plus|moins|más|menos|mayor|menor|mais|maior|più|meno"
    r"|maggiore|minore)(?:\s\w{1,12})?\s(?:que|de|d[io]|do\sque)|\b(?:больше|меньше|более|менее|більше|менше|więcej|mniej|większ\w+"
    r"|mniejsz\w+)(?:\s(?:чем|ніж|niż|od|за))?|\b(?:lớn|nhỏ|nhiều|ít)\shơn|\b(?:lebih|kurang)\s\w{1,9}\sdari|[大小多少高低]于|至[少多]是?)\s?\Z",
    re.IGNORECASE,
)
"""What stands before a formula that the answer is only compared with."""

_Run = tuple[int, int]


def conclusions(text: str, question: str, named: bool) -> Iterator[str]:
    """Yield the readings of the formula that ends a text: it as a whole, and the value that its equalities come to.

    With `named`, a value keeps the name before it.
    """
    sentences = [one for one in _SENTENCE.split(text[-_LONGEST:]) if one and one.strip(" .$*")]
    while len(sentences) > 1 and _CHECK.match(sentences[-1]):
        sentences.pop()
    last = _REASON.sub("", sentences[-1].replace("等可能", "")) if sentences else "?"
    if (worked := last.rpartition(": ")[2]) != last and "=" in worked and is_worked(worked.strip(" .")):
        last = worked
    if DOUBT.search(last) or _IF.match(last) or last.rstrip().endswith("?"):
        return
    sentence = _prepared(last)
    if (end := concluded(sentence)) and _RELATION.search(end) is None and quantity(end) is not None:
        yield end
    runs = _runs(sentence)
    if len(runs) > 1 and _WHERE.fullmatch(sentence, runs[-2][1], runs[-1][0]) and _RELATION.search(sentence, *runs[-1]):
        sentence = sentence[: runs[-2][1]]
        del runs[-1]
    if not runs or _ENDING.match(sentence, runs[-1][1]) is None or is_of_another(sentence, runs, question):
        return
    so = len(sentence) - len(end) if end else 0
    if len(runs) > 1 and _is_rounded(*(sentence[slice(*run)] for run in runs[-2:])):
        begin = runs[-2][0]
        sentence = f"{sentence[: runs[-2][1]]} ≈ {sentence[slice(*runs[-1])]}"
        so, runs = min(so, begin), [*runs[:-2], (begin, len(sentence))]
    if len(runs) > 1 and (ratio := _RATIO.search(sentence)) is not None:
        yield f"{ratio[1]}:{ratio[2]}"
    listed = _listed([one for one in runs if one[1] > so], sentence)
    formulas = [sentence[slice(*run)] for run in listed]
    if len(formulas) > 1 and any(map(_PAIR.fullmatch, formulas)):
        return
    if len(formulas) > 1 and not _works_out(formulas):
        yield (" or " if any(_OR.search(sentence, a[1], b[0]) for a, b in pairwise(listed)) else ", ").join(formulas)
        yield sentence[listed[0][0] : listed[-1][1]]
    elif _RELATION.search(formulas[-1]):
        yield from _of_statement(sentence[so : listed[-1][0]], formulas[-1], question, named)
    elif _is_alone(sentence, runs, so):
        yield from _spellings(formulas[-1])


def is_of_another(sentence: str, runs: Sequence[_Run], question: str) -> bool:
    """Tell whether the question is about another clause than the last: "increasing on A and decreasing on B"."""
    if len(runs) != 2 or "=" in sentence:
        return False
    asked = set(_TELLING.findall(question.casefold()))
    first, last = (
        set(_TELLING.findall(sentence[a:b].casefold())) for a, b in ((0, runs[0][0]), (runs[0][1], runs[1][0]))
    )
    return bool(asked & (first - last)) and bool(last - asked) and not (asked & last)


_TELLING = re.compile(r"[^\W\d_]{4,}")


def is_derivation(text: str) -> bool:
    """Tell whether the lines of a text lead to an equation at its end, and no other one gives a value by itself."""
    lines = [_prepared(line) for line in text[-_LONGEST:].split("\n") if line.strip() and not _CHECK.match(line)]
    last = lines.pop() if lines else ""
    sides = [cut(line, _EQUAL) for line in lines]
    values = [own[-1] for own in sides if len(own) == 1 or NAME.fullmatch(own[0].strip())]
    return "=" in last and not any(map(read_formula, values))


def only_compares(text: str) -> bool:
    """Tell whether a text ends in what its answer is only compared with: "it is parallel to y = x"."""
    sentence = _prepared(_SENTENCE.split(text[-_LONGEST:].strip())[-1])
    runs = _runs(sentence)
    return bool(runs) and _SIDEWAYS.search(sentence[: runs[-1][0]]) is not None


def _prepared(text: str) -> str:
    """Return a sentence without markup and remarks in brackets, with the units of other scripts as ours."""
    text = re.sub(r"\\doteq(?![A-Za-z])|≐", "≈", re.sub(r"\\mathcal\s?\{([A-Z])\}", r"\1", text))
    text = unwrapped(clean(text)).replace("**", "").replace("$", "")
    text = _UNIT_ABROAD.sub(_unit_here, _REMARK.sub(_unless_formula, _UNIT_IN_BRACKETS.sub(r" \g<unit>", text)))
    return spelt(_OPEN_PAIR.sub(_open_pair, text))


def _unless_formula(match: re.Match[str]) -> str:
    return match[0] if read_formula(match[0].strip()) is not None else ""


def _unit_here(match: re.Match[str]) -> str:
    power = "^2" if match["square"] else "^3" if match["cubic"] else ""
    return f" {_ABROAD[match['unit']]}{power}"


def _open_pair(match: re.Match[str]) -> str:
    """Return an interval with square brackets turned outwards as one with round ones: `]1; 2]` is `(1; 2]`."""
    opening, closing = "(" if match[1] == "]" else "[", ")" if match[4] == "[" else "]"
    return f"{opening}{match[2]};{match[3]}{closing}"


def _runs(text: str, names: bool = False) -> list[_Run]:
    """Return where formulas stand in a text: what holds a digit, a relation or a command, and no word but units.

    With `names` also single letters and names.
    """
    runs: list[_Run] = []
    start = end = -1
    depth = position = 0
    while position <= len(text):
        match = _PIECE.match(text, position)
        sort = match.lastgroup if match else "none"
        unit = sort == "word" and start >= 0 and match is not None and _is_unit(match[0], text[start:end])
        word = match is not None and match[0] in _SHORT_WORDS and (start < 0 or text[position - 1].isspace())
        if match is None or word or (sort == "inner" and depth <= 0) or (sort == "word" and not unit):
            if start >= 0 and (names or _FORMULA.search(text, start, end)):
                runs.append(_balanced(text, start, end))
            start, depth = -1, 0
        elif sort != "blank":
            depth += _open(match[0])
            start = position if start < 0 else start
            end = match.end()
        position = match.end() if match else position + 1
    return [one for one in runs if one[0] < one[1]]


def _is_unit(word: str, before: str) -> bool:
    plain = word.rstrip("^23").casefold()
    known = is_known(plain) or plain in _UNIT_WORDS
    return known and re.search(r"(?:[0-9)}π°A-Za-z]|square|cubic|sq)\Z", before[-9:]) is not None


def _balanced(text: str, start: int, end: int) -> _Run:
    """Return a run without brackets at its ends that have no other one."""
    while start < end and (text[start] in " *:&!" or _torn(text[start:end], text[start])):
        start += 1
    while start < end and (text[end - 1] in " :&-+*/" or _torn(text[start:end], text[end - 1])):
        end -= 1
    return start, end


def _torn(text: str, edge: str) -> bool:
    return (edge in ")]}" and _open(text) < 0) or (edge in "([{" and _open(text) > 0)


def _open(text: str) -> int:
    """Return how many more brackets are opened than closed."""
    return sum((sign in "([{⟨") - (sign in ")]}⟩") for sign in text)


def _is_rounded(exact: str, decimal: str) -> bool:
    """Tell whether a decimal is the value that the formula before it comes to, rounded."""
    if re.search(r"[0-9][.,][0-9]", decimal) is None or _RELATION.search(decimal):
        return False
    values = [read_formula(cut(one, _EQUAL)[-1].replace(",", ".")) for one in (exact, decimal)]
    one, other = (value.values[0] if value and len(set(value.values)) == 1 else 0 for value in values)
    return one != other and one != 0 and abs(one - other) <= abs(one) / 200


def _listed(runs: Sequence[_Run], text: str) -> list[_Run]:
    """Return the last run, and those before it that only commas and words such as "and" part from it."""
    listed = [runs[-1]]
    for one in reversed(runs[:-1]):
        if _JOINS.fullmatch(text, one[1], listed[0][0]) is None:
            break
        listed.insert(0, one)
    return listed


def _works_out(formulas: Sequence[str]) -> bool:
    """Tell whether the last formula holds letters in its value and the others give them: `b = 1, y = 2x + 1`."""
    values = [read_formula(sides[1]) if len(sides := cut(one, _EQUAL)) == 2 else None for one in formulas]
    constant = [value is not None and len(set(value.values)) == 1 for value in values]
    return all(constant[:-1]) and values[-1] is not None and not constant[-1]


def _is_alone(sentence: str, runs: Sequence[_Run], so: int) -> bool:
    """Tell whether the last formula is the only one of its clause, and what stands before it makes it no bound."""
    start, end = runs[-1]
    begin = max(so, *(found.end() for found in _BREAK.finditer(sentence, 0, start)), 0)
    if any(run[0] >= begin for run in runs[:-1]) or BOUND_BEFORE.search(sentence[:start]):
        return False
    return _NUMBER.fullmatch(sentence, start, end) is None or _ONLY_SAYS.fullmatch(sentence, 0, start) is not None


def _of_statement(before: str, last: str, question: str, named: bool) -> Iterator[str]:
    """Yield a relation, and its last values where its first side is what they are the value of."""
    sides = [side.strip() for side in cut(last, _EQUAL)]
    head = sides[0] or cut(re.split(r"[,;:.]\s", before)[-1], _EQUAL)[0].strip()
    if sides[0]:
        yield from _spellings(last)
    if len(sides) < 2 or any(_RELATION.search(side) for side in sides[1:]):
        return
    if not agree(sides[1:]):
        return
    exact = cut(cut(last, re.compile("≈"))[0], _EQUAL)[-1].strip()
    for value in dict.fromkeys((exact, sides[-1])):
        worked = _is_constant(head) and _is_constant(value) and agree(sides)
        if named and NAME.fullmatch(sides[0]):
            yield from _spellings(f"{sides[0]} = {value}")
        elif worked or (
            value != head and (_names(head, question) or same_formula(head, value) or _filled_in(head, sides))
        ):
            yield from _spellings(value)


def _is_constant(text: str) -> bool:
    formula = read_formula(text)
    return formula is not None and len(set(formula.values)) == 1


def _names(head: str, question: str) -> bool:
    """Tell whether a first side is a name, or words, or what the question asks for."""
    runs = _runs(head, names=True)
    name = head[runs[-1][0] :].strip() if runs and runs[-1][1] == len(head) else ""
    if not name or is_name(name) or _OPERATOR.match(name) or _POINT.match(name):
        return is_name(head) or bool(name)
    plain, asked = _bare(name), _bare(question)
    for function, words in _FUNCTIONS_ABROAD.items():
        if re.match(rf"{function}[A-Z∠α-ω]", plain) and re.search(words, question, re.IGNORECASE):
            return True
        if re.fullmatch(rf"{function}[α-ω]", plain) and plain[-1] not in asked:
            return True
    applied = re.fullmatch(r"[A-Za-z]\((-?[0-9.]{1,9})\)", plain)
    if (
        applied
        and re.search(rf"(?<![0-9.]){applied[1]}(?![0-9.])", question)
        and not re.search(r"[A-Za-z]\(", question)
    ):
        return True
    if re.search(rf"(?<![A-Za-z0-9_=+*/^-]){re.escape(plain)}(?![A-Za-z0-9_=+*/^-])", asked):
        return re.fullmatch(r"[a-z]\^.*", plain) is None
    parts = _CAPITALS.findall(name)
    return _MEASURE.fullmatch(plain) is not None and bool(parts) and not {*parts} & {*_CAPITALS.findall(question)}


def _filled_in(head: str, sides: Sequence[str]) -> bool:
    """Tell whether the second side is the first one with numbers for its letters: `(n - 2) · 180 = 3 · 180 = 540`."""
    form = re.sub(r"\([a-z][-+][0-9]\)|[a-z]", "0", tight(head))
    return len(sides) > 2 and "(" in head and form == re.sub("^[0-9]+", "0", tight(sides[1]))


_OPERATOR = re.compile(
    r"(?:\\?det|\\?dim|tr)\b|[∇∫∬∮∑∏]|\\nabla|\\(?:i?int|oint|sum|prod|lim)(?![A-Za-z])|[A-Z]\^\{?(?:-1|T)\}?\Z"
    r"|[A-Z]_?\{?\s?(?:△|\\triangle)\s?[A-Z]{3}\}?\Z|[A-Za-z]_\{[^{}=]{1,24}\}\Z"
)
_FUNCTIONS_ABROAD: Final = {
    "sin": r"(?<!co)sin|sen[oe]|син|正弦|サイン|사인|جيب|ज्या|ημ",
    "cos": "cos|кос|余弦|コサイン|코사인|جتا|कोज्या|συν",
    "tan": "tan|tg|тан|正切|タンジェント|탄젠트|ظل|εφ",
}
_CAPITALS = re.compile(r"[A-Z]+(?:_?[0-9])?|(?<![A-Za-z])[uvwz](?![A-Za-z])")
_ENTRY: Final = r"[A-Z]{1,3}(?:_?[0-9])?(?:\([a-z]\))?"
_MEASURE = re.compile(rf"{_ENTRY}[/:]{_ENTRY}|frac\{{{_ENTRY}\}}\{{{_ENTRY}\}}|[|‖]+(?:{_ENTRY}|[uvwz])[|‖]+")
"""A ratio or a norm, which is asked for where the question names no part of it."""
_GREEK: Final = {"θ": "theta", "α": "alpha", "β": "beta", "γ": "gamma", "φ": "phi", "ϕ": "phi", "ω": "omega"}


def _bare(text: str) -> str:
    """Return a formula or question without spaces, backslashes, and brackets of functions."""
    text = clean(text).replace("$", "").replace("\\angle", "∠").replace("\\cdot", "·").replace("\\dfrac", "\\frac")
    text = re.sub(r"\\frac\s?\{([^{}]{1,40})\}\{([^{}]{1,40})\}", r"\1/\2", text.replace("‖", "|"))
    text = re.sub(r"\\(?:vec|overrightarrow|overline)\s?\{?\s?([A-Za-z]{1,2})\s?\}?", r"\1", text).replace("_", "")
    for letter, name in _GREEK.items():
        text = text.replace(f"\\{name}", letter)
    text = re.sub(r"(sin|cos|tan|cot|log|ln)\s?\(\s?([\w∠]{1,9})\s?\)", r"\1 \2", text.replace("\\", ""))
    text = re.sub(r"(?<![A-Za-z])(c?)tg(?![A-Za-z])", lambda found: "cot" if found[1] else "tan", text)
    return tight(re.sub(r"(sin|cos|tan|cot|log|ln)\s", r"\1", text))


def _spellings(formula: str) -> Iterator[str]:
    """Yield a formula, also without the name of a point before its coordinates, and with a decimal comma as a point."""
    yield formula
    if (bare := _POINT.sub("", formula, count=1)) != formula:
        yield bare
    if "(" not in formula and re.search(r"(?<![0-9.,])[0-9]{1,6},[0-9]{1,4}(?![0-9,])", formula):
        yield re.sub(r"(?<=[0-9]),(?=[0-9])", ".", formula)
