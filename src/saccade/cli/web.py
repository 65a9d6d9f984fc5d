"""Runs an ASGI application until Ctrl-C; reads its token and its settings file."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import socket
import tomllib
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from saccade.errors import SettingsError

if TYPE_CHECKING:
    import uvicorn
    from pydantic import BaseModel

SHORTEST_TOKEN = 16
NOT_STARTED = 3
"""Exit code of a server that cannot listen; uvicorn has said why."""


def serve_app(
    application: Any,
    host: str,
    port: int,
    line: str,
    *,
    grace_seconds: int = 5,
    websockets: bool = False,
    opened: str = "",
) -> int:
    """Serve until Ctrl-C, return the exit code; `line` is printed once it listens, its `{url}` the address.

    After the first Ctrl-C, requests that are under way have `grace_seconds`. `websockets`: it takes them too, for which
    the package of that name must be there. `opened` is a format for the address at which a browser is opened.

    Raises `SettingsError`: another program listens there, or this machine has no such address.
    """
    import uvicorn

    _check_free(host, port)
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,  # below that level, and yet made for each request
        ws="websockets-sansio" if websockets else "none",
        timeout_graceful_shutdown=grace_seconds,
        timeout_keep_alive=60,
    )
    gc.collect()
    gc.freeze()  # what is loaded stays: the collector need not look it over again and again while requests come
    gc.set_threshold(10_000)  # seldom: what a request makes is mostly freed by counting references
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:  # uvloop's, where it is installed
        return runner.run(_serve(uvicorn.Server(config), host, line, opened))


def serve_page(application: Any, port: int, line: str, address: str, *, open_it: bool) -> int:
    """Serve pages to this machine only, and open `address` (with `{url}`) in the browser where that is wanted."""
    from saccade.core.local_page import HOST

    return serve_app(application, HOST, port, line, grace_seconds=1, opened=address if open_it else "")


async def _serve(server: uvicorn.Server, host: str, line: str, opened: str) -> int:
    serving = asyncio.create_task(server.serve())
    while not server.started and not serving.done():
        await asyncio.sleep(0.02)
    if server.started:
        port = server.servers[0].sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{port}"
        print(line.format(url=url), flush=True)
        if opened:
            webbrowser.open(opened.format(url=url))
    await serving
    return 0 if server.started else NOT_STARTED


def _check_free(host: str, port: int) -> None:
    """Check that `host` and `port` can be bound: uvicorn would end the process with a traceback."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise SettingsError(
            f"nobody can be served at {host}:{port}: {error.strerror or error}. Name another --port (0: a free one) or "
            "--host."
        ) from error


def read_token(file: Path | None, host: str, *, no_token: bool, variable: str) -> str | None:
    """Read the token from the file or the environment's `variable`; None if none is required.

    Raises `SettingsError`: there is no token, it is too short to be safe, or doing without one is not safe.
    """
    if no_token:
        if file is not None:
            raise SettingsError("--no-token and --token-file contradict each other; give one of them.")
        if not is_loopback(host):
            raise SettingsError(
                f"--no-token with --host {host} would run anybody's code here: only loopback addresses may do without "
                "a token. Use --token-file, or --host 127.0.0.1."
            )
        return None
    if file is not None:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"the token file cannot be read: {error}") from error
    else:
        token = os.environ.get(variable, "").strip()
    if not token:
        raise SettingsError(
            f"a token is needed: use --token-file, set {variable}, or --no-token on a loopback address. "
            "`openssl rand -hex 32` makes a good one."
        )
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsError(f"the token must be at least {SHORTEST_TOKEN} printable ASCII characters without spaces.")
    return token


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


M = TypeVar("M", bound="BaseModel")


def read_tables(file: Path | None) -> dict[str, object]:
    """Read the tables of a TOML file; none without a file. Raises `SettingsError` if it cannot be read."""
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"the settings file cannot be read: {error}") from error


def check_tables(file: Path | None, tables: Mapping[str, object], *known: str) -> None:
    """Raise `SettingsError` unless all entries are tables named in `known`."""
    unknown = tables.keys() - set(known)
    if unknown or not all(isinstance(table, dict) for table in tables.values()):
        listed = " and ".join(f"[{name}]" for name in known)
        raise SettingsError(f"{file} may hold the tables {listed} only, not {sorted(unknown) or 'plain values'}.")


def of_table(kind: type[M], table: object, given: Mapping[str, object] | None = None) -> M:
    """Return a table as settings, with the options that are given (not None) on top.

    Raises `SettingsError`: it names something that does not exist, or a value is wrong.
    """
    from pydantic import ValidationError

    options = {name: value for name, value in (given or {}).items() if value is not None}
    try:
        return kind.model_validate({**(table if isinstance(table, dict) else {}), **options})
    except ValidationError as error:
        raise SettingsError(f"the settings cannot be used: {error}") from error
