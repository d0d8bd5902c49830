"""The process that holds a hub, `python keep.py SOCKET`: it starts, shields and ends it.

SOCKET is the number of an inherited file: the socket for browsers, at the loopback address. It is
held for as long as the hub runs, so that nobody else can take the port. What connects there is
handed on to the proxy, which listens at a Unix socket in the hub's private folder. The class
board's port is held in the same way.

$LABS_HUB_SETTINGS names settings.json in the private folder. By this variable process.py knows this
process and those below it from any others.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE = 90  # seconds for the hub to stop all servers
LEFT_PATIENCE = 10  # seconds for what the hub leaves, to end when it is told to
LOOK = 0.2  # seconds between two looks at the hub
# Relative to the private folder, in which this process and the hub run: a Unix socket's path may
# have 107 characters at most, and below a site's home the whole path can be longer.
PROXY, PROXY_API, BOARD = "proxy.sock", "proxy-api.sock", "../board/board.sock"
BOARD_USER = "labs-board"  # a system user, who reads the class folder and nothing else
_PDEATHSIG, _CHILD_SUBREAPER = 1, 36  # of prctl(2)


def adopt_orphans() -> None:
    """Processes below this one whose parent dies become its children, whatever their session."""
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """The hub is told to stop should this process be killed."""
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes, up to its end, whatever that is."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def relay(path: str):
    """What serves one connection: to the Unix socket `path`, both ways."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_unix_connection(path)
        except OSError:
            writer.close()  # nobody listens yet
            return
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    return serve


async def run(listening: int, lock: int) -> int:
    """Start the hub, serve both ports, and wait until one is told to end. The hub's exit status."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await asyncio.start_server(relay(PROXY), sock=socket.socket(fileno=listening))
    board = await asyncio.start_server(relay(BOARD), "127.0.0.1", 0)
    port = board.sockets[0].getsockname()[1]
    with open("hub.log", "ab", opener=_private) as log:
        hub = subprocess.Popen(
            [
                str(Path(sys.executable).with_name("jupyterhub")),
                "-f",
                str(HERE / "jupyterhub_config.py"),
            ],
            env={**os.environ, "LABS_HUB_BOARD_PORT": str(port)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[lock],  # should this process be killed, the hub has the lock until its end
            preexec_fn=end_with_parent,
        )
    while hub.poll() is None and not told.is_set():
        reap(hub.pid)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(told.wait(), LOOK)
    await end(hub)
    await end_children()
    return hub.returncode


async def end(hub: subprocess.Popen) -> None:
    """Tell the hub to stop, and wait until it has ended; it is killed when its time is up."""
    deadline = time.monotonic() + PATIENCE
    if hub.poll() is None:
        hub.terminate()
    while hub.poll() is None:
        if time.monotonic() > deadline:
            hub.kill()
        await asyncio.sleep(LOOK)


async def end_children() -> None:
    """End all that is below this process: told to at first, killed when its time is up.

    What loses its parent becomes this one's child; until it is reaped its number is nobody else's.
    """
    told = set()
    deadline = time.monotonic() + LEFT_PATIENCE
    while (left := children()) and time.monotonic() < deadline + LEFT_PATIENCE:
        for child in left:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            elif child not in told:
                told.add(child)
                os.kill(child, signal.SIGTERM)
        await asyncio.sleep(0.05)
        reap()


def children() -> list[int]:
    """The numbers of this process's children, also of those that have ended and are not reaped."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit():
                text = Path("/proc", name, "stat").read_text(errors="replace")
                # The command stands in parentheses and may hold blanks and parentheses itself.
                if int(text.rpartition(")")[2].split()[1]) == os.getpid():
                    found.append(int(name))
    return found


def reap(but: int = 0) -> None:
    """Let children that have ended go, without `but`."""
    with contextlib.suppress(ChildProcessError):
        options = os.WEXITED | os.WNOHANG
        while ended := os.waitid(os.P_ALL, 0, options | os.WNOWAIT):
            if ended.si_pid == but:
                break
            os.waitid(os.P_PID, ended.si_pid, options)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def main(listening: int) -> int:
    """Hold the hub's lock for as long as it runs: whoever asks sees by it that a hub runs."""
    os.umask(0o077)  # the log of a learner's job takes this from the hub
    os.chdir(Path(os.environ["LABS_HUB_SETTINGS"]).parent)
    with open("lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another hub runs here already.", file=sys.stderr)
            return 1
        # After an unclean end: JupyterHub would kill whatever has the number in that file by now.
        for name in ("jupyterhub-proxy.pid", PROXY, PROXY_API):
            Path(name).unlink(missing_ok=True)
        adopt_orphans()
        return asyncio.run(run(listening, lock.fileno()))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
