"""Tell whether the sentences behind a yes or no say the opposite of what the question asks.

"Yes, the woman is older than the man" denies what it affirms where the question is whether he is older than she, and so
does "yes, … but it is closed" where it is whether it is open. Only words of the question and their opposites count: a
sentence with words of its own says nothing.
"""

from __future__ import annotations

import re
from typing import Final

from saccade.grading.clean import folded
from saccade.grading.extract import is_corrected
from saccade.grading.languages import CONTRAST, LANGUAGES, language_of
from saccade.grading.restated import restates, sentences, telling

_CLAUSE = re.compile(rf"[,،;:]\s|(?<=[\u3040-\u9fff]),|\s-\s|{CONTRAST}", re.IGNORECASE)
_THAN: Final = (
    r"(?<![^\W\d_])(?:than|als|que|чем|ніж|niż|od|dan|än|end|enn|než|decât|από|mint|kuin|hơn"
    r"|daripada|من|از)(?![^\W\d_])|比"
)
_COMPARED = re.compile(rf"(?P<more>[^,.;:?!]{{1,120}}?)(?:{_THAN})(?P<less>[^,.;:?!]{{1,80}})")
_MOST: Final = 12


def contradicts(text: str, question: str, said: bool) -> bool:
    """Tell whether a text that says yes (`said`) or no also says the opposite of it in the words of the question."""
    row = LANGUAGES.get(language_of(f"{question} {text}"))
    words = row.but if row is not None and row.but else "but|however|actually"
    but = re.compile(rf"\A(?:{words})(?![^\W\d_]),?\s?", re.IGNORECASE)
    clauses = [one.strip() for part in sentences(text)[:_MOST] for one in _CLAUSE.split(part)[:_MOST] if one]
    clauses = [] if is_corrected(text) else [but.sub("", one) for one in clauses]
    return any(restates(one, question, led=True) == (not said) or (said and _turned(one, question)) for one in clauses)


def _turned(clause: str, question: str) -> bool:
    """Tell whether a clause compares what the question compares, the other way round."""
    sides = [_COMPARED.search(folded(one)) for one in (question, clause)]
    if sides[0] is None or sides[1] is None:
        return False
    (more, less), (said_more, said_less) = (
        [frozenset(telling(side[name])) for name in ("more", "less")] for side in sides if side is not None
    )
    first, second, said_first, said_second = more - less, less - more, said_more - said_less, said_less - said_more
    same = (first & said_first) | (second & said_second)
    foreign = (said_more | said_less) - (more | less)
    return bool(first & said_second and second & said_first and same) and not foreign
