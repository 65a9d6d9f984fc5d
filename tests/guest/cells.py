"""A guest without a jail: one forked child that runs cells, so that nothing it patches reaches the test process."""

from __future__ import annotations

import importlib
import json
import logging
import multiprocessing
import os
import signal
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from PIL import Image
from tests.guest.children import fork

from saccade.guest.cell import run_cell
from saccade.guest.outbox import Outbox
from saccade.guest.preload import preload
from saccade.guest.show import patch
from saccade.guest.shown import ShownPictures, use
from saccade.guest.wire import GuestConfig, layout
from saccade.guest.workspace import Workspace, WorkspaceTooLarge

HANGS = 60
"""Seconds after which a cell counts as hanging."""


@dataclass(frozen=True)
class Result:
    """A report with its text and pictures read out of the outbox."""

    report: dict[str, Any]
    stdout: str
    stderr: str
    pictures: list[Image.Image]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.report[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def sources(self) -> list[str]:
        return [picture["source"] for picture in self.report["pictures"]]

    @property
    def sizes(self) -> list[tuple[int, int]]:
        return [picture.size for picture in self.pictures]

    @property
    def repaired(self) -> list[str]:
        return [repair["name"] for repair in self.report["repairs"]]


class Guest:
    """Runs cells one after the other; what a cell does stays, as nothing rolls it back here."""

    def __init__(self, workspace: Path, **settings: Any) -> None:
        self.workspace = workspace
        self.config = GuestConfig(workspace=str(workspace), **settings)
        self.layout = layout(self.config.output_bytes, self.config.total_pixels)
        self.outbox = os.memfd_create("outbox")
        os.ftruncate(self.outbox, self.layout.size)
        self.tails = tuple(os.memfd_create(name) for name in ("stdout", "stderr"))
        self.ours, theirs = multiprocessing.Pipe()
        self.pid = fork()
        if self.pid == 0:
            try:
                self._serve(theirs)
            finally:
                os._exit(99)
        theirs.close()

    def run(self, code: str) -> Result:
        """Run one cell."""
        length = self.ask("run", code)
        report = json.loads(os.pread(self.outbox, length, 0))
        return Result(report, self.text("stdout", report), self.text("stderr", report), self._pictures(report))

    def ask(self, order: str, code: str = "") -> Any:
        """Send an order to the child and wait for its answer; EOFError if the child ended instead."""
        self.ours.send((order, code))
        if not self.ours.poll(HANGS):
            os.kill(self.pid, signal.SIGKILL)
            raise AssertionError(f"hangs: {code}")
        return self.ours.recv()

    def text(self, stream: str, report: dict[str, Any] | None = None) -> str:
        """What was printed; without a report everything that lies there, as the host reads it after a kill."""
        start = getattr(self.layout, stream)
        kept = self.config.output_bytes if report is None else report[stream][0]
        return os.pread(self.outbox, kept, start).rstrip(b"\0").decode()

    def close(self) -> None:
        """End the child."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.ours.close()
        for fd in (self.outbox, *self.tails):
            os.close(fd)

    def _pictures(self, report: dict[str, Any]) -> list[Image.Image]:
        pictures = []
        for one in report["pictures"]:
            size = one["width"], one["height"]
            length = size[0] * size[1] * len(one["mode"])
            assert self.layout.pictures <= one["offset"] <= self.layout.size - length
            pictures.append(Image.frombytes(one["mode"], size, os.pread(self.outbox, length, one["offset"])))
        return pictures

    def _serve(self, pipe: Connection) -> None:
        self.ours.close()
        # pytest records warnings and log lines; the guest shall print them.
        importlib.reload(warnings)
        logging.getLogger().handlers.clear()
        os.chdir(self.workspace)
        for fd, tail in zip((1, 2), self.tails, strict=True):
            os.dup2(tail, fd)
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        preload(module.__dict__, self.config.preload)
        outbox = Outbox(self.outbox, self.config, (self.tails[0], self.tails[1]))
        limits = self.config.workspace_bytes, self.config.workspace_files
        workspace = Workspace(os.open(self.workspace, os.O_RDONLY), *limits)
        workspace.commit()
        shown = ShownPictures(self.config, outbox)
        use(shown)
        patch()
        context: Any = types.SimpleNamespace(
            module=module, config=self.config, outbox=outbox, workspace=workspace, shown=shown
        )
        number = 0
        while True:
            order, code = pipe.recv()
            if order == "run":
                number += 1
                report = run_cell(context, code, number)
                pipe.send(outbox.write_report(report))
            else:
                pipe.send(_attempt(getattr(workspace, order)))


Start = Callable[..., Guest]
"""Makes a guest with the given settings (see `GuestConfig`)."""


def _attempt(action: Callable[[], None]) -> str | None:
    try:
        action()
    except WorkspaceTooLarge as error:
        return str(error)
    return None


def memfd_outbox(**settings: Any) -> tuple[Outbox, GuestConfig]:
    """An outbox of this process; the caller closes `outbox.fd`."""
    config = GuestConfig(**settings)
    fd = os.memfd_create("outbox")
    os.ftruncate(fd, layout(config.output_bytes, config.total_pixels).size)
    return Outbox(fd, config, (-1, -1)), config
