"""A picture or a video from an http or https address, into a file, within a number of bytes and a time.

Nobody calls this unless the user allowed it. Other schemes are refused, also where a server redirects to one, and so is
a redirect from the public internet into a private network; an address in one is taken where the user names it. No
cookies, no keys, no retries; a proxy of the environment is used. Promises nothing about what the bytes are, nor about a
name that resolves to another host a moment later.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import time
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from saccade.errors import MediaError, TooLargeError
from saccade.media.decode import is_url

_PIECE = 1 << 16


def name_in(url: str) -> str:
    """Return the last piece of the address's path; the host if there is none."""
    parts = urlsplit(url)
    return unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.netloc


def download(url: str, target: Path, *, most_bytes: int, seconds: float) -> None:
    """Write what `url` gives to the new file `target`.

    Raises `TooLargeError`: it has more than `most_bytes`; `MediaError`: it cannot be had, not within `seconds`, or the
    address leads away from http and https, or from a public one into a private network.
    """
    end = time.monotonic() + seconds
    request = urllib.request.Request(url, headers={"User-Agent": "saccade", "Accept": "image/*, video/*, */*;q=0.5"})
    opener = urllib.request.build_opener(_WebOnly)
    try:
        with opener.open(request, timeout=seconds) as answer, target.open("xb") as file:
            said = answer.headers.get("Content-Length", "")
            if said.isdecimal() and int(said) > most_bytes:
                raise _too_large(url, int(said), most_bytes)
            copied = 0
            while piece := answer.read1(_PIECE):
                copied += len(piece)
                if copied > most_bytes:
                    raise _too_large(url, copied, most_bytes)
                if time.monotonic() > end:
                    raise MediaError(
                        f"{url} was not there after {seconds:g} s ({copied:,} bytes came). "
                        "Give it more time (media.url_seconds), or download it yourself."
                    )
                file.write(piece)
            if said.isdecimal() and copied < int(said):
                raise MediaError(f"{url} broke off after {copied:,} of {int(said):,} bytes. Try again.")
    except MediaError:
        raise
    except urllib.error.HTTPError as error:
        error.close()
        raise MediaError(
            f"{url} cannot be had: the server says {error.code} {error.reason}. Check the address."
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise MediaError(f"{url} cannot be had: {why}. Check the address and the network.") from error


def _too_large(url: str, size: int, most: int) -> TooLargeError:
    return TooLargeError(f"{url} has {size:,} bytes or more, over the limit of {most:,}. Raise media.url_bytes.")


def _is_public(url: str) -> bool:
    """Tell whether all addresses of the host are public; a host that does not resolve here counts as one."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        pass  # a name
    try:
        addresses = socket.getaddrinfo(host, None)
    except OSError:
        return True
    return all(ipaddress.ip_address(address[0]).is_global for *_, address in addresses)


class _WebOnly(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        if not is_url(newurl):
            fp.close()
            raise MediaError(f"{req.full_url} leads to {newurl[:200]}, which is no http or https address.")
        if _is_public(req.full_url) and not _is_public(newurl):
            fp.close()
            raise MediaError(
                f"{req.full_url} leads to {newurl[:200]}, which is in a private network. Name that address itself if "
                "you trust it."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
