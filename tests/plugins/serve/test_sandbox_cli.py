"""`saccade sandbox serve`: the token's rules, the settings file, and a real server over real sandboxes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from saccade.cli.web import read_token
from saccade.errors import SettingsError
from saccade.plugins.serve import sandbox_cli as cli
from saccade.sandbox.remote import RemoteSandbox

TOKEN = "0123456789abcdef0123456789abcdef"
read = partial(read_token, variable=cli.TOKEN_VARIABLE)


def test_help_tells_the_options() -> None:
    shown = CliRunner().invoke(cli.app, ["serve", "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    for option in ("host", "port", "token-file", "no-token", "max-sessions", "idle-seconds", "settings"):
        assert f"--{option}" in shown


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_loopback_may_do_without_a_token(host: str) -> None:
    assert read(None, host, no_token=True) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_elsewhere_a_token_is_needed(host: str) -> None:
    with pytest.raises(SettingsError, match="loopback"):
        read(None, host, no_token=True)


def test_the_token_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read(file, "0.0.0.0", no_token=False) == TOKEN
    with pytest.raises(SettingsError, match="contradict"):
        read(file, "127.0.0.1", no_token=True)
    with pytest.raises(SettingsError, match="cannot be read"):
        read(tmp_path / "nothing", "127.0.0.1", no_token=False)
    with pytest.raises(SettingsError, match="a token is needed"):
        read(None, "127.0.0.1", no_token=False)
    monkeypatch.setenv(cli.TOKEN_VARIABLE, TOKEN)
    assert read(None, "0.0.0.0", no_token=False) == TOKEN


@pytest.mark.parametrize("token", ["short", "ü" * 20, "0123456789 0123456789", "0123456789\x0001234567"])
def test_a_weak_token_is_refused_without_showing_it(tmp_path: Path, token: str) -> None:
    file = tmp_path / "token"
    file.write_text(token, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        read(file, "127.0.0.1", no_token=False)
    assert token not in str(caught.value)


def test_settings_come_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text("[limits]\nwall_seconds = 3\n[serve]\nmax_sessions = 5\nidle_seconds = 9\n")
    limits, serving = cli.read_settings(file, {"max_sessions": 7, "idle_seconds": None})
    assert (limits.wall_seconds, serving.max_sessions, serving.idle_seconds) == (3.0, 7, 9.0)


@pytest.mark.parametrize(
    "text", ["[other]\n", "[limits]\nwal = 1\n", "[serve]\nmax_sessions = 0\n", "serve = 1\n", "["]
)
def test_a_wrong_settings_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(text)
    with pytest.raises(SettingsError):
        cli.read_settings(file, {})
    with pytest.raises(SettingsError):
        cli.read_settings(tmp_path / "nothing", {})


@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux")
async def test_a_served_sandbox_runs_code_and_ends_cleanly(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; from saccade.cli.main import main; sys.exit(main())"]
    server = subprocess.Popen(
        [*command, "sandbox", "serve", "--port", "0"],
        env={**os.environ, cli.TOKEN_VARIABLE: TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        url = line.split()[2]
        async with RemoteSandbox(url, token=TOKEN) as box:
            session = await box.open({"a": 20})
            result = await session.run("print(a + 1)")
            assert result.stdout == "21\n"
    finally:
        server.send_signal(signal.SIGINT)
        out, errors = server.communicate(timeout=30)
    assert server.returncode in (0, 130), errors
    assert TOKEN not in line + out + errors
    assert "Traceback" not in errors
