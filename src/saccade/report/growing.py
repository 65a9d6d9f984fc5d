"""The page of an episode while it is played: what can be shown of it so far, and the whole page in the end.

It is drawn by what draws a stored episode, so boxes, turns and pictures look the same before and after the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from saccade.media.store import MediaStore
from saccade.record.trajectory import Trajectory
from saccade.record.turn import Turn
from saccade.report.episode_view import EpisodeView, episode_view
from saccade.report.page import episode_html, page_html
from saccade.report.picture_book import PictureBook, Sources


@dataclass(frozen=True, slots=True)
class SoFar:
    """An episode as far as it has come."""

    html: str
    """Its section of a page; every text in it is escaped."""
    pictures: Mapping[str, tuple[str, ...]]
    """Data URLs of the pictures that were not there before, by key: the thumbnail, and a larger copy if it has one."""


class GrowingEpisode:
    """One episode; not for several threads at once."""

    def __init__(self, begun: Trajectory, store: MediaStore, anchor: str) -> None:
        """`begun` is the trajectory before its first turn; `anchor` names the episode among others in a page."""
        self._begun = begun
        self._anchor = anchor
        self._book = PictureBook(store)
        self._given: set[str] = set()

    def so_far(self, turns: tuple[Turn, ...], *, running: bool) -> SoFar:
        """The episode after `turns`; `running`: what the last one asked for is being run."""
        begun = self._begun.model_copy(update={"turns": turns})
        view = episode_view(self._anchor, begun, self._book, running=running)
        return self._shown(view)

    def ended(self, trajectory: Trajectory) -> tuple[SoFar, str]:
        """The whole episode, and its page as one file, as `saccade show` writes it."""
        view = episode_view(self._anchor, trajectory, self._book)
        page = page_html(view.title, episode_html(view), self._book.sources)
        return self._shown(view), page

    def _shown(self, view: EpisodeView) -> SoFar:
        new = {key: _urls(found) for key, found in self._book.sources.items() if key not in self._given}
        self._given |= new.keys()
        return SoFar(str(episode_html(view)), new)


def _urls(sources: Sources) -> tuple[str, ...]:
    return (sources.thumb, sources.large) if sources.large else (sources.thumb,)
