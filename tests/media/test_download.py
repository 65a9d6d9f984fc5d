"""A file from the web, against a server of this machine that answers as servers do."""

from __future__ import annotations

import email.message
import http.server
import io
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from saccade.errors import MediaError, TooLargeError
from saccade.media import modes
from saccade.media.decode import DecodeLimits, MediaSettings, OwnMediaSettings, is_url
from saccade.media.download import _is_public, _WebOnly, download, name_in
from saccade.media.store import EncodeOptions
from saccade.media.video import VideoLimits

DATA = bytes(range(100))


class Handler(http.server.BaseHTTPRequestHandler):
    """`/whole`, `/unsaid` (no length), `/short`, `/words` (a length that is no number), `/far` (a long redirect).

    `/gone` is not there, and `/near` leads to `/whole`.
    """

    def do_GET(self) -> None:
        if self.path == "/gone":
            self.send_error(404)
            return
        if self.path == "/near":
            self.send_response(302)
            self.send_header("Location", "/whole")
            self.end_headers()
            return
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


def test_what_is_not_there_and_who_does_not_answer(web: str, tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=r"/gone cannot be had: the server says 404 Not Found\. Check the address\.$"):
        download(f"{web}/gone", tmp_path / "file", most_bytes=100, seconds=30)
    with pytest.raises(MediaError, match=r":9/a cannot be had: .*refused.*\. Check the address and the network\.$"):
        download("http://127.0.0.1:9/a", tmp_path / "other", most_bytes=100, seconds=30)
    with pytest.raises(MediaError, match=r"ftp://a cannot be had: "):
        download("ftp://a", tmp_path / "third", most_bytes=100, seconds=30)


def test_a_private_address_may_lead_to_another(web: str, tmp_path: Path) -> None:
    download(f"{web}/near", tmp_path / "file", most_bytes=100, seconds=30)
    assert (tmp_path / "file").read_bytes() == DATA


HOSTS = {
    "public.test": ["8.8.8.8", "2001:4860:4860::8888"],
    "inner.test": ["10.0.0.1"],
    "mixed.test": ["8.8.8.8", "::1"],
}


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that resolve as in `HOSTS`, and no others."""

    def lookup(host: str, port: object) -> list[tuple[object, ...]]:
        if host not in HOSTS:
            raise socket.gaierror("no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in HOSTS[host]]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("host", "public"),
    [
        ("8.8.8.8", True),
        ("[2001:4860:4860::8888]", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("192.168.0.1:80", False),
        ("169.254.169.254", False),
        ("[::1]", False),
        ("public.test", True),
        ("inner.test", False),
        ("mixed.test", False),  # one private address is enough
        ("unknown.test", True),
        ("", True),
    ],
)
def test_what_is_of_the_public_internet(host: str, public: bool) -> None:
    assert _is_public(f"http://{host}/a") is public


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        ("http://public.test/a", "http://inner.test/b", "in a private network. Name that address itself if you trust"),
        ("http://public.test/a", "http://127.0.0.1/b", "in a private network"),
        ("http://public.test/a", "http://127.0.0.1/" + "b" * 300, "in a private network"),
        ("http://public.test/a", "file:///etc/passwd", "no http or https address"),
        ("http://inner.test/a", "file:///etc/passwd", "no http or https address"),
        ("http://public.test/a", "https://public.test/b", None),
        ("http://inner.test/a", "http://inner.test/b", None),
        ("http://inner.test/a", "http://public.test/b", None),
    ],
)
def test_where_a_redirect_may_lead(start: str, end: str, why: str | None) -> None:
    answer = io.BytesIO(b"moved")
    moved = (urllib.request.Request(start), answer, 302, "Found", email.message.Message(), end)
    if why is None:
        request = _WebOnly().redirect_request(*moved)
        assert request is not None
        assert request.full_url == end
        return
    with pytest.raises(MediaError, match=f"{start} leads to {end[:200]}, which is .*{why}"):
        _WebOnly().redirect_request(*moved)
    assert answer.closed


def test_limits() -> None:
    assert DecodeLimits() == DecodeLimits(2 * 1024**3, 500_000_000, 500_000, 400_000_000)
    assert VideoLimits() == VideoLimits(4 * 1024**3, 36_000_000, 1_000_000, 21_600.0, 400_000_000)
    own = OwnMediaSettings()
    assert (own.url_bytes, own.url_seconds, own.shown_pixels) == (256 * 1024**2, 60.0, 36_000_000)
    assert (EncodeOptions().quality, EncodeOptions().compression) == (90, 6)


def test_no_picture_is_shown_smaller_than_a_patch() -> None:
    assert MediaSettings(shown_pixels=784).shown_pixels == 784
    with pytest.raises(ValidationError, match="shown_pixels"):
        MediaSettings(shown_pixels=783)


def test_published_budgets() -> None:
    """Factor, least and most pixels as the families' own processors have them."""
    assert modes.policy("qwen2.5-vl") == modes.PixelBudget(28, 3136, 12_845_056)
    assert modes.policy("qwen3-vl") == modes.PixelBudget(32, 65_536, 16_777_216)
    assert modes.MAX_ASPECT_RATIO == 200
