"""Only the server's own page may use what is made for it: a page of another site that a person has open may not.

A browser says of each request from which site's page it comes, and no page can make it say otherwise. Programs that are
no browser say nothing of the kind; the token is what tells them apart.
"""

from __future__ import annotations

from starlette.requests import Request

from saccade.serve.agent_request import RequestError
from saccade.serve.own_pages import is_origin_of


def check_own_page(request: Request) -> None:
    """Raises `RequestError` if a browser sent it for a page that this server did not give."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        own = site in ("same-origin", "none")
    else:  # browsers leave it out of requests to a plain http:// address of another machine
        own = origin is None or is_origin_of(origin, request.headers.get("host", ""))
    if not own:
        raise RequestError("only the page of this server itself may ask this.", code="other_origin", status=403)
