"""What stands before every request: Host, Origin, key, body size; and the headers of every answer."""

from __future__ import annotations

import ipaddress
import logging
import re
import secrets
import time
from collections.abc import Mapping

from redis.exceptions import RedisError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.keys import KeyRing
from service.api.problems import problem_response, redis_away
from service.api.prometheus import Meter
from service.errors import (
    ForbiddenError,
    HeadTooLargeError,
    InternalError,
    MisdirectedError,
    ProblemError,
    TooLargeError,
    field_problem,
)
from service.keys import Key
from service.logs import be_about
from service.settings import Settings

UNSPECIFIED = frozenset({"", "0.0.0.0", "::"})  # listened on, but nobody's name
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
PROTECTED = ("/v1/", "/openapi.json", "/metrics")
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
MULTIPART_OVERHEAD = 64 * 1024
HEAD_LIMIT = 64 * 1024  # bytes of all headers together
ORIGIN = re.compile(r"https?://([^/?#]*)", re.IGNORECASE)
UPLOAD_PATH, BLOB_PATHS = "/v1/files", "/v1/blobs/"

log = logging.getLogger(__name__)

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; font-src 'self'; manifest-src 'self'; worker-src 'self'; form-action 'none'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class BindError(ValueError):
    """The address must not be listened on as things are."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_bind(settings: Settings, keys: Mapping[str, Key]) -> None:
    """BindError for an address that others can reach when no API key protects it."""
    if not is_loopback(settings.host) and not keys:
        raise BindError(
            f"listening on {settings.host} would let everyone in: set GRADMILL_API_KEY_FILE to a file with "
            "an API key, or listen on 127.0.0.1"
        )


def host_name(value: str) -> str:
    """The name in a Host header, without its port, in lower case."""
    return re.sub(r":\d+$", "", value).lower()


def own_names(settings: Settings) -> frozenset[str]:
    """The names that this server is reached by, beside the loopback ones."""
    names = {name.lower() for name in settings.allowed_hosts}
    if settings.host not in UNSPECIFIED:
        names.add(f"[{settings.host}]" if ":" in settings.host else settings.host.lower())
    return frozenset(names)


class Guard:
    """ASGI middleware; the outermost, so that nothing inside sees a request that it refuses."""

    def __init__(self, app: ASGIApp, settings: Settings, keys: KeyRing, meter: Meter) -> None:
        self._app = app
        self._keys = keys
        self._meter = meter
        self._hosts = LOOPBACK_NAMES | own_names(settings)
        self._origins = frozenset(settings.allowed_origins)
        self._body_limit = settings.body_limit
        self._upload_limit = settings.upload_limit + MULTIPART_OVERHEAD
        self._blob_limit = settings.blob_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request through, or answers with the problem."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        answer = Answer(send, request_id, no_store=scope["path"].startswith("/v1/"))
        started = time.perf_counter()
        be_about(request_id=request_id)
        self._meter.open += 1
        try:
            await self._serve(scope, receive, answer, headers)
        finally:
            seconds = (answer.began or time.perf_counter()) - started
            self._meter.open -= 1
            self._meter.answered(scope, answer.status, seconds)
            log.info("%s %s: %d in %.4f s", scope["method"], scope["path"], answer.status, seconds)

    async def _serve(self, scope: Scope, receive: Receive, answer: Answer, headers: Headers) -> None:
        request_id, state = answer.request_id, scope["state"]
        try:
            _check_head(scope)
            self._check_names(headers)
            if scope["path"].startswith(PROTECTED):
                authorization = headers.get("authorization")
                state["principal"] = await self._keys.authorise(authorization, scope["method"], scope["path"])
            limit = self._body_limit_of(scope["path"])
            _check_length(headers, limit)
        except ProblemError as problem:
            await problem_response(problem, request_id)(scope, receive, answer)
            return
        except RedisError as error:
            log.warning("keys can't be looked up: %s", error)
            await problem_response(redis_away(), request_id)(scope, receive, answer)
            return
        try:
            await self._app(scope, _counted(receive, limit), answer)
        except Exception:
            log.exception("request %s: %s %s failed", request_id, scope["method"], scope["path"])
            if answer.began:
                raise
            fault = InternalError("The server failed; its log tells more under this request id.")
            await problem_response(fault, request_id)(scope, receive, answer)

    def _body_limit_of(self, path: str) -> int:
        if path == UPLOAD_PATH:
            return self._upload_limit
        return self._blob_limit if path.startswith(BLOB_PATHS) else self._body_limit

    def _check_names(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or host_name(hosts[0]) not in self._hosts:
            raise MisdirectedError(
                f"Host {', '.join(hosts)!r} is not a name of this server; GRADMILL_ALLOWED_HOSTS adds one."
            )
        origin = headers.get("origin")
        if origin is None or origin in self._origins:
            return
        form = ORIGIN.fullmatch(origin)
        if form is None or form[1].lower() != hosts[0].lower():
            raise ForbiddenError(
                f"Pages of {origin!r} may not call this server; GRADMILL_ALLOWED_ORIGINS adds one.",
                code="origin",
            )


def _check_head(scope: Scope) -> None:
    size = sum(len(name) + len(value) for name, value in scope["headers"])
    if size > HEAD_LIMIT:
        rule = f"must have at most {HEAD_LIMIT} bytes together"
        raise field_problem(HeadTooLargeError, "headers", f"{size} bytes long", rule)


def _too_large(size: str, limit: int) -> ProblemError:
    return field_problem(TooLargeError, "body", f"{size} bytes long", f"must have at most {limit} bytes")


def _check_length(headers: Headers, limit: int) -> None:
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limit:
        raise _too_large(length[:20], limit)


def _counted(receive: Receive, limit: int) -> Receive:
    """A ``receive`` that raises when more than ``limit`` bytes have come, whatever the headers said."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _too_large(f"more than {limit}", limit)
        return message

    return counted


class Answer:
    """A ``send`` that adds the headers every answer has."""

    def __init__(self, send: Send, request_id: str, *, no_store: bool) -> None:
        self._send = send
        self._no_store = no_store
        self.request_id = request_id
        self.status = 0  # as long as there is no answer
        self.began = 0.0

    async def __call__(self, message: Message) -> None:
        """Passes a message on."""
        if message["type"] == "http.response.start":
            self.status, self.began = message["status"], time.perf_counter()
            headers = [*message["headers"], *RAW_HEADERS, (b"x-request-id", self.request_id.encode())]
            if self._no_store and not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message["headers"] = headers
        await self._send(message)
