"""Who may ask, and what a browser may do with the answer.

A page of another site can make a browser send requests here, and a name that it controls can be made to lead
to 127.0.0.1 (DNS rebinding): requests for other hosts, and changes that other origins ask for, are refused.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LARGEST_BODY = 1 << 20
LARGEST_QUESTION = 15 << 20
"""Of a question to a model: a picture of 10 MB as base64, and a text."""
QUESTIONS = "/api/ask/"
SAFE = ("GET", "HEAD", "OPTIONS")
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Of every page: only scripts of the package run, and nothing is fetched from elsewhere."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Door:
    """Where the page is served, and the token that it asks for on an address that others can reach."""

    port: int
    host: str = "127.0.0.1"
    token: str = ""

    @classmethod
    def at(cls, host: str, port: int) -> Door:
        """A token is drawn wherever others can reach the page."""
        local = host in ("127.0.0.1", "localhost", "::1")
        return cls(port, host, "" if local else secrets.token_urlsafe(24))

    @property
    def address(self) -> str:
        """What a person opens, token included."""
        name = "localhost" if self.host in ("0.0.0.0", "::") else bracketed(self.host)
        return f"http://{name}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    @property
    def cookie(self) -> str:
        """Its name; cookies are of a host, whatever the port."""
        return f"attnlab-{self.port}"

    def knows(self, host: str) -> bool:
        """Whether a Host header names this server. With a token any name will do: a site that got a browser
        to ask here by a name of its own has no token."""
        name = host.lower().rpartition(":")[0] if _has_port(host) else host.lower()
        port = host.rpartition(":")[2] if _has_port(host) else "80"
        known = bool(self.token) or name in (*LOOPBACK, bracketed(self.host).lower())
        return port == str(self.port) and known


def bracketed(host: str) -> str:
    """An address as a part of an URL."""
    return f"[{host}]" if ":" in host else host


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdecimal() and not host.endswith("]")


class Guard:
    """Every request passes here first; every answer leaves with the headers that hold a browser to it."""

    def __init__(self, app: App, door: Door):
        self.app, self.door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        if refusal := self.refusal(scope, headers):
            return await _answer(send, 403, refusal)
        if self.door.token and not self.has_token(headers):
            return await self.admit(scope, send)
        return await self.app(scope, limited(largest_body(scope), receive), with_headers(send))

    def refusal(self, scope: Scope, headers: dict[str, str]) -> str:
        """Why a request is refused; nothing where it is not."""
        host = headers.get("host", "")
        if not self.door.knows(host):
            own = self.door.address.partition("?")[0]
            return f'This server does not answer to the name "{host}". Open {own}'
        if scope["method"] in SAFE:
            return ""
        if headers.get("origin", "").lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            return "Only this page may change things here: the request is of another origin, or of none."
        if int(headers.get("content-length") or 0) > (most := largest_body(scope)):
            return f"The request is too large: limit {most:,} bytes."
        return ""

    def has_token(self, headers: dict[str, str]) -> bool:
        """Whether one of the cookies is ours; others of this host may be written in any way."""
        wanted = f"{self.door.cookie}={self.door.token}".encode()
        cookies = (cookie.strip().encode() for cookie in headers.get("cookie", "").split(";"))
        return any(hmac.compare_digest(cookie, wanted) for cookie in cookies)

    async def admit(self, scope: Scope, send: Send) -> None:
        """With the token in its address a browser gets it as a cookie, and the address without it."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = query.pop("token", [""])[0]
        if scope["method"] != "GET" or not hmac.compare_digest(given.encode(), self.door.token.encode()):
            return await _answer(
                send, 401, "Open the address that `attnlab serve` printed: it has the token."
            )
        rest = urlencode(query, doseq=True)
        cookie = f"{self.door.cookie}={self.door.token}; HttpOnly; SameSite=Strict; Path=/"
        place = "/" + quote(scope["path"].lstrip("/\\")) + (f"?{rest}" if rest else "")
        headers = [(b"location", place.encode()), (b"set-cookie", cookie.encode())]
        return await _answer(send, 303, "", headers)


def largest_body(scope: Scope) -> int:
    """How many bytes a request to this address may have."""
    return LARGEST_QUESTION if scope["path"].startswith(QUESTIONS) else LARGEST_BODY


def limited(most: int, receive: Receive) -> Receive:
    """A body is read up to its limit, whatever its header says."""
    seen = 0

    async def receive_limited() -> MutableMapping[str, Any]:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return message if seen <= most else {"type": "http.disconnect"}

    return receive_limited


def with_headers(send: Send) -> Send:
    """What an answer does not set itself is set as for every page."""

    async def send_with_headers(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = {name.decode("latin-1").lower() for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name not in own]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return send_with_headers


async def _answer(
    send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    kind = [(b"content-type", b"text/plain; charset=utf-8")]
    guarded = with_headers(send)
    await guarded({"type": "http.response.start", "status": status, "headers": [*kind, *(headers or [])]})
    await guarded({"type": "http.response.body", "body": text.encode("utf-8", "replace")})
