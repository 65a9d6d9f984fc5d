"""The live page in a browser: a server in a thread, whose models write letter by letter, and a page that is watched."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.plugins.serve.agents import serving

from saccade.models.base import Completion, MediaReader, Model, Request
from saccade.models.scripted import speak

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOOK = "I cut the sign out.\n<code>\n```python\nimage_clue_0.crop((100, 50, 200, 130)).show()\n```\n</code>"
SLIP = "A slip.\n<code>\n```python\nprint(1 / 0)\n```\n</code>"
ANSWER = "It is blue.\n<answer>\n\\boxed{blue}\n</answer>"


class Typing:
    """Writes the texts of an episode one after the other, each piece after some seconds."""

    def __init__(self, texts: tuple[str, ...] = (LOOK, SLIP, ANSWER), seconds: float = 0.002) -> None:
        self.name, self.seconds, self._texts = "typing", seconds, texts
        self.asked = self.cancelled = 0

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        self.asked += 1
        text = self._texts[sum(message.role == "assistant" for message in request.messages)]
        try:
            for at in range(0, len(text), 8):
                await asyncio.sleep(self.seconds)
                if on_text is not None:
                    on_text(text[at : at + 8])
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return speak(text, request, self.name)

    async def close(self) -> None:
        pass


@contextmanager
def live(models: Mapping[str, Model], token: str | None = None, **options: Any) -> Iterator[str]:
    """The address of the page of a real server with a real sandbox."""
    ready, end = threading.Event(), asyncio.Event()
    found: list[Any] = []

    async def serve() -> None:
        async with serving(models, token=token, **options) as url:
            found.extend([url.removesuffix("/v1"), asyncio.get_running_loop()])
            ready.set()
            await end.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(60)
        yield found[0]
    finally:
        found[1].call_soon_threadsafe(end.set)
        thread.join()


@contextmanager
def watched(
    browser: Browser, url: str, width: int = 1280, scheme: Any = "light", expected: tuple[str, ...] = ()
) -> Iterator[Page]:
    """The page; in the end it has asked nobody else, and its console told of the statuses `expected` alone."""
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce", accept_downloads=True
    )
    context.set_default_timeout(60_000)
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    page.on("request", lambda one: None if one.url.startswith((url, "data:", "blob:")) else faults.append(one.url))
    page.goto(f"{url}/")
    page.wait_for_selector("#examples .tile img, #token:not([hidden])")
    yield page
    context.close()
    unexpected = [fault for fault in faults if not any(f"status of {status} " in fault for status in expected)]
    assert not unexpected, unexpected
