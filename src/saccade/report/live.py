"""Follows a run as it grows: its samples as data for a page, and the page of each episode on request.

The file of trajectories is read on from where it was read last; where another file has taken its place (a run that was
graded anew) it is read from its beginning. Nothing is written.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from saccade.core.local_page import local_app
from saccade.episode.run_folder import MEDIA, TRAJECTORIES
from saccade.errors import SettingsError
from saccade.evals.benchmarks import BROKEN_ROW
from saccade.evals.grades import FAILURES, open_failures
from saccade.evals.rows import EvalRow, row_order, spent, spent_text
from saccade.evals.stored import is_run, list_runs, run_settings
from saccade.evals.summary import SUMMARY, figures
from saccade.media.store import MediaStore
from saccade.record.codec import loads
from saccade.record.trajectory import Trajectory, Turn
from saccade.report.episode_view import EpisodeView, episode_view
from saccade.report.page import Gallery, episode_html, live_page, page_html, runs_page
from saccade.report.picture_book import PictureBook, Sources
from saccade.report.runs import FAILED_CALL, EvalRun, StoredRun, wires_of
from saccade.report.sections.view import between, percent
from saccade.report.words import some


class LiveRun:
    """One run, read so far; safe from many threads."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self._file = path / TRAJECTORIES
        self._lock = threading.Lock()
        self._begin_again()

    @property
    def version(self) -> str:
        """Another text whenever something was stored."""
        return "-".join(_stamp(self.path / name) for name in (TRAJECTORIES, FAILURES, SUMMARY))

    def data(self) -> dict[str, object]:
        """Return what the page shows: `version`, `facts` in words, and the samples as a gallery has them.

        Raises:
            RecordError: a stored line cannot be read.
        """
        with self._lock:
            version = self.version
            self._read_on()
            rows = sorted(self._rows.values(), key=row_order)
            failures = open_failures(self.path, set(self._rows)).values()
            gallery = Gallery((FAILED_CALL,))
            for number, row in enumerate(rows):
                gallery.add(number, self._run, row, None)
            failed = [failure for failure in failures if failure.kind != BROKEN_ROW]
            for failure in failed:
                gallery.add_lost(self._run, failure)
            hrefs = {number: f"episode/{self._lines[row.id][0]}" for number, row in enumerate(rows)}
            facts = tuple(self._facts(rows, len(failed)))
            return {**gallery.data(hrefs), "version": version, "facts": facts}

    def page(self) -> str:
        """Return the page of the run; it asks for `data` again and again. Raises `RecordError`."""
        return live_page(self.name, self.data())

    def episode(self, begin: int) -> str:
        """Return the page of the sample whose line begins at byte `begin`.

        Raises:
            KeyError: no sample has such a line.
            RecordError: it cannot be read.
        """
        with self._lock:
            self._read_on()
            length = dict(self._lines.values())[begin]
            with self._file.open("rb") as lines:
                lines.seek(begin)
                trajectory = loads(lines.read(length), Trajectory)
        media = self.path / MEDIA
        book = PictureBook(MediaStore(media) if media.is_dir() else None)
        problems: list[str] = []
        wires = wires_of(self.path, trajectory.id, problems)
        view = episode_view("e1", trajectory, book, wires=wires)
        return page_html(view.title, episode_html(view, back="../"), book.sources, tuple(problems))

    def _begin_again(self) -> None:
        try:
            settings = run_settings(self.path)
        except SettingsError:
            settings = None  # made by other means
        self._run = EvalRun(self.name, StoredRun(self._file, None), settings)
        self._rows: dict[str, EvalRow] = {}
        self._lines: dict[str, tuple[int, int]] = {}
        """Of each sample where its line begins, and its bytes."""
        self._inode, self._end = 0, 0

    def _read_on(self) -> None:
        if not self._file.is_file():
            return
        with self._file.open("rb") as lines:
            stat = self._file.stat()
            if stat.st_ino != self._inode or stat.st_size < self._end:
                self._begin_again()
                self._inode = stat.st_ino
            lines.seek(self._end)
            for line in lines:
                if not line.endswith(b"\n"):
                    return  # still being written
                row = self._run.learn(loads(line, Trajectory))
                self._rows[row.id], self._lines[row.id] = row, (self._end, len(line))
                self._end += len(line)

    def _facts(self, rows: list[EvalRow], failed: int) -> Iterator[str]:
        settings = self._run.settings
        if settings is not None:
            yield f"{settings.asked} · {settings.dialect} · {', '.join(source_name(one) for one in settings.sources)}"
        total = figures(rows, self._run.k)
        ends = f" ({between(total.interval)}, {total.interval_by})" if total.interval is not None else ""
        yield f"{percent(total.avg)}% right{ends} of {some(total.tasks, 'task')}, {some(len(rows), 'sample')} stored"
        if failed:
            yield f"{some(failed, 'sample')} failed"
        yield from spent_text(spent(rows))
        yield "The command came to its end." if (self.path / SUMMARY).is_file() else "There is no summary yet."


def source_name(source: str) -> str:
    """Return a source without its folders: pages show no paths of the machine."""
    return source.rstrip("/").rsplit("/", 1)[-1]


def _stamp(path: Path) -> str:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return "none"
    return f"{stat.st_size}.{stat.st_mtime_ns}"


@dataclass(frozen=True, slots=True)
class SoFar:
    """An episode so far."""

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
        """Return the episode after `turns`; `running`: what the last one asked for is being run."""
        begun = self._begun.model_copy(update={"turns": turns})
        view = episode_view(self._anchor, begun, self._book, running=running)
        return self._shown(view)

    def ended(self, trajectory: Trajectory) -> tuple[SoFar, str]:
        """Return the whole episode, and its page as one file, as `saccade show` writes it."""
        view = episode_view(self._anchor, trajectory, self._book)
        page = page_html(view.title, episode_html(view), self._book.sources)
        return self._shown(view), page

    def _shown(self, view: EpisodeView) -> SoFar:
        new = {key: _urls(found) for key, found in self._book.sources.items() if key not in self._given}
        self._given |= new.keys()
        return SoFar(str(episode_html(view)), new)


def _urls(sources: Sources) -> tuple[str, ...]:
    return (sources.thumb, sources.large) if sources.large else (sources.thumb,)


# Pages are made when they are asked for, while the runs grow. The applications answer only requests that name this
# machine (a stranger's page may have a name that resolves to it); they serve no files and write nothing.


def viewer(folder: Path) -> Starlette:
    """Make the application that shows a run, or all runs below a folder."""
    runs = _Runs(folder)

    def index(request: Request) -> Response:
        if runs.single:
            return RedirectResponse("/run/this/", 303)
        return HTMLResponse(runs_page(list_runs(folder), lambda run: f"/run/{run.name}/"))

    def data(request: Request) -> Response:
        run = runs.named(request.path_params["run"])
        if request.query_params.get("version") == run.version:
            return Response(status_code=204)
        return JSONResponse(run.data())

    def episode(request: Request) -> Response:
        try:
            return HTMLResponse(runs.named(request.path_params["run"]).episode(request.path_params["begin"]))
        except KeyError:
            raise HTTPException(404, "There is no such sample any more.") from None

    def page(request: Request) -> Response:
        return HTMLResponse(runs.named(request.path_params["run"]).page())

    return local_app(
        [
            Route("/", index),
            Route("/run/{run:path}/data.json", data),
            Route("/run/{run:path}/episode/{begin:int}", episode),
            Route("/run/{run:path}/", page),
        ]
    )


class _Runs:
    """The runs of a folder, or the one run that the folder is."""

    def __init__(self, folder: Path) -> None:
        self.single = is_run(folder)
        self._folder = folder
        self._runs: dict[str, LiveRun] = {}

    def named(self, name: str) -> LiveRun:
        """Return the run of that name; one that is not in the list is none, so no path leads out of the folder."""
        if name not in self._runs:
            listed = {"this": self._folder} if self.single else {run.name: run.path for run in list_runs(self._folder)}
            if name not in listed:
                raise HTTPException(404)
            title = self._folder.resolve().name if self.single else name
            self._runs.setdefault(name, LiveRun(title, listed[name]))
        return self._runs[name]
