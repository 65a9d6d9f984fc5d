"""An ASGI application served in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.prompt_uvicorn import prompt_server


@contextmanager
def served(app: Any) -> Iterator[int]:
    """The port on which it is served."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = prompt_server(app, log_level="critical", access_log=False, timeout_graceful_shutdown=1)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
