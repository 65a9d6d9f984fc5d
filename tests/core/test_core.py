"""Folders that appear whole, trees of source, addresses, HTTP to servers, and the bridge from sync to async."""

from __future__ import annotations

import ast
import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from saccade.core.disk import begin_folder, finish_folder, new_folder
from saccade.core.http import Server, checked_address
from saccade.core.retry import RetryPolicy
from saccade.core.sync import in_background, run
from saccade.errors import RecordError, SettingsError
from saccade.record.task import parse


def test_a_new_folder_appears_when_its_block_ends_well(tmp_path: Path) -> None:
    target = tmp_path / "new" / "set"
    with new_folder(target) as partial:
        (partial / "a").write_text("1")
        assert not target.exists()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["new", "new/set", "new/set/a"]


def test_a_new_folder_leaves_nothing_of_a_block_that_fails(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), new_folder(tmp_path / "set") as partial:
        (partial / "no" / "such" / "folder").write_text("1")
    assert not list(tmp_path.iterdir())


def test_a_new_folder_holds_nothing_of_a_killed_run(tmp_path: Path) -> None:
    stale = tmp_path / ".set.part"
    stale.mkdir()
    (stale / "old").write_text("1")
    with new_folder(tmp_path / "set") as partial:
        assert not (partial / "old").exists()


def test_a_new_folder_may_be_there_empty_and_not_otherwise(tmp_path: Path) -> None:
    target = tmp_path / "set"
    target.mkdir()
    with new_folder(target) as partial:
        (partial / "a").write_text("1")
    with pytest.raises(RecordError, match="exists already"), new_folder(target):
        pass
    with pytest.raises(RecordError, match="exists already"), new_folder(target / "a"):
        pass
    assert (target / "a").read_text() == "1"


def test_a_folder_that_was_begun_takes_the_place_of_the_old_one_and_of_what_a_kill_left(tmp_path: Path) -> None:
    target = tmp_path / "model"
    for text in ("old", "killed", "new"):
        partial = begin_folder(target)
        assert not list(partial.iterdir())
        (partial / text).write_text(text)
        if text != "killed":
            finish_folder(target)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["model", "model/new"]


PROGRAM = "\n".join(
    f"def f{n}(x):\n    return [[g(x + {n}, h(x)) for x in y if x > {n}] for y in x]" for n in range(60)
)


def test_the_tree_is_that_of_ast() -> None:
    assert ast.dump(parse(PROGRAM)) == ast.dump(ast.parse(PROGRAM))
    with pytest.raises(SyntaxError):
        parse("a b")


def test_threads_do_not_disturb_one_another() -> None:
    with ThreadPoolExecutor(6) as threads:
        trees = list(threads.map(lambda _: parse(PROGRAM), range(60)))
    assert all(len(tree.body) == 60 for tree in trees)


def checked(address: str) -> str:
    return checked_address(address, "the engine's", 8000, "a key goes into THERE")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ftp://engine", "must look like http://host:port"),
        ("engine:8000", "must look like .* Example: http://127.0.0.1:8000"),
        ("", "must look like"),
        ("http://", "must look like"),
        ("http://[", "must look like"),
        ("http://a b", "must look like"),
        ("http://engine:1?key=x", "must look like"),
        ("http://engine:1/#x", "must look like"),
        ("http://engine:port", "the engine's address cannot be read"),
        ("http://engine:80000", "ports are 1 to 65535"),
        ("http://engine:0", "ports are 1 to 65535"),
    ],
)
def test_what_is_none(address: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        checked(address)


def test_a_secret_in_it_is_not_said_again() -> None:
    with pytest.raises(SettingsError, match="a key goes into THERE") as raised:
        checked("http://me:secret@engine:1")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("https://engine/", "https://engine"),
        ("http://engine:1/v1", "http://engine:1/v1"),
        ("http://[fe80::1%25eth0]:8000", "http://[fe80::1%25eth0]:8000"),
    ],
)
def test_what_is_meant(address: str, meant: str) -> None:
    assert checked(address) == meant


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


async def thread_name() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_without_a_loop_it_runs_here() -> None:
    assert run(thread_name()) == threading.current_thread().name


async def test_inside_a_running_loop_it_runs_in_another_thread() -> None:
    assert run(thread_name()) != threading.current_thread().name


def test_what_runs_in_the_background_shares_a_loop() -> None:
    async def loop() -> int:
        return id(asyncio.get_running_loop())

    assert len({in_background(loop()).result(10) for _ in range(3)}) == 1
