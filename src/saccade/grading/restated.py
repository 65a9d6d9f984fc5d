"""Read what a sentence says by the question that it answers: it repeats that, denies it, or fills in one thing.

"So it isn't aromatic" says no to "Is the compound aromatic?", since it denies words of the question and has no others;
"Pilen pekar på lungorna" says "lungorna" to "Vilket organ pekar pilen på?". Words are compared without accents and
inflection, in scripts without spaces sign by sign. A sentence with words of its own, or which turns the question round,
says nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from saccade.grading.clean import folded
from saccade.grading.extract import concluded
from saccade.grading.languages import (
    BECAUSE,
    DENIAL,
    DOUBT,
    INSTEAD,
    LANGUAGES,
    alternatives,
    common_words,
    language_of,
    written_in,
)

_UNSPACED: Final = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff"
_TOKEN = re.compile(
    rf"[0-9]+(?:[.,:/][0-9]+)*|[{_UNSPACED}]|[^\W_0-9{_UNSPACED}]+(?:[\u0900-\u0dff]|[^\W_{_UNSPACED}])*"
)
_ELIDED = re.compile(
    r"\b(?:[ldncsjmt]|qu|un|dell|nell|all|sull|dall|quest)'(?=[^\W\d_])|(?<=[^\W\d_])'(?:s|re|ve|ll|d|m)\b"
)
_ENGLISH: Final = frozenset(
    """
    the he she a an this that these those it its they there here is are was were be been being do does did has
    have had of in on at and image picture photo figure diagram graph chart shown displayed depicted pictured we
    see can i think would say labelled labeled seen appears appear shows show which what who whose with written
    printed painted drawn recorded occurred observed one ones
    """.split()  # noqa: SIM905
)
_ABROAD: Final = (common_words() | _ENGLISH).union(*(row.glue.split() for row in LANGUAGES.values()))
"""Words that say nothing of their own: articles, pronouns, copulas, prepositions of place, and names of the picture."""
_FILLING_SIGNS = re.compile(
    r"(?:从|根据)?(?:图片|照片|画面|图像|图)(?:[中里上]|可知|可见|所示|显示)?|[的了为这那该个它其些着]|这是|属于|请问|(?:い|あり)ますか|(?<=[てで])います|一[个個只隻头頭条條张張辆輛座匹位棵把]|\A(?:答|解):?|(?<!不)是(?!否)|是否|是不是|有没有|吗|呢|正在|目前|现在|此时|此刻|\A(?:说明|說明|表明|可见|可見|意味着|显示|顯示)"
    r"|(?:です|ます|でしょう)?か(?=\W*\Z)|です|ます|である|だ(?=\W*\Z)|[はがをにでとのも]|図|画像|写真|เป็น|คือ|ที่|ใน|ภาพ|นี้|หรือไม่|ไหม"
)
_NOT: Final = frozenset(
    """
    not no never cannot nunca tampoco pas non jamais nicht kein keine keinen keinem keiner keines nie niemals não
    nao nem нет не немає нема ні niet geen nooit değil değildir yok yoktur không chẳng chưa tidak bukan bukanlah
    ليس ليست ليسا لا لم لن نیست نیستند نہیں नहीं না নয় নেই לא אינו אינה אינם אינן אין δεν nincs nincsenek ei
    eivät inte ej ikke není nejsou nu
    """.split()  # noqa: SIM905
)
_NOT_ANY: Final = frozenset(
    """
    ningún ninguna ninguno aucun aucune nessun nessuna nenhum nenhuma żaden żadna żadne ни
    neither nor weder noch ni né ani nici ούτε varken hverken
    """.split()  # noqa: SIM905
)
_WORD_NOT = re.compile(rf"(?<![^\W_])(?:{'|'.join(sorted((*_NOT, *_NOT_ANY), key=len, reverse=True))})(?![^\W_])")
_NOT_SIGNS = re.compile(
    r"不是|并不是?|并非|没有|沒有|[不没沒非无無未]|(?:では|じゃ)(?:ありません|な(?:い|く)(?:です)?)|でもなく|ありません|いません|ません|ない|なし|ไม่(?:ใช่)?"
    r"|(?:지\s?)?(?:않|못)[가-힣]*|아(?:닙|니)[가-힣]*|없[가-힣]*"
)
_A_NOT_A = re.compile(r"([\u3400-\u9fff])[不没沒]\1")
_QUESTION_TAG = re.compile(r"(?:có\s)?(?:phải\s)?không\s?\?|\bn'est-ce\spas\b|有没有|是不是|能不能|会不会|หรือไม่")
_CHOICE = re.compile(
    r"\b(?:or|oder|ou|или|або|чи(?=\s\w+\s?\?)|lub|albo|eller|veya|ya\sda|atau|hoặc|vagy|sau|או|أم|أو|یا|या|অথবা)\b|还是|還是|或|それとも|または|아니면|또는"
    r"|\bbukan\?|\b(?:if|whether)\b"
)
_ALL: Final = frozenset(
    """
    all both every each only always more most exactly any alle beide nur immer jeder todos todas ambos ambas solo
    siempre tous toutes seulement tutti tutte все оба только всегда wszystkie oba tylko
    都 全 均 每 只 各 両 모든 모두 둘
    """.split()  # noqa: SIM905
)
_INDEFINITE: Final = frozenset("a an ein eine einen un una une um uma uno een en ett et egy bir".split())  # noqa: SIM905
PRONOUNS: Final = frozenset("it they he she there this these those that i we es sie er il elle ils elles это".split())  # noqa: SIM905
_BY: Final = frozenset("by von vom par por door av af przez da από".split())  # noqa: SIM905
_SIDES = re.compile(
    r"\b(?:left|right|above|below|behind|front|under|over|next|than|before|after|between|inside|to|links|rechts|über|unter|neben"
    r"|hinter|vor|als|izquierda|derecha|encima|debajo|detrás|delante|más|menos|gauche|droite|dessus|dessous"
    r"|derrière|devant|plus|moins|sinistra|destra|sopra|sotto|dietro|davanti|più|meno|esquerda|direita|acima|abaixo|atrás|mais|слева|справа|над|под|за"
    r"|перед|чем|lewo|prawo|nad|pod|niż|dan|onder|boven|achter|vänster|höger|venstre|højre|än|end|före|efter|nach|después|après|dopo|depois"
    r"|wer|vem|hvem|wie|qui|quién|chi|quem|kto|кто)\b"
    r"|\b(?:tier|animale?|djur|dyr|dier|животное|zwierzę|person\w*|team|équipe|equipo|equipe|squadra|команда|mannschaft|lag|spieler|joueur|jugador"
    r"|jogador|giocatore)\s\w+\s(?!(?:auf|in|an|im|am|sur|dans|sobre|en|em|su|sulla|nel|nella|на|в|på|i|op|na|no|w)\b)"
)
"""Words of questions in which the place of a word tells who does what to whom."""
_INSTEAD = re.compile(rf",?\s?(?:{INSTEAD}).*", re.DOTALL)
_IN_THIS = re.compile(r"\s(?:in|on)\sthis\s[\w-]{1,30}\s?\?\Z")
_BRACKETS = re.compile(r"\s?\([^()]{1,80}\)")
_REASON = re.compile(
    rf"(?:\s(?:because|since|while|whereas)|,\s(?:as|given\sthat|{BECAUSE}))\b.*|(?:因为|因為|由于).*", re.DOTALL | re.I
)
_SETTING = re.compile(r"\A(?:according\sto|based\son|judging\sby|looking\sat|in|on|at|from)\s[^,]{1,80},\s")
_IS_ONLY = re.compile(
    r"(?:what|which)(?:\s(?!\w+(?:ing|ed)\b)\w+){0,2}\s(?:is|are|was)\sthe(?:\s(?!\w+(?:ing|ed|by)\b)\w+){1,4}\s?\?"
)
"""A question for what something is, with no other verb, in which no one does anything to another."""
_COMMA = re.compile(
    rf",\s|:\s|(?<=[\u0e00-\u0e7f])\s(?=[\u0e00-\u0e7f])|(?<=[{_UNSPACED}0-9]),(?=[{_UNSPACED}])|(?<=[{_UNSPACED}]),"
)
_AS_SAID = re.compile(
    r"\b(?:(?:claim|sa(?:y|id)|stat(?:e|ing)|writ|question|caption|title|label|th(?:ink|ought)|believ|option|argu|suggest|assum|suppos|imagin|unless"
    r"|provided|glance|sight|seem|appear|dice|dicen|prétend|sagt|behaupte|angenommen|scheint|parece|semble|sembra|dicono|говор|кажется|утвержда)\w*"
    r"|(?:let|when|first|look|looks|need|check|would|should|asks|dit|wenn|falls|si|quand|se|если|jeśli|gdy|als|om|hvis|nếu|jika|eğer)\b)"
    r"|(?<![\u0e00-\u0e7f])(?:ถ้า|หาก)|ดูเหมือน|คิดว่า|บอกว่า|อ้างว่า|[如若假称认以觉乍似写]|说(?!明)|看起来|もし|なら|만약|으면|라면|لو|إذا|यदि|अगर",
    re.IGNORECASE,
)
"""What makes the rest of a sentence the word of someone, a condition or a first impression."""
_STATES = re.compile(
    r"(?:the|a|an|this|these|those|both|all|its|his|her|their|i|we|it|they|he|she|one|der|die|das|ein|eine|es|er|sie|le|la|les"
    rf"|ses|un|une|el|los|las|su|sus|o|a|os|as|il|lo|gli)\b|[0-9а-яё{_UNSPACED}가-힣]|l'",
    re.IGNORECASE,
)
"""How a clause that states a fact begins, before another one that concludes."""
_UNSPACED_SIGN = re.compile(f"[{_UNSPACED}]")
_ASKS = re.compile(rf"{_A_NOT_A.pattern}|吗|是否|(?:です|ます|でしょう)か")
_BUT_IN_ENGLISH: Final = "but|however|actually|although|though|yet|wait|while|whereas"
_SENTENCE = re.compile(
    r"(?<=[^\W_][.!?])\s+(?=[^\Wa-z0-9])|(?<=[)%\"'°][.!?])\s+(?=[^\Wa-z0-9])|(?<=[^\W\d_]{4}[.!?])\s+(?=[0-9])|\n+|;\s|\s?[→⇒➜➡]\s?"
)
_LONGEST: Final = 400
"""Signs of a sentence, or of a question, beyond which it is not compared."""


def sentences(text: str) -> list[str]:
    """Return the sentences of a cleaned text, parted at arrows and semicolons too."""
    return [part.strip(" *_#>-") for part in _SENTENCE.split(text) if part.strip(" *_#>-")]


def concludes(sentence: str) -> Iterator[tuple[str, bool]]:
    """Yield what a sentence may say, without remarks and reasons, and whether a "so" leads to it."""
    if len(sentence) > _LONGEST:
        return
    end = concluded(f". {sentence}")
    for part, led in ((end, True), (sentence, False)):
        whole = _BRACKETS.sub("", part)
        clauses = _COMMA.split(whole)
        units = [whole, _REASON.sub("", whole)]
        if len(clauses) > 1 and not any(turns(one) or _AS_SAID.search(one) for one in clauses[1:]):
            units.append(clauses[0])
        if (
            len(clauses) > 1
            and _STATES.match(whole)
            and not any(turns(one) or _AS_SAID.search(one) for one in clauses[:-1])
        ):
            units.append(clauses[-1])
        for plain in dict.fromkeys(units):
            if plain.strip():
                yield plain, led or plain != whole


def restates(sentence: str, question: str, led: bool = False) -> bool | None:
    """Return True if a sentence repeats what the question asks, False if it denies that, None if it does neither.

    A copy of the question says nothing, unless "so" leads to a part of it.
    """
    asked, said = _IN_THIS.sub("?", _question(question)), folded(sentence)
    if not asked or len(said) > _LONGEST or "?" in said or _ASKS.search(said) or _CHOICE.search(f"{asked} {said}"):
        return None
    opposed = _opposed(said, asked, language_of(question))
    plain, count = _denied(opposed or said, written_in(sentence))
    if opposed:
        if count:
            return None  # "not closed" need not be open
        count = 1
    elif count:
        plain, count = _denied(_INSTEAD.sub("", said), written_in(sentence))
    if _denied(asked, written_in(question))[1] or count > 1 or DENIAL.search(plain) is not None:
        return None
    abroad = _abroad(question, sentence)
    words, question_words, tokens = _telling(plain, abroad), _telling(asked, abroad), _tokens(asked)
    looks = [word for word in words if word in _PLAIN and word not in tokens] if not count else ["any"]
    words = [word for word in words if word not in looks]
    copied = (
        "吗" not in asked
        and _place(_tokens(said), tokens) >= 0
        and not (led and (abroad or _tokens(said)[:1] != tokens[:1]))
    )
    if not words or not question_words or (copied and not count):
        return None
    if not _in_order(words, question_words, abroad):
        return None
    missing = [place for place, word in enumerate(question_words) if not any(alike(word, one) for one in words)]
    if count:
        return False if missing[-1:] != [len(question_words) - 1] or 3 * len(missing) < len(question_words) else None
    return True if not (missing and looks) and _only_subject(missing, question_words, tokens, abroad) else None


def _opposed(said: str, asked: str, code: str) -> str:
    """Return a sentence with the predicate of the question for the opposite one that it has; empty if it has none.

    "The window is closed" says the opposite of what "Is the window open?" asks.
    """
    rows = [LANGUAGES[code]] if code else LANGUAGES.values()
    named = [(pair, row.spaced) for row in rows for pair in alternatives(row.opposites) if pair]
    for pair, spaced in named if code else [*((pair, True) for pair in _OPPOSED_IN_ENGLISH.split("|")), *named]:
        for first, second in (pair.split("="), pair.split("=")[::-1]):
            wanted, other = (_predicate(one, spaced) for one in (first, second))
            known = [found for found in wanted.finditer(asked) if _ENDS_PREDICATE.match(asked, found.end())]
            if (
                len(known) == 1
                and len(other.findall(said)) == 1
                and not wanted.search(said)
                and not other.search(asked)
            ):
                return other.sub(rf"{known[0]['stem']}\g<end>", said)
    return ""


@cache
def _predicate(stem: str, spaced: bool) -> re.Pattern[str]:
    end = r"[^\W\d_]{0,3}" if spaced and len(stem) > 2 else ""
    before, after = (r"(?<![^\W\d_])", r"(?![^\W\d_])") if spaced else ("", "")
    return re.compile(f"{before}(?P<stem>{stem})(?P<end>{end}){after}")


_OPPOSED_IN_ENGLISH: Final = (
    "open=closed|open=shut|on=off|full=empty|wet=dry|alive=dead|awake=asleep|sitting=standing|sitting=lying|standing=lying"
    "|inside=outside|indoors=outdoors|increasing=decreasing|rising=falling|odd=even|male=female|hot=cold|clean=dirty"
    "|locked=unlocked|horizontal=vertical|switched on=switched off|turned on=turned off"
)
_ENDS_PREDICATE = re.compile(
    r"\s?(?:[?;]|\Z|[了着著的吗嗎呢?中]*(?:\?|\Z)|있|いま|อยู่|(?:in|on|at|during|today|now|heute|jetzt|am|im|um|hoy|ahora|en|aujourd'hui|le|la|l[ao]s|el|il|gli|hoje|oggi"
    r"|сегодня|сейчас|ли|чи|m[ıiuü]|van|है|हैं|است|η|ο|το|οι|τα|op|vandaag|nu|på|idag|dziś|teraz)(?![^\W\d_]))"
)
"""What follows a predicate in a question, and no noun: "Is the store open on Sundays?", "¿Está abierta la ventana?"."""


def fills_in(sentence: str, gold: str, question: str) -> bool:
    """Tell whether a sentence says words of its question and the gold text, and nothing else."""
    asked, said = _question(question), folded(sentence)
    denied, denials = _denied(asked, written_in(question))
    if denials == 1 and len(said) <= _LONGEST:  # "Green is not used" for "Which color is not used?"
        asked, (said, denials) = denied, _denied(said, written_in(sentence))
        denials -= 1
    if (
        not asked
        or denials
        or len(said) > _LONGEST
        or DOUBT.search(said)
        or _CHOICE.search(f"{asked} {said}")
        or "?" in said
    ):
        return False
    said, abroad = _SETTING.sub("", said), _abroad(question, sentence)
    tokens, wanted, known = _tokens(said), _tokens(folded(gold)), _tokens(asked)
    if wanted and "\uac00" <= wanted[-1][0] <= "\ud7a3":
        tokens = [wanted[-1] if re.fullmatch(f"{wanted[-1]}[은는이가을를]", word) else word for word in tokens]
    place = _place(wanted, tokens)
    if (
        place < 0
        or _place(wanted, known) >= 0
        or _place(wanted, tokens[place + 1 :]) >= 0
        or not _telling(gold, abroad)
    ):
        return False
    if any(_UNSPACED_SIGN.match(word) for word in tokens):
        return False
    begin = place
    while begin and tokens[begin - 1] in _PLAIN and tokens[begin - 1] not in known and "color" not in asked:
        begin -= 1
    rest = [*tokens[:begin], *tokens[place + len(wanted) :]]
    rest = _telling(" ".join(rest), abroad)
    by = _BY - {"da"} if written_in(question) == "pt" else _BY  # "of the"
    if bool(by.intersection(known)) != bool(by.intersection(tokens) - set(wanted)):
        return False
    is_only = _IS_ONLY.fullmatch(asked) is not None
    if (is_only or " of " in asked) and place and _telling(" ".join(tokens[place + len(wanted) :]), abroad):
        return False
    turned = _SIDES.search(asked) is None and (abroad or is_only)
    words = _telling(asked, abroad)
    return (
        bool(rest)
        and all(any(alike(word, one) for one in words) for word in rest)
        and (turned or _in_order(rest, words, False))
    )


def turns(sentence: str) -> bool:
    """Tell whether a sentence may take back or leave open what was said before it."""
    plain = folded(sentence)
    row = LANGUAGES.get(language_of(sentence))
    but = _BUT_IN_ENGLISH if row is None else row.but or "(?!)"
    if DENIAL.search(_denied(plain, "")[0]) is not None or _CHOICE.search(plain) is not None:
        return True
    return re.search(rf"\b(?:{but})\b", plain) is not None


def denies(sentence: str) -> bool:
    """Tell whether a sentence holds a negation."""
    return _denied(folded(sentence), written_in(sentence))[1] > 0


def of_another(lead: str, rest: str, question: str) -> bool:
    """Tell whether what stands before and behind an answer names another thing than its question, or a part of it."""
    asked, said = _question(question), folded(lead)
    labels, years = ([frozenset(form.findall(text)) for text in (question, lead)] for form in (_LABEL, _YEAR))
    if any(of_question and named and not of_question & named for of_question, named in (labels, years)):
        return True
    known, words = (frozenset((*row, *map("".join, pairwise(row)))) for row in (_tokens(asked), _tokens(said)))
    for pair in _OPPOSITES:
        for first, second in (pair, pair[::-1]):
            if known & first and words & second and not (known & second or words & first):
                return True
    if known & words and _denied(asked, written_in(question))[1] == 1 and not _denied(said, written_in(lead))[1]:
        return _telling(said, _abroad(question, lead)) != []
    places, said_places = (
        {found["thing"] or found["what"]: found["at"] or found["side"] for found in _PLACE.finditer(text)}
        for text in (asked, f"{said} {folded(rest)}")
    )
    if any(places.get(thing, at) != at for thing, at in said_places.items()):
        return True
    subject = _SUBJECT.search(said)
    if subject is None or _ASKS_LOOK.match(asked) is None:
        return False
    head = _telling(subject["head"], False)[-1:]
    return not any(alike(one, word) for one in (*known, *_ANYTHING) for word in head)


_OPPOSITES: Final = tuple(
    tuple(frozenset(side.split()) for side in pair)
    for pair in (
        (
            "boy man guy he his junge mann garçon homme niño hombre",
            "girl woman lady she her mädchen frau fille femme niña mujer",
        ),
        ("男", "女"),
        (
            "left links izquierda gauche sinistra esquerda слева 左",
            "right rechts derecha droite destra direita справа 右",
        ),
        ("first erste ersten primero premier primo первый", "last letzte letzten último dernier ultimo последний"),
        ("top upper oben", "bottom lower unten"),
        (
            "highest most largest biggest maximum höchste höchsten",
            "lowest least fewest smallest minimum niedrigste niedrigsten",
        ),
        ("最高 最多 最大 最长", "最低 最少 最小 最短"),
        ("open", "closes"),
        ("opens", "close closes"),
        ("departs depart leaves leave", "arrives arrive"),
        ("starts start begins begin", "ends end finishes finish"),
        ("won win wins winner", "lost lose loses loser"),
        ("longest tallest", "shortest"),
        ("oldest earliest", "youngest newest latest"),
        ("above over", "below under beneath"),
        ("before", "after"),
        ("front foreground", "behind back background"),
        ("inside", "outside"),
        ("used", "unused"),
        ("departure origin start 出", "arrival destination end 到"),
    )
)
_PLACE = re.compile(
    r"\b(?P<at>on|under|below|(?:in\sfront\sof|behind)|above|inside|outside)\s(?:the|a)\s(?P<thing>\w+)"
    r"|(?=(?P<what>[\u3400-\u9fff]{2})(?P<side>[上下前后外]))"
)
_LABEL = re.compile(r"(?<![\w'])(?!A\s(?!is\b)|I\b)[A-Z](?![\w'.])")
_YEAR = re.compile(r"(?<![\d.,])(?:1[5-9]|20)[0-9]{2}(?![\d.,])")
_ASKS_LOOK = re.compile(r"(?:what|which)\s(?:colou?r|shape|material|pattern)s?\s(?:is|are|was|were|does|do|has|have)\b")
_SUBJECT = re.compile(
    r"\b(?:the|an?|his|her|its|their|th(?:is|at|ese|ose))\s(?P<head>(?:(?!(?:the|of|o[nr]|in|at|with|to|that|which|who|by|worn|held|\w{3,20}(?:ed|ing))\b)[^\W_][^\s,;:]*\s){1,5})"
    r"(?:(?:the|of|on|in|at|with|to|worn|held|\w{3,20}(?:ed|ing))\s[^,;:]{1,60}\s)?(?:is|are|was|were|looks?|appears?|seems?)(?:\s(?:to\sbe|an?|the|very|bright|dark|light))*\s*\Z"
)
_ANYTHING: Final = tuple("answer colour color object thing item vehicle animal shape material pattern".split())  # noqa: SIM905


def completes(sentence: str, gold: str, question: str) -> bool:
    """Tell whether words of the question as they stand there, and the gold text before or after, make up a sentence."""
    said, asked, wanted = folded(sentence).strip(" ."), folded(question), folded(gold)
    rest = said.removeprefix(wanted) if said.startswith(wanted) else said.removesuffix(wanted)
    rest = _COUNTED.sub("", rest)
    known = rest != said and len(rest) > 1 and rest in asked and wanted not in asked
    return known and _UNSPACED_SIGN.match(rest) is not None and not _CHOICE.search(asked) and not denies(rest)


_COUNTED = re.compile(
    r"(?:放|戴|拿|坐|站|停|写|躺)?着?一?[个個只隻头頭条條张張辆輛座匹位棵把顶朵](?:[\u3400-\u9fff]{1,2}色的?|[大小])?\Z"
)


def topic_of(sentence: str, question: str) -> frozenset[str]:
    """Return the words of a question that a sentence repeats."""
    words = _telling(folded(sentence), _abroad(question, sentence))
    asked = _telling(_question(question), _abroad(question, sentence))
    return frozenset(known for known in asked if any(alike(word, known) for word in words))


def _question(question: str) -> str:
    """Return the last line of a question as it is compared; empty if it is too long."""
    asked = folded(question.strip().rpartition("\n")[2])
    return "" if len(asked) > _LONGEST else _A_NOT_A.sub(r"\1", _QUESTION_TAG.sub("?", asked))


def _abroad(question: str, sentence: str) -> bool:
    """Tell whether a question, and a sentence that answers it, are in another language than English."""
    return not question.isascii() or written_in(f"{question} {sentence}") != ""


def _denied(text: str, language: str) -> tuple[str, int]:
    """Return a folded text without its negations, and how many there are; "no hay ninguno" is one."""
    found: list[str] = []

    def drop(match: re.Match[str]) -> str:
        if match[0] == "no" and language == "pt":
            return match[0]
        found.append(match[0])
        return " "

    plain = re.sub(r"(?<=ca)n(?:'t|not)\b", "n not", text).replace("n't", " not")
    plain = _NOT_SIGNS.sub(drop, _WORD_NOT.sub(drop, plain))
    return plain, sum(word not in _NOT_ANY for word in found) or min(1, len(found))


def _tokens(text: str) -> list[str]:
    """Return the words of a folded text, or its signs where words are not divided."""
    return _TOKEN.findall(_ELIDED.sub(" ", text))


def telling(text: str) -> list[str]:
    """Return the words of a text, in any language, that say something of their own."""
    return _telling(folded(text), True)


def _telling(text: str, abroad: bool) -> list[str]:
    """Return the words of a folded text that say something of their own."""
    filling = _ABROAD if abroad else _ENGLISH
    return [word for word in _tokens(_FILLING_SIGNS.sub(" ", text)) if word not in filling]


def _bare(word: str) -> str:
    plain = "".join(sign for sign in unicodedata.normalize("NFD", word) if not "\u0300" <= sign <= "\u036f")
    return re.sub("ies$", "y", unicodedata.normalize("NFC", plain))


def alike(first: str, second: str) -> bool:
    """Tell whether two words are forms of one: they differ in short endings, not in degree."""
    first, second = _bare(first), _bare(second)
    if first == second:
        return True
    common = next(
        (place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    if "\uac00" <= first[0] <= "\ud7a3":
        return common >= 2
    ends = {first[common:], second[common:]}
    if "а" <= first[0] <= "ё" and common == 3 and max(map(len, ends)) == 1:
        return True
    if first[0].isdigit() or common < 4 or any(len(end) > 3 or end in _DEGREES for end in ends):
        return False
    return 3 * common >= 2 * max(len(first), len(second))


_PLAIN: Final = frozenset(
    """
    red yellow black white blue green brown gray grey orange pink purple small large big tall long young little old
    dark light wooden plastic metal striped open empty folded rote roter rotes weißer weißes rouge noir noire blanc
    blanche witte zwarte
    """.split()  # noqa: SIM905
)
"""Words for how a thing looks, before its name: "a red kite" is a kite."""
_DEGREES: Final = frozenset("er est st r ere eren less siz suz sız süz ton".split())  # noqa: SIM905


def _place(words: Sequence[str], among: Sequence[str]) -> int:
    """Return where `words` stand in a row; -1 if nowhere."""
    width = len(words)
    return next((i for i in range(len(among) - width + 1) if list(among[i : i + width]) == list(words)), -1)


def _in_order(words: Sequence[str], asked: Sequence[str], turned: bool) -> bool:
    """Tell whether all words are in the question, in its order; `turned`: its first one, the verb, may come later."""
    for said, known in ((words, asked), (_without(words, asked[0]), asked[1:]) if turned else (words, asked)):
        place = 0
        for word in said:
            while place < len(known) and not alike(word, known[place]):
                place += 1
            place += 1
        if place <= len(known):
            return True
    return False


def _without(words: Sequence[str], verb: str) -> list[str]:
    place = next((place for place, word in enumerate(words) if alike(word, verb)), len(words))
    return [*words[:place], *words[place + 1 :]]


def _only_subject(missing: Sequence[int], asked: Sequence[str], tokens: Sequence[str], turned: bool) -> bool:
    """Tell whether all that a sentence leaves out of the question is its subject, which a pronoun may stand for."""
    if not missing:
        return True
    begin = 1 if turned and missing[0] == 1 else 0
    if list(missing) != list(range(begin, begin + len(missing))) or begin + len(missing) == len(asked):
        return False
    left_out = [asked[place] for place in missing]
    before = tokens[: tokens.index(asked[missing[-1]]) + 1]
    return not (
        _ALL.intersection(left_out)
        or _INDEFINITE.intersection(before)
        or PRONOUNS.intersection(before[:2])
        or any(word[0].isdigit() for word in left_out)
    )
