"""Grade yes or no, true or false, by what an answer asserts.

`yes` or `no` counts at the start of the text, if nothing after it contradicts it, or as its last word. A reason in a
separate sentence, or after "because", may deny other things. "Yes and no", "unknown" and "I know" are neither.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from saccade.grading.base import Verdict, gold_of, judged, right, unread, unreadable, wrong
from saccade.grading.clean import clean, folded, unwrapped
from saccade.grading.extract import concluded, in_final_part, is_corrected, without_question
from saccade.grading.languages import CONTRAST, DENIAL, DOUBT, LANGUAGES, assertion_in_english, language_of
from saccade.grading.remembered import remembered
from saccade.grading.restated import concludes, denies, restates, sentences, telling, turns
from saccade.record.task import Task

_YES: Final = frozenset({"yes", "yeah", "yep", "true"})
_NO: Final = frozenset({"no", "nope", "false"})
_OTHER_WORDS = re.compile(
    r"\A(?:(?P<yes>definitely|absolutely|certainly|of course|indeed|affirmative|correct|sure)"
    r"|(?P<no>not at all|negative|incorrect|not really|no way|i'm afraid not))"
    r"(?=\Z|\s?[,.!;:]\s)(?!.*\b(?:yes|no|true|false)\b)|\A(?:(?:the|this|that)\s(?:statement|claim|caption|sentence|description)\sis|that(?:'s|\sis))\s"
    r"(?:(?P<yes_>correct|accurate|right|true)|(?:incorrect|inaccurate|wrong|not\s(?:correct|accurate|right|true)))\Z"
    r"|\A(?:(?P<yes__>(?:it|he|she)\s(?:is|does|has)|they\s(?:are|do|have)|i\s(?:think|believe)\sso)|(?:it|he|she|they)(?:\s(?:is|does|has|are|do|have)\snot"
    r"|'s\snot|\s(?:is|does|has|are|do|have)n't)|i\s(?:don't|do\snot)\s(?:think|believe)\sso)\Z"
)
_SINGLE: Final = {**dict.fromkeys((*_YES, "y"), True), **dict.fromkeys((*_NO, "n"), False)}
_FIRST = re.compile(
    r"(?P<word>yes|yeah|yep|true|no|nope|false)[*_\"']{0,3}(?:\s*(?:[,.;:!\n(]|- )|\s+(?=(?:i|it|they|there|the|this|"
    r"that|we|these|those|he|she|because|not)\b))(?P<rest>.*)",
    re.DOTALL,
)
# A reason may deny other things ("Yes. The bars are not equal."), but not the answer.
_REASON = re.compile(
    r"[*_\"')]{0,3}\s*(?:[.!;\n]|- |,?\s(?:because|since|as|although|though"
    r"|even though)\b)\s*(?=\S+\s+\S+|[^\x00-\x7f]{3})"
)
_CONTRADICTS = re.compile(
    r"(?:^|[.,;:!?\-]\s*|\b(?:or|is|and|be|answer)\s)(?P<word>yes|yeah|yep|true|no|nope|false)\b(?=\s*(?:[.,;:!?]|$))"
    r"|\b(?:not (?:sure|certain)|wait|actually)\b"
)
_LAST = re.compile(r"(?P<before>.*)\b(?P<word>yes|no|true|false)", re.DOTALL)
_HELD = re.compile("(?:[혀려져어아여고겨워]|지)\\Z")
"""A Korean verb before its auxiliary, "to be": 닫혀 있습니다 says no yes."""
_EITHER = re.compile(r"\b(?:yes|yeah|yep|true|no(?!\sdoubts?\b)|nope|false)\b")
_OPEN = re.compile(r"\b(?:maybe|perhaps|possibly|probably|might|could|unsure|unclear|unknown|or)\b|\?\s*$")
_UNSURE = re.compile(r"can(?:not|'t)|\b(?:sure|certain|know|tell|say|determine|clear|answer)\b")
_OPEN_FIRST = re.compile(
    r"^[^.!;\n]*?\b(?:maybe|perhaps|possibly|probably|unsure|unclear|unknown)\b|\?\s*$"
    r"|\b(?:not sure|could be|might be)\b"
)


@dataclass(frozen=True, slots=True)
class YesNoGrader:
    """Yes or no, true or false, by what the answer asserts, not by the words it contains."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        gold = asserts(gold_of(task))
        if gold is None:
            raise unreadable(task, "yes or no")

        def says(text: str) -> bool | None:
            said = asserts(text)
            if said is None and (of_it := _OF_IT.fullmatch(text.strip(" .!"))) is not None:
                return of_it["none"] is None and DENIAL.search(text) is None
            return _holds(text, task.question) if said is None else said

        def compare(prediction: str) -> Verdict:
            said = says(prediction)
            if said is None:
                said = _by_question(in_final_part(without_question(answer or "", task.question)) or prediction, task)
            if said is None:
                return unread("says neither yes nor no", prediction)
            if said != gold:
                return wrong("says the opposite", prediction)
            whole = in_final_part(without_question(answer or "", task.question)) or prediction
            taken_back = _contradicts(whole, task.question, said)
            return unread("contradicts itself", prediction) if taken_back else right("same", prediction)

        return judged(answer, task, compare, says, prose=True)


def _by_question(text: str, task: Task) -> bool | None:
    """Return what the last sentence says to the question, or the first one if nothing after it turns that round."""
    parts = sentences(text)[-_MOST_SENTENCES:]
    if not parts or max(map(len, parts)) > _LONGEST_SENTENCE:
        return None
    first_too = len(parts) < _MOST_SENTENCES

    def said_in(part: str) -> bool | None:
        end = concluded(f". {part}")
        said = asserts(end or part) if end or len(parts) > 1 else None
        units = concludes(part) if said is None else ()
        said_by_unit = (restates(unit, task.question, led or len(parts) > 1) for unit, led in units)
        return next((one for one in said_by_unit if one is not None), said)

    said = [said_in(part) for part in parts]
    if said[-1] is not None:
        alone = len(parts) == 1 or not parts[-2].endswith(":")
        return said[-1] if alone and (concluded(f". {parts[-1]}") or (not said[-1]) not in said) else None
    firm = asserts(parts[0]) is None and (not said[0]) not in said and not any(map(turns, parts[1:]))
    return said[0] if firm and first_too else None


_LONGEST_SENTENCE: Final = 1_000
_MOST_SENTENCES: Final = 40


@remembered
def asserts(text: str) -> bool | None:
    """Return True for yes, False for no, None for neither."""
    plain = folded(unwrapped(clean(text))).strip(" .,;:!()[]*_\"'")
    plain = re.sub(r"\A[❌✗✘🚫]\s*(?=no\b)|(?<=\bno)\s*[❌✗✘🚫]\Z", "", plain)
    plain = assertion_in_english(
        re.sub(r"\A(?:so|therefore|thus|hence),?\s(?=(?:yes|no|it|th(?:e|is|at))\b)", "", plain)
    )
    plain = _without_repeated_verb(plain)
    plain = _OTHER_WORDS.sub(lambda match: "yes" if match["yes"] or match["yes_"] or match["yes__"] else "no", plain)
    if plain in _SINGLE:
        return _SINGLE[plain]
    first = _FIRST.fullmatch(plain)
    reason = _REASON.match(plain, first.end("word")) if first is not None else None
    if (_OPEN if reason is None else _OPEN_FIRST).search(plain):
        return None
    if first is not None:
        if reason is not None:
            asserted = first["word"] in _YES
            others = _CONTRADICTS.finditer(plain[reason.end() :])
            return (
                None
                if any(other["word"] is None or (other["word"] in _YES) != asserted for other in others)
                else asserted
            )
        return _backed(first["word"] in _YES, first["rest"])
    last = _LAST.fullmatch(plain)
    if (
        last is None
        and 1 < len(words := plain.split()) < 4
        and not DOUBT.search(" ".join(words[:-1]))
        and not _HELD.search(words[-2])
    ):
        return _SINGLE.get(assertion_in_english(words[-1]))  # "enfin non"
    if last is None or _EITHER.search(last["before"]):
        return None
    if _SAID_BY_OTHERS.search(last["before"]):
        return None
    if DOUBT.search(last["before"]) and (_UNSURE.search(last["before"]) or not last["before"].endswith(": ")):
        return None  # but "not in every year: no"
    return last["word"] in _YES


_REPLY = re.compile(
    r"(?:it|he|she|they|there)\s(?:(?P<be>is|are|was|were|has|have|had)|does|do|did|can|will)(?P<no>\snot|n't)?"
    r"(?P<stop>[.;!:,]|\s-)\s(?P<rest>.+)",
    re.DOTALL,
)
_TURNS_REPLY = re.compile(r"\b(?:but|however|although|though|yet|wait|actually|still|yes|true)\b")


def _without_repeated_verb(plain: str) -> str:
    """Write a reply that repeats the verb of its question as yes or no: "it does: …", "they are not, …".

    "It is: closed" and "it does, however, …" are no such replies.
    """
    reply = _REPLY.fullmatch(plain)
    if reply is None:
        return plain
    if reply["no"]:
        return plain if _TURNS_REPLY.search(reply["rest"]) else f"no. {reply['rest']}"
    whole = reply["stop"] in ".;!" or (reply["stop"] != "," and not reply["be"])
    return f"yes. {reply['rest']}" if whole and not (turns(reply["rest"]) or denies(reply["rest"])) else plain


_SAID_BY_OTHERS = re.compile(
    r"\b(?:although|even\sthough|at\sfirst|first\s(?:sight|glance)|(?:one|you|people|many|some|others)\s(?:would|might|may|could|will))\b"
)
"""What makes the yes or no behind it a first impression, or the word of others: "although one would say yes"."""


def _backed(asserted: bool, rest: str) -> bool | None:
    """Return the first assertion, or None if the rest contradicts it; "No, there are no dogs" does not."""
    others = {word[0] for word in _EITHER.finditer(rest)} - (frozenset() if asserted else {"no"})
    if others or (asserted and DENIAL.search(rest)):
        return None
    return asserted


_OF_IT = re.compile(
    r"(?:(?:but|however|yet|still|though|and),?\s)?(?:(?:there|here)\s(?:is|are|was|were)(?P<none>\snone|n't(?:\s(?:any|one))?|\snot(?:\s(?:any|one))?)?"
    r"(?(none)|\s(?:one|some|several|two|three))|I\s(?:can\s)?(?:see|find)\s(?:one|some|several)"
    r"|I\s(?:(?:can\s)?(?:see|find)\snone|(?:don't|do\snot|can't|cannot)\s(?:see|find)\s(?:any|one)))"
    r"(?:\s(?:at\sall|here|there|visible|in\s(?:the|this)\s(?:image|picture|photo)))?",
    re.IGNORECASE,
)
"""Whether there is any of what is asked for: "there is none", "I see one"."""
_IS_THERE = re.compile(
    r"(?:(?:is|are)\sthere|do(?:es)?\s(?P<owner>[^?]{1,40}?)\shave)\s(?!(?:no|not|only|more|less|fewer|exactly|just|at)\b)(?:(?:an?|any|some|the)\s)?"
    r"(?P<thing>[^?]{1,80}?)(?:\s(?:in|on|at|near|next|to|of|visible|shown|present|behind|that|which|with|under|inside)\b[^?]*)?\?",
    re.IGNORECASE,
)
_THERE_IS = re.compile(
    r"(?:there\s(?:is|are)|(?P<owner>[^.,;:!?]{1,40}?)\s(?:(?:(?:is|are)\s)?(?:carrying|holding|wearing)|has|have))"
    r"(?:(?P<no>\sno(?!\sdoubt)|\snot\san?y?|n't\san?y?)|\s(?:an?|some|several|one|two|three|four|five|six|many|[0-9]{1,3}))\s(?P<thing>[^.;:!?]{1,120})[.!]?",
    re.IGNORECASE,
)
_PLACED = re.compile(r"\s(?:in|on|next|near|beside|under|behind|of|with|and|that|which|for)\s.*")
_ANOTHER = re.compile(r"\b(?:but|although|only|if|or)\b|,")


def _holds(text: str, question: str) -> bool | None:
    """Return what "there is a dog" answers to "Is there a dog?", or "she holds an umbrella" to "Does she have one?"."""
    asked = _IS_THERE.match(question.rpartition("\n")[2].strip())
    found = _THERE_IS.fullmatch(text.strip())
    if asked is None or found is None or _ANOTHER.search(text) or (not found["no"] and DOUBT.search(text)):
        return None
    if (asked["owner"] or "").casefold() != (found["owner"] or "").casefold():
        return None
    said = _PLACED.sub("", found["thing"]) if found["owner"] else found["thing"]
    wanted, named = ([word.removesuffix("s") for word in one.casefold().split()] for one in (asked["thing"], said))
    return not found["no"] if set(wanted[-1:] if found["no"] else wanted) <= set(named) else None


YES_NO = YesNoGrader()


_CLAUSE = re.compile(rf"[,،;:]\s|(?<=[\u3040-\u9fff]),|\s-\s|{CONTRAST}", re.IGNORECASE)
_THAN: Final = (
    r"(?<![^\W\d_])(?:than|als|que|чем|ніж|niż|od|dan|än|end|enn|než|decât|από|mint|kuin|hơn"
    r"|daripada|من|از)(?![^\W\d_])|比"
)
_COMPARED = re.compile(rf"(?P<more>[^,.;:?!]{{1,120}}?)(?:{_THAN})(?P<less>[^,.;:?!]{{1,80}})")
_CLAUSES: Final = 12


def _contradicts(text: str, question: str, said: bool) -> bool:
    """Tell whether a text that says yes (`said`) or no also says the opposite of it in the words of the question."""
    row = LANGUAGES.get(language_of(f"{question} {text}"))
    words = row.but if row is not None and row.but else "but|however|actually"
    but = re.compile(rf"\A(?:{words})(?![^\W\d_]),?\s?", re.IGNORECASE)
    clauses = [one.strip() for part in sentences(text)[:_CLAUSES] for one in _CLAUSE.split(part)[:_CLAUSES] if one]
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
