"""README.md as package indexes show it: they have no files of the repository beside the page.

A picture is left out, and a link to a file of the repository becomes its text. Used by hatchling for the metadata of
wheel and sdist; nothing else is changed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n?", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)[^)]*\)")


class LongDescription(MetadataHookInterface):
    """Sets `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling with the table `[project]`."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = _LINK.sub(r"\1", _PICTURE.sub("", text))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
