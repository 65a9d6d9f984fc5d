"""A web application of a test behind a real socket of this machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from tests.prompt_uvicorn import prompt_server


@contextmanager
def listening(app: Any, lifespan: Literal["on", "off"] = "off") -> Iterator[str]:
    """The address at which `app`, any ASGI application, answers, until the block is left."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = prompt_server(app, log_level="critical", lifespan=lifespan, ws="none")
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        assert not thread.is_alive()
