"""A file from the web, against a server of this machine that answers as servers do."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from saccade.errors import MediaError, TooLargeError
from saccade.media.download import download, is_url, name_in

DATA = bytes(range(100))


class Handler(http.server.BaseHTTPRequestHandler):
    """`/whole`, `/unsaid` (no length), `/short`, `/words` (a length that is no number), `/far` (a long redirect)."""

    def do_GET(self) -> None:
        if self.path == "/far":
            self.send_response(302)
            self.send_header("Location", "ftp://" + "x" * 300)
            self.end_headers()
            return
        self.send_response(200)
        length = {"/whole": "100", "/short": "101", "/words": "many"}.get(self.path)
        if length is not None:
            self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(DATA)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("path", ["/whole", "/unsaid", "/words"])
def test_as_many_bytes_as_the_limit(web: str, path: str, tmp_path: Path) -> None:
    target = tmp_path / "file"
    download(web + path, target, most_bytes=100, seconds=30)
    assert target.read_bytes() == DATA


@pytest.mark.parametrize("path", ["/whole", "/unsaid", "/words"])
def test_a_byte_more_than_the_limit(web: str, path: str, tmp_path: Path) -> None:
    with pytest.raises(TooLargeError, match=r"has 100 bytes or more, over the limit of 99\."):
        download(web + path, tmp_path / "file", most_bytes=99, seconds=30)
    assert (tmp_path / "file").read_bytes() == b""


def test_a_byte_less_than_was_said(web: str, tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=r"/short broke off after 100 of 101 bytes\. Try again\.$"):
        download(f"{web}/short", tmp_path / "file", most_bytes=200, seconds=30)


def test_the_clock_ends_what_comes_slowly(web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that always sends a little never runs into the limit of one read."""
    times = iter([0.0, 30.5])
    monkeypatch.setattr("saccade.media.download.time.monotonic", lambda: next(times, 30.5))
    with pytest.raises(MediaError, match=r"was not there after 30 s \(100 bytes came\)\. .*media\.url_seconds"):
        download(f"{web}/whole", tmp_path / "late", most_bytes=100, seconds=30)
    monkeypatch.setattr("saccade.media.download.time.monotonic", lambda: 7.0)  # the last moment is in time
    download(f"{web}/whole", tmp_path / "there", most_bytes=100, seconds=30)
    assert (tmp_path / "there").read_bytes() == DATA


def test_a_long_address_is_cut_in_the_message(web: str, tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=rf"/far leads to ftp://{'x' * 194}, which is no http or https address\.$"):
        download(f"{web}/far", tmp_path / "file", most_bytes=100, seconds=30)


def test_names_and_schemes() -> None:
    assert [is_url(text) for text in ("HTTP://a/b", "https://a", "ftp://a", "http:/a", "photo.jpg")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert name_in("http://host/a/b%20c.png?x=1") == "b c.png"
    assert name_in("http://host/a/b/") == "b"
    assert name_in("http://host:80/") == "host:80"
