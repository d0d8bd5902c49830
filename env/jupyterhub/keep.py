"""The process that holds a hub: `python keep.py SETTINGS.json [SOCKET]`. It starts the hub and ends it.

On the tabletop, which has a network of its own, it is also the door: SOCKET is the number of a file that it
inherited, a socket that listens on the machine's loopback address. What connects there is handed on to the
proxy at the same port of the login node's loopback address.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE = 90  # seconds for the hub to stop all servers
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def end_with_parent() -> None:
    """The hub is told to stop should this process be killed."""
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGTERM)


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes, up to its end."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def door(port: int):
    """What serves one connection: to the proxy, both ways."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()  # the proxy does not listen yet
            return
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    return serve


async def run(settings: dict, listening: int | None) -> int:
    """Start the hub, serve the door, and wait until either is told to end. The hub's exit status."""
    command = [settings["jupyterhub"], "-f", str(HERE / "jupyterhub_config.py")]
    with open(Path(settings["private"]) / "hub.log", "ab", opener=_private) as log:
        hub = await asyncio.create_subprocess_exec(
            *command,
            cwd=settings["private"],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=end_with_parent,
        )
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    if listening is not None:
        await asyncio.start_server(door(settings["inner_port"]), sock=socket.socket(fileno=listening))
    ended = asyncio.ensure_future(hub.wait())
    asked = asyncio.ensure_future(told.wait())
    await asyncio.wait([ended, asked], return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        hub.terminate()
        try:
            await asyncio.wait_for(asyncio.shield(ended), PATIENCE)
        except asyncio.TimeoutError:
            hub.kill()
    asked.cancel()
    return await ended


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def main(arguments: list[str]) -> int:
    """Hold the hub's lock for as long as it runs: whoever asks sees by it that a hub runs."""
    os.umask(0o077)  # the log of a learner's job takes this from the hub
    settings = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    os.environ["LABS_HUB_SETTINGS"] = arguments[0]
    with (Path(settings["private"]) / "lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        return asyncio.run(run(settings, int(arguments[1]) if len(arguments) > 1 else None))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
