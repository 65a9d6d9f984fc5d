"""Forms of others in which recorded episodes are exported, by name: `saccade export --to NAME`.

Packages add theirs by an entry point of the group `saccade.exports`; nothing is imported before it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from saccade.record.registry import Registry, has_members
from saccade.record.trajectory import Trajectory


class EpisodeExport(Protocol):
    """Writes episodes in a form of others, or sends them to a service that takes it."""

    items: str
    """The things that are written, for a message: `spans`."""
    file_name: str
    """Name of the file in the run's folder, where none is given."""

    def export(self, episodes: Iterable[Trajectory], target: Path | str, *, content: bool) -> int:
        """Write the episodes to a file, or send them to the address `target`; return the number of items.

        Args:
            episodes: recorded ones, each once.
            target: a file, or an address as text.
            content: also export texts, code and output.

        Raises:
            UnavailableError: a package that it needs is not installed.
            SettingsError: the episodes cannot be written or delivered.
        """


EXPORTS: Final = Registry[EpisodeExport]("exports", {}, has_members(("items", "file_name", "export")))
