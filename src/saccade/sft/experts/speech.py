"""Thoughts out of templates: alternatives in brackets, slots in braces, chosen by a seeded stream.

    say(rng, "[I see|There is] {what}[ here|][.|!]", what="a sign")

Alternatives may be nested; an empty one leaves the piece out. Slots are filled last, so that what fills them is never
read as a template.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from saccade.tasks.worlds.rng import Rng

_INNERMOST = re.compile(r"\[([^\[\]]*)\]")
_START = re.compile(r"(?:^|(?<=[.!?] ))[a-z]")
_SLOT = re.compile(r"\{(\w+)\}")


def say(rng: Rng, templates: str | Sequence[str], **slots: object) -> str:
    """One of the sentences that the templates allow, with capitals where sentences begin.

    Raises:
        KeyError: a template has a slot that is not given.
    """
    text = templates if isinstance(templates, str) else rng.choice(templates)
    while match := _INNERMOST.search(text):
        text = text[: match.start()] + rng.choice(match[1].split("|")) + text[match.end() :]
    text = _SLOT.sub(lambda slot: str(slots[slot[1]]), " ".join(text.split()))
    return _START.sub(lambda start: start[0].upper(), text)
