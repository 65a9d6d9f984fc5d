"""Addresses of servers as settings and options name them."""

from __future__ import annotations

import httpx

from saccade.errors import SettingsError


def checked_address(address: str, whose: str, port: int, secret: str) -> str:
    """`address` as it is requested, without a slash at its end.

    Args:
        address: `http://host:port` or `https://host`.
        whose: the server, as a message names it ("the engine's").
        port: that of the message's example.
        secret: where a key or token belongs, since no address may hold one.

    Raises:
        SettingsError: it is none.
    """
    try:
        parsed = httpx.URL(address)
    except (httpx.InvalidURL, TypeError) as error:
        raise SettingsError(f"{whose} address cannot be read: {error}. Example: http://127.0.0.1:{port}") from error
    # What can be in no name is escaped, a lone bracket too; %25 alone begins the zone of an IPv6 address.
    named = bool(parsed.host) and "%" not in parsed.host.partition("%25")[0]
    more = parsed.userinfo or parsed.query or parsed.fragment
    if parsed.scheme not in ("http", "https") or not named or more:
        raise SettingsError(
            f"{whose} address {parsed.host or address!r} must look like http://host:port, without user, password or "
            f"query; {secret}. Example: http://127.0.0.1:{port}"
        )
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise SettingsError(f"{whose} address has port {parsed.port}; ports are 1 to 65535.")
    return str(parsed).rstrip("/")
