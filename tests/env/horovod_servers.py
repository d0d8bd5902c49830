"""One of Horovod's servers or clients, on loopback, in whichever Horovod PYTHONPATH names.

rendezvous     the elastic launcher's server; prints its port, and ends with its standard input
function       the server that hands a function to ranks; the same
service        a worker's notification service with the key "key"; then a line for each notification
read PORT      fetches a value from a server there
worker PORT    a worker that tells a rendezvous server there how it is notified
"""

from __future__ import annotations

import sys

from horovod.runner.elastic import worker
from horovod.runner.elastic.discovery import FixedHosts
from horovod.runner.elastic.driver import ElasticDriver
from horovod.runner.elastic.rendezvous import create_rendezvous_handler
from horovod.runner.http.http_client import read_data_from_kvstore
from horovod.runner.http.http_server import KVStoreServer, RendezvousServer


class Listener:
    """Takes a worker's notifications."""

    def handle_hosts_updated(self, timestamp, res) -> None:
        print("notified", timestamp, flush=True)


def main(kind: str, port: int) -> None:
    if kind == "read":
        print(read_data_from_kvstore("127.0.0.1", port, "runfunc", "func"))
        return
    if kind == "worker":
        worker.WorkerNotificationManager().init("127.0.0.1", port, "lo", "localhost", 0)
        return
    if kind == "rendezvous":
        rendezvous = RendezvousServer()
        driver = ElasticDriver(rendezvous, FixedHosts({"localhost": 1}), min_num_proc=1, max_num_proc=1)
        port = rendezvous.start(create_rendezvous_handler(driver))
    elif kind == "function":
        port = KVStoreServer(verbose=0).start_server()
    else:
        port = worker.WorkerNotificationService(b"key", "lo", Listener()).get_port()
    print(port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
