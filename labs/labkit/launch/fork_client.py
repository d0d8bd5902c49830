"""What stands where a launcher started a rank: `python -I -S fork_client.py SERVER FOLDER`.

It hands its files, its variables, its cores and PMI's socket to the server (fork_server.py), whose
fork is the rank, and ends as the rank ends. When it is killed, the server ends the rank. It imports
little: up in milliseconds.
"""

import json
import os
import socket
import sys


def main(server: str, folder: str) -> int:
    files = [0, 1, 2, *(int(os.environ[name]) for name in ("PMI_FD",) if name in os.environ)]
    place = {"env": dict(os.environ), "cwd": os.getcwd(), "files": files, "folder": folder}
    place["cores"] = sorted(os.sched_getaffinity(0))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(server)
        socket.send_fds(link, [json.dumps(place).encode()], files)
        return int(link.recv(16) or 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
