"""The pages of many episodes: together in one file up to a budget, beyond it each in a file of a folder beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from markupsafe import Markup

from saccade.record.disk import write_atomic
from saccade.report.episode_view import EpisodeView
from saccade.report.page import Other, episode_html, page_html
from saccade.report.picture_book import Sources

BUDGET: Final = 24_000_000
"""Bytes of a page with many episodes, about."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode, ready to be written in either way."""

    view: EpisodeView
    sources: dict[str, Sources]
    body: Markup
    """As it stands beside others in one file."""
    others: tuple[Other, ...] = ()


class Episodes:
    """Gathers episodes for the page `target`. Nothing is written before the budget is passed."""

    def __init__(self, target: Path, *, budget: int = BUDGET) -> None:
        self.folder = target.with_name(f"{target.stem}_episodes")
        self.together: list[Episode] = []
        """Those for one file; none once they are written apart."""
        self.sources: dict[str, Sources] = {}
        """Pictures of all of them."""
        self.apart = False
        """Whether each has a file of its own."""
        self.count = 0
        self._target = target
        self._budget = budget
        self._bytes = 0
        """Of one file with every episode so far, about."""

    def add(self, view: EpisodeView, sources: dict[str, Sources], others: tuple[Other, ...] = ()) -> None:
        """One more, with the pictures that it shows; `others` link to anchors, as in one file."""
        self.count += 1
        self.together.append(Episode(view, sources, episode_html(view, back="#", others=others), others))
        self._bytes += len(self.together[-1].body)
        self._bytes += sum(source.bytes for key, source in sources.items() if key not in self.sources)
        self.sources |= sources
        if self.apart or (self.count > 1 and self._bytes > self._budget):
            self.apart = True
            for episode in self.together:
                self._write(episode)
            self.together.clear()
            self.sources.clear()

    def href(self, anchor: str) -> str:
        """Where the episode of that anchor is found from the target, once all are added."""
        return f"{self.folder.name}/{anchor}.html" if self.apart else f"#{anchor}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the target should know."""
        if not self.apart:
            return ()
        return (f"One file would be larger than {self._budget / 1e6:g} MB, so each episode has its own.",)

    def _write(self, episode: Episode) -> None:
        others = tuple(replace(other, href=f"{other.href.removeprefix('#')}.html") for other in episode.others)
        body = episode_html(episode.view, back=f"../{self._target.name}", others=others, root="../")
        path = self.folder / f"{episode.view.anchor}.html"
        write_page(path, page_html(episode.view.title, body, episode.sources))


def write_page(path: Path, text: str) -> None:
    """Write a page; it appears whole or not at all."""
    write_atomic(path, text)
