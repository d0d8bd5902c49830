"""The page over HTTP, on the loopback address alone: for who brings the secret, or whom the hub lets in."""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable
from urllib.parse import urlsplit

from labkit.board.page import POLICY
from labkit.errors import LabError, NotHere

LOOPBACK = "127.0.0.1"
_COOKIE = "labkit-board"


def serve(page: Callable[[], str], port: int = 0, base_url: str = "/", token: str | None = None) -> None:
    """Serve page() until Ctrl-C, to whoever knows the token; print the address that holds it.

    page: makes the HTML, at each request. port: 0 for any free one. base_url: where it lies behind a proxy.
    token: None for a new one, drawn at random. Raises LabError where the port is taken.
    """
    import tornado.web

    secret = token or secrets.token_urlsafe(32)
    base = _slashed(base_url)

    class Guarded(tornado.web.RequestHandler):
        """The page for whoever brings the token: once in the address, then in a cookie."""

        def get(self) -> None:
            given = self.get_query_argument("token", "")
            if _same(given, secret):
                self.set_cookie(name, secret, path=base, httponly=True, samesite="Strict")
                self.redirect(base)  # the token leaves the address bar, which a projector shows
            elif _same(self.get_cookie(name, ""), secret):
                _answer(self, page)
            else:
                raise tornado.web.HTTPError(403)

        def write_error(self, status_code: int, **_) -> None:
            _refuse(self, status_code)

    listening = _listen(port)
    number = listening.getsockname()[1]
    name = f"{_COOKIE}-{number}"  # cookies are shared by all ports of a host
    print(f"The class board: http://{LOOPBACK}:{number}{base}?token={secret}")
    print("until Ctrl-C. Whoever has this address reads the board. Not the machine before you? There:")
    print(f"  ssh -L {number}:{LOOPBACK}:{number} {socket.gethostname()}", flush=True)
    _run(tornado.web.Application([(base, Guarded)]), listening)


def hub_service(page: Callable[[], str]) -> None:
    """Serve page() as a service of the JupyterHub that started this process, until it is ended.

    The hub says where (JUPYTERHUB_SERVICE_URL and _PREFIX) and lets in whom its roles give the scope
    access:services!service=NAME. Raises NotHere outside of a hub, LabError for another address than loopback.

    In jupyterhub_config.py (CLASS: a class folder, or the folder of the learners' homes; root reads those):

        c.JupyterHub.services = [{
            "name": "board", "url": "http://127.0.0.1:8899", "oauth_no_confirm": True,
            "command": [sys.executable, "-m", "labkit.board", CLASS],
            "environment": {"PYTHONPATH": CHECKOUT + "/labs"},
        }]
        c.JupyterHub.load_roles = [
            {"name": "instructors", "users": ["ada"], "scopes": ["access:services!service=board"]}
        ]
    """
    address, base = _said_by_the_hub()
    import tornado.netutil
    import tornado.web

    try:
        from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
        from jupyterhub.utils import url_path_join
    except ImportError:
        raise NotHere("This Python has no jupyterhub: start the service with the hub's own.") from None

    class Guarded(HubOAuthenticated, tornado.web.RequestHandler):
        """The page for whom the hub lets in."""

        @tornado.web.authenticated
        def get(self) -> None:
            _answer(self, page)

        def write_error(self, status_code: int, **_) -> None:
            _refuse(self, status_code)

    callback = url_path_join(base, "oauth_callback")
    routes = [(base, Guarded), (base.rstrip("/"), Guarded), (callback, HubOAuthCallbackHandler)]
    own = os.environ.get("LABKIT_BOARD_SOCKET")  # where the hub holds the address itself: a file to listen at
    listening = tornado.netutil.bind_unix_socket(own) if own else _listen(address)
    _run(tornado.web.Application(routes, cookie_secret=secrets.token_bytes(32)), listening)


def in_hub() -> bool:
    """Did a JupyterHub start this process as its service?"""
    return bool(os.environ.get("JUPYTERHUB_SERVICE_PREFIX") and os.environ.get("JUPYTERHUB_API_TOKEN"))


def _said_by_the_hub() -> tuple[int, str]:
    if not in_hub():
        raise NotHere("No JupyterHub started this. `make board SERVE=8899` serves the board without a hub.")
    url = urlsplit(os.environ.get("JUPYTERHUB_SERVICE_URL", ""))
    if url.hostname not in (LOOPBACK, "localhost") or url.port is None:
        raise LabError(
            f"The hub gives the board the address {url.geturl() or 'none'}. It is to be on the loopback "
            "address: 'url': 'http://127.0.0.1:PORT' in c.JupyterHub.services."
        )
    return url.port, _slashed(os.environ["JUPYTERHUB_SERVICE_PREFIX"])


def _slashed(base_url: str) -> str:
    return f"/{base_url.strip('/')}/".replace("//", "/")


def _same(given: str | None, secret: str) -> bool:
    return hmac.compare_digest((given or "").encode(), secret.encode())


def _answer(handler, page: Callable[[], str]) -> None:
    try:
        text = page()
    except LabError as error:  # the folder is away for a moment: say so, and go on
        _head(handler)
        handler.set_status(503)
        handler.set_header("Content-Type", "text/plain; charset=utf-8")
        handler.finish(f"{error}\n")
        return
    _head(handler)
    handler.finish(text)


def _refuse(handler, status: int) -> None:
    _head(handler)
    handler.set_header("Content-Type", "text/plain; charset=utf-8")
    if status == 403:
        handler.finish("This board is its instructor's: open the whole address that it printed.\n")
    else:
        handler.finish(f"{status}\n")


def _head(handler) -> None:
    handler.set_header("Content-Security-Policy", f"{POLICY}; frame-ancestors 'self'")
    handler.set_header("Cache-Control", "no-store")
    handler.set_header("Referrer-Policy", "no-referrer")
    handler.set_header("X-Content-Type-Options", "nosniff")
    handler.clear_header("Server")


def _listen(port: int) -> socket.socket:
    try:
        listening = socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise LabError(f"Port {port} cannot be taken here ({error.strerror}). Choose another one.") from None
    listening.setblocking(False)
    return listening


def _run(application, listening: socket.socket) -> None:
    import asyncio

    import tornado.httpserver

    # Addresses hold the token once: they are in no log.
    logging.getLogger("tornado.access").disabled = True

    async def forever() -> None:
        server = tornado.httpserver.HTTPServer(application)
        server.add_socket(listening)
        await asyncio.Event().wait()

    try:
        asyncio.run(forever())
    except KeyboardInterrupt:
        print("The board is closed.", file=sys.stderr)
