"""Runs over HTTP on this machine: lists, pages that follow a run while it is written, and nobody else's names."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from contextlib import AbstractContextManager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.report.chromium import NEEDED
from tests.report.played_runs import HOSTILE, eval_run
from tests.serving import served

from saccade.cli.main import main
from saccade.errors import UnavailableError
from saccade.report.live import viewer

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return eval_run(tmp_path_factory.mktemp("runs"), "good", right=True)


@pytest.fixture
def begun(played: Path, tmp_path: Path) -> tuple[Path, list[bytes]]:
    """A run of which nothing is stored yet, and the lines that will be."""
    run = tmp_path / "runs" / "growing"
    run.mkdir(parents=True)
    shutil.copy(played / "settings.toml", run)
    shutil.copytree(played / "media", run / "media")
    return run, (played / "trajectories.jsonl").read_bytes().splitlines(keepends=True)


def serving(folder: Path) -> AbstractContextManager[int]:
    return served(viewer(folder))


def get(port: int, path: str, host: str = "127.0.0.1", method: str = "GET") -> tuple[int, str, dict[str, str]]:
    connection = HTTPConnection("127.0.0.1", port)
    connection.request(method, path, headers={"Host": f"{host}:{port}"})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), dict(answer.getheaders())
    connection.close()
    return found


def append(run: Path, data: bytes) -> None:
    with (run / "trajectories.jsonl").open("ab") as file:
        file.write(data)


def test_a_run_is_followed_line_by_line(begun: tuple[Path, list[bytes]]) -> None:
    run, lines = begun
    with serving(run.parent) as port:
        status, listed, _ = get(port, "/")
        assert (status, "/run/growing/" in listed) == (200, True)
        _, text, _ = get(port, "/run/growing/data.json")
        first = json.loads(text)
        assert first["items"] == []
        assert get(port, f"/run/growing/data.json?version={first['version']}")[0] == 204
        append(run, lines[0] + lines[1][:50])
        assert len(json.loads(get(port, "/run/growing/data.json")[1])["items"]) == 1, "half a line is none"
        append(run, lines[1][50:])
        second = json.loads(get(port, "/run/growing/data.json")[1])
        assert second["version"] != first["version"]
        assert len(second["items"]) == 2
        assert any("2 samples stored" in fact for fact in second["facts"])
        status, page, headers = get(port, f"/run/growing/{second['items'][0][0]}")
        assert (status, headers["cache-control"]) == (200, "no-store")
        assert 'section class="episode"' in page
        assert get(port, "/run/growing/episode/7")[0] == 404
        # Graded anew: another file in its place.
        other = run / "other"
        other.write_bytes(lines[2])
        other.replace(run / "trajectories.jsonl")
        assert len(json.loads(get(port, "/run/growing/data.json")[1])["items"]) == 1


def test_a_single_run_and_what_is_refused(begun: tuple[Path, list[bytes]]) -> None:
    run, lines = begun
    append(run, lines[0])
    with serving(run) as port:
        status, _, headers = get(port, "/")
        assert (status, headers["location"]) == (303, "/run/this/")
        status, page, _ = get(port, "/run/this/")
        assert status == 200
        [policy] = [line for line in page.splitlines() if "Content-Security-Policy" in line]
        assert "default-src &#39;none&#39;" in policy
        assert "connect-src &#39;self&#39;" in policy
        assert get(port, "/run/this/", host="attacker.example")[0] == 400
        for path in ("/run/../", "/run/growing/", "/etc/passwd", "/run/this/../../settings.toml", "/run/%2e%2e/"):
            assert get(port, path)[0] == 404, path
        assert get(port, "/", method="POST")[0] == 405
        append(run, b"{}\n")
        status, body, _ = get(port, "/run/this/data.json")
        assert (status, "Traceback" in body) == (500, False)


def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    monkeypatch.delitem(sys.modules, "saccade.core.local_page", raising=False)
    with pytest.raises(UnavailableError, match=r"saccade-vlm\[serve\]"):
        importlib.import_module("saccade.core.local_page")


def test_a_folder_of_runs_has_a_list(played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(played, folder / "a" / "<i>good</i>")
    assert main(["report", str(folder / "a" / "<i>good</i>")]) == 0
    assert main(["report", str(folder)]) == 0
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert '<a href="a/%3Ci%3Egood%3C/i%3E/report.html">a/&lt;i&gt;good&lt;/i&gt;</a>' in page
    assert "80.0" in page
    assert main(["report", str(folder), "--out", str(tmp_path / "list.html")]) == 0
    assert "report.html" not in (tmp_path / "list.html").read_text(encoding="utf-8")
    assert main(["view", str(tmp_path / "nowhere")]) == 2
    assert "no folder" in capsys.readouterr().err


@NEEDED
@pytest.mark.slow
def test_the_page_redraws_as_samples_come(begun: tuple[Path, list[bytes]], browser: Browser) -> None:
    run, lines = begun
    append(run, lines[0])
    with serving(run.parent) as port:
        page = browser.new_context(viewport={"width": 400, "height": 800}).new_page()
        page.set_default_timeout(60_000)
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text))
        page.goto(f"http://127.0.0.1:{port}/")
        page.click("text=growing")
        page.wait_for_function("() => document.getElementById('found').textContent === '1 of 1 episodes'")
        for line in lines[1:]:
            append(run, line)
        page.wait_for_function("() => document.getElementById('found').textContent === '5 of 5 episodes'")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert page.locator("#facts li").nth(1).inner_text().startswith("80.0% right (37.6–96.4, Wilson)")
        page.fill("#find", "onerror")
        page.click("#samples tbody a")
        page.wait_for_url("**/episode/*")
        assert HOSTILE.split("\u202e")[0] in page.inner_text(".final strong")
        assert page.locator(".steps .place").inner_text() == "1 of 1"
        page.keyboard.press("u")
        page.wait_for_url("**/run/growing/#gallery?text=onerror")
        assert faults == []
        page.context.close()
