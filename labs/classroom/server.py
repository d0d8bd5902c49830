"""The page as a JupyterHub's service, on the loopback address alone, for whom the hub lets in."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Callable
from urllib.parse import urlsplit

from labkit.errors import LabError

from classroom.page import POLICY

LOOPBACK = "127.0.0.1"


def in_hub() -> bool:
    """Did a JupyterHub start this process as its service?

    Only a service has a name: a terminal in a notebook server has a prefix and a token, too.
    """
    return bool(os.environ.get("JUPYTERHUB_SERVICE_NAME"))


def hub_service(page: Callable[[], str]) -> None:
    """Serve page() as a service of the JupyterHub that started this process, until it is ended.

    The hub says where (JUPYTERHUB_SERVICE_URL and _PREFIX) and lets in whom its roles give the
    scope access:services!service=NAME; docs/TEACHING.md has the lines of its configuration. Raises
    LabError for another address than loopback.
    """
    url = urlsplit(os.environ.get("JUPYTERHUB_SERVICE_URL", ""))
    if url.hostname not in (LOOPBACK, "localhost") or url.port is None:
        raise LabError(
            f"The hub gives the board the address {url.geturl() or 'none'}. It is to be on the"
            " loopback address: 'url': 'http://127.0.0.1:PORT' in c.JupyterHub.services."
        )
    asyncio.run(_serve(page, url.port))


async def _serve(page: Callable[[], str], port: int) -> None:
    # Of the hub's own Python: the learners' has no jupyterhub.
    import tornado.httpserver
    import tornado.netutil
    import tornado.web
    from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated

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
                self.set_header("Content-Type", "text/plain; charset=utf-8")
                self.finish(f"{error}\n")

    base = os.environ["JUPYTERHUB_SERVICE_PREFIX"].rstrip("/")
    routes = [(f"{base}/?", Guarded), (f"{base}/oauth_callback", HubOAuthCallbackHandler)]
    application = tornado.web.Application(routes, cookie_secret=secrets.token_bytes(32))
    # The hub's answers bring codes in addresses: they are in no log.
    logging.getLogger("tornado.access").disabled = True
    own = os.environ.get("LABKIT_BOARD_SOCKET")  # a Unix socket: the hub holds the address itself
    server = tornado.httpserver.HTTPServer(application)
    server.add_sockets(
        [tornado.netutil.bind_unix_socket(own)]
        if own
        else tornado.netutil.bind_sockets(port, LOOPBACK)
    )
    await asyncio.Event().wait()
