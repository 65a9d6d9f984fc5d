r"""Keeps what a program printed from being taken for a tag of the protocol.

The rule: a backslash is put after the `<` of every protocol tag in the text, opening or closing, in any case and with
any blanks inside: `</interpreter>` becomes `<\/interpreter>`. A tag that already has backslashes gets one more, so that
no two texts become one. Text that holds no protocol tag is not changed. Markers of chat templates,
`<|name|>`, always count as tags. This guards the text of messages; that printed text is also tokenised without special
tokens is the tokeniser's work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable


class TagGuard:
    r"""The tags of one dialect. `names` are regular expressions of tag names, e.g. `code` or `image_clue_\d+`."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        any_name = "|".join(self.names)
        tag = rf"(?:\s*(?:/\s*)?(?:{any_name})\s*(?:/\s*)?>|\|\w+\|>)" if self.names else r"\|\w+\|>"
        self._any = re.compile(rf"<(?=\\*{tag})", re.IGNORECASE)
        self._tag = re.compile(f"<{tag}", re.IGNORECASE)

    def escape(self, text: str) -> str:
        """`text` with no protocol tag in it."""
        return self._any.sub(lambda _: "<\\", text)

    def tags(self, text: str) -> tuple[str, ...]:
        """Every protocol tag in `text`, in order, as it stands there."""
        return tuple(match.group() for match in self._tag.finditer(text))
