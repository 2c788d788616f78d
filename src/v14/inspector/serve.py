"""The page: files of this package, served as they are. Nothing else runs in it, and it asks its own server alone."""

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import APIRouter, Request, Response

PREFIX = "/v14/"

TYPES = {
    "index.html": "text/html; charset=utf-8",
    "inspector.js": "text/javascript; charset=utf-8",
    "inspector.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "licenses.txt": "text/plain; charset=utf-8",
}
"""Files by name; `make inspector` builds them."""

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def page() -> APIRouter:
    """Routes of the page: itself under `/v14/`, its parts beside it. They need no key: there is nothing in them."""
    routes = APIRouter(prefix=PREFIX.rstrip("/"), include_in_schema=False)
    for name in TYPES:
        routes.add_api_route("/" if name == "index.html" else f"/{name}", _giving(name), methods=["GET", "HEAD"])
    return routes


def content(name: str) -> bytes:
    """A file of the page."""
    return (files("v14.inspector") / "static" / name).read_bytes()


def _giving(name: str) -> Callable[[Request], Awaitable[Response]]:
    body = content(name)
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {**HEADERS, "ETag": tag, "Content-Type": TYPES[name]}

    async def give(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=HEADERS | {"ETag": tag})
        return Response(body, headers=headers)

    return give
