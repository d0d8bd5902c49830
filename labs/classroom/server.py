"""The page as a JupyterHub's service, on the loopback address alone, for whom the hub lets in."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable
from urllib.parse import urlsplit

from labkit.errors import LabError, NotHere

from classroom.page import POLICY

LOOPBACK = "127.0.0.1"


def hub_service(page: Callable[[], str]) -> None:
    """Serve page() as a service of the JupyterHub that started this process, until it is ended.

    The hub says where (JUPYTERHUB_SERVICE_URL and _PREFIX) and lets in whom its roles give the
    scope access:services!service=NAME. Raises NotHere outside of a hub, LabError for another
    address than loopback.

    In jupyterhub_config.py (CLASS: the class folder):

        c.JupyterHub.services = [{
            "name": "board", "url": "http://127.0.0.1:8899", "oauth_no_confirm": True,
            "command": [sys.executable, "-m", "classroom", CLASS],
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
        raise NotHere(
            "This Python has no jupyterhub: start the service with the hub's own."
        ) from None

    class Guarded(HubOAuthenticated, tornado.web.RequestHandler):
        """The page for whom the hub lets in."""

        def set_default_headers(self) -> None:
            self.set_header("Content-Security-Policy", f"{POLICY}; frame-ancestors 'self'")
            self.set_header("Cache-Control", "no-store")
            self.set_header("Referrer-Policy", "no-referrer")
            self.set_header("X-Content-Type-Options", "nosniff")
            self.clear_header("Server")

        @tornado.web.authenticated
        def get(self) -> None:
            try:
                self.finish(page())
            except LabError as error:  # the folder is away for a moment: say so, and go on
                self.set_status(503)
                self._say(str(error))

        def write_error(self, status_code: int, **_) -> None:
            self._say(str(status_code))

        def _say(self, text: str) -> None:
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish(f"{text}\n")

    callback = url_path_join(base, "oauth_callback")
    routes = [(base, Guarded), (base.rstrip("/"), Guarded), (callback, HubOAuthCallbackHandler)]
    own = os.environ.get("LABKIT_BOARD_SOCKET")  # a Unix socket: the hub holds the address itself
    listening = tornado.netutil.bind_unix_socket(own) if own else _listen(address)
    _run(tornado.web.Application(routes, cookie_secret=secrets.token_bytes(32)), listening)


def in_hub() -> bool:
    """Did a JupyterHub start this process as its service?"""
    return bool(
        os.environ.get("JUPYTERHUB_SERVICE_PREFIX") and os.environ.get("JUPYTERHUB_API_TOKEN")
    )


def _said_by_the_hub() -> tuple[int, str]:
    if not in_hub():
        raise NotHere(
            "No JupyterHub started this. Without one: `make board HTML=board.html WATCH=1`."
        )
    url = urlsplit(os.environ.get("JUPYTERHUB_SERVICE_URL", ""))
    if url.hostname not in (LOOPBACK, "localhost") or url.port is None:
        raise LabError(
            f"The hub gives the board the address {url.geturl() or 'none'}. It is to be on the"
            " loopback address: 'url': 'http://127.0.0.1:PORT' in c.JupyterHub.services."
        )
    return url.port, os.environ["JUPYTERHUB_SERVICE_PREFIX"]


def _listen(port: int) -> socket.socket:
    try:
        listening = socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise LabError(
            f"Port {port} cannot be taken here ({error.strerror}). Choose another one."
        ) from None
    listening.setblocking(False)
    return listening


def _run(application, listening: socket.socket) -> None:
    import asyncio

    import tornado.httpserver

    # The hub's answers bring codes in addresses: they are in no log.
    logging.getLogger("tornado.access").disabled = True

    async def forever() -> None:
        server = tornado.httpserver.HTTPServer(application)
        server.add_socket(listening)
        await asyncio.Event().wait()

    try:
        asyncio.run(forever())
    except KeyboardInterrupt:
        print("The board is closed.", file=sys.stderr)
