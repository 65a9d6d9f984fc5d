"""The client of servers that hundreds of episodes ask at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from saccade.core.http import Server
from saccade.core.retry import RetryPolicy


class Served(ThreadingHTTPServer):
    daemon_threads = True
    connections = 0

    def process_request(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        self.connections += 1
        super().process_request(request, client_address)


@contextmanager
def served() -> Iterator[Served]:
    """A server that keeps connections open for as long as a client likes, and says back a header."""

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            said = f"{self.path} {self.headers['x-mine']}".encode()
            self.send_response(200)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with Served(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def test_each_request_has_a_connection_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with served() as server:
        client = Server(f"http://127.0.0.1:{server.server_port}", {"x-mine": "a word"}, retry=RetryPolicy())
        texts = [await client.ask("GET", f"/{number}", lambda response: response.text) for number in range(3)]
        assert texts == [f"/{n} a word" for n in range(3)]
        await client.close()
        assert server.connections == 3
