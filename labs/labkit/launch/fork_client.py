"""What stands where a launcher started a rank: `python -I -S fork_client.py SERVER FOLDER`.

It hands its files, its variables, its cores and PMI's socket to the server (fork_server.py), whose
fork is the rank, and ends as the rank ends. When it is killed, the server ends the rank. Each rank
of each run waits for it, so it imports only what Python has built in: json and socket would double
its time.
"""

import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket


def main(server: str, folder: str) -> int:
    files = [0, 1, 2, *(int(os.environ[name]) for name in ("PMI_FD",) if name in os.environ)]
    cores = sorted(os.sched_getaffinity(0))
    place = [folder, os.getcwd(), _numbers(files), _numbers(cores)]
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    message = os.fsencode("\0".join(place + variables))
    numbers = b"".join(file.to_bytes(4, sys.byteorder) for file in files)  # each a C int
    link = socket(AF_UNIX, SOCK_SEQPACKET)
    link.connect(server)
    link.sendmsg([message], [(SOL_SOCKET, SCM_RIGHTS, numbers)])
    return int(link.recv(16) or 1)


def _numbers(some: list) -> str:
    return " ".join(map(str, some))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
