"""Another user of the machine, who knows a kernel's port and has not its connection file."""

from __future__ import annotations

import json
import time
from pathlib import Path

import zmq
from jupyter_client import BlockingKernelClient

SECRET = "what a learner sees"
STARTS = 30  # on a busy machine a kernel that still starts has no heartbeat, and counts as dead
TRIES = 6  # a new subscription hears nothing of what was said before
WAIT = 500  # milliseconds


def overheard(connection: Path) -> bool:
    """Does somebody without keys, who listens at the kernel's port for output, hear what a cell
    prints?"""
    known = json.loads(connection.read_text(encoding="utf-8"))
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels()
    context = zmq.Context()
    try:
        _wait(client)
        listener = context.socket(zmq.SUB)
        listener.subscribe(b"")
        listener.connect(f"{known['transport']}://{known['ip']}:{known['iopub_port']}")
        heard = b""
        for _ in range(TRIES):
            client.execute_interactive(
                f"print({SECRET!r})", timeout=120, output_hook=lambda message: None
            )
            while listener.poll(WAIT):
                heard += b"".join(listener.recv_multipart())
        return SECRET.encode() in heard
    finally:
        client.stop_channels()
        context.destroy(linger=0)


def _wait(client: BlockingKernelClient) -> None:
    for left in reversed(range(STARTS)):
        try:
            client.wait_for_ready(timeout=120)
            return
        except RuntimeError:
            if not left:
                raise
            time.sleep(1)
