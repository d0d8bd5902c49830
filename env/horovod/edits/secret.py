"""Edits that close CVE-2024-10190: Horovod's servers answer only to who knows the job's secret.

What they ask for, and how it is checked, stands in proof.py and proof.h.
"""

from __future__ import annotations

from env.horovod.edit import Edit

SERVER = "horovod/runner/http/http_server.py"
CLIENT = "horovod/runner/http/http_client.py"
RENDEZVOUS = "horovod/runner/elastic/rendezvous.py"
WORKER = "horovod/runner/elastic/worker.py"
GLOO_RUN = "horovod/runner/gloo_run.py"
MPI_RUN = "horovod/runner/mpi_run.py"
LAUNCH = "horovod/runner/launch.py"
EXPORTED = "horovod/runner/common/util/env.py"
DRIVER = "horovod/runner/driver/driver_service.py"
TASK = "horovod/runner/task_fn.py"
SERVICES = "horovod/runner/common/util/network.py"
STORE = "horovod/common/gloo/http_store.cc"
STORE_HEADER = "horovod/common/gloo/http_store.h"

READ_OLD = """    try:
        url = "http://{addr}:{port}/{scope}/{key}".format(
            addr=addr, port=str(port), scope=scope, key=key
        )
        req = Request(url)
        resp = urlopen(req)
        # TODO: remove base64 encoding because base64 is not efficient
        return codec.loads_base64(resp.read())
    except (HTTPError, URLError) as e:
        raise RuntimeError("Read data from KVStore server failed.", e)
"""

READ_NEW = """    try:
        value = proof.ask('GET', addr, port, '/{}/{}'.format(scope, key), key=_known_key())
    except (OSError, proof.Refused) as e:
        raise RuntimeError("Read data from KVStore server failed.", e)
    if value is None:
        raise RuntimeError("Read data from KVStore server failed.", 'no value {}/{}'.format(scope, key))
    # TODO: remove base64 encoding because base64 is not efficient
    return codec.loads_base64(value)


def _known_key():
    key = proof.job_key()
    if key is None:
        raise proof.Refused('{} is not set, and the job\\'s servers serve nobody without it'.format(
            secret.HOROVOD_SECRET_KEY))
    return key
"""

WRITE_OLD = """    try:
        url = "http://{addr}:{port}/{scope}/{key}".format(
            addr=addr, port=str(port), scope=scope, key=key
        )
        req = Request(url, data=codec.dumps_base64(value, to_ascii=False))
        req.get_method = lambda: "PUT"  # for urllib2 compatibility
        urlopen(req)
    except (HTTPError, URLError) as e:
        raise RuntimeError("Put data input KVStore server failed.", e)
"""

WRITE_NEW = """    put_bytes_into_kvstore(addr, port, scope, key, codec.dumps_base64(value, to_ascii=False))


def put_bytes_into_kvstore(addr, port, scope, key, value):
    try:
        proof.ask('PUT', addr, port, '/{}/{}'.format(scope, key), value, key=_known_key())
    except (OSError, proof.Refused) as e:
        raise RuntimeError("Put data input KVStore server failed.", e)
"""

WIRE_OLD = """    Structure of the message is as follows:
    - HMAC digest of the body (32 bytes)
    - length of the body (4 bytes)
    - body
    \"\"\"
    def __init__(self, key):
        self._key = key

    def write(self, obj, wfile):
        message = cloudpickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)
        digest = secret.compute_digest(self._key, message)
        wfile.write(digest)
        # Pack message length into 4-byte integer.
        wfile.write(struct.pack('i', len(message)))
        wfile.write(message)
        wfile.flush()
"""

WIRE_NEW = """    See proof.Conversation for the structure of a message.
    \"\"\"
    def __init__(self, key):
        self._key = key

    def accept(self, rfile, wfile):
        \"\"\"The service's side of a connection.\"\"\"
        return proof.Conversation.accept(self._key, rfile, wfile)

    def begin(self, rfile, wfile):
        \"\"\"The client's side of a connection.\"\"\"
        return proof.Conversation.begin(self._key, rfile, wfile)

    def write(self, obj, conversation):
        conversation.write(cloudpickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL))
"""

WIRE_READ_OLD = """    def read(self, rfile):
        digest = rfile.read(secret.DIGEST_LENGTH)
        # Unpack message length into 4-byte integer.
        message_len = struct.unpack('i', rfile.read(4))[0]
        message = rfile.read(message_len)
        if not secret.check_digest(self._key, message, digest):
            raise Exception('Security error: digest did not match the message.')
        return cloudpickle.loads(message)
"""

WIRE_READ_NEW = """    def read(self, conversation, head=None):
        return cloudpickle.loads(conversation.read(head))
"""

HANDLER_OLD = """                try:
                    req = server._wire.read(self.rfile)
"""

HANDLER_NEW = """                try:
                    # A stranger must not hold a thread for ever: shutdown waits for it.
                    self.connection.settimeout(proof.PATIENCE)
                    conversation = server._wire.accept(self.rfile, self.wfile)
                    head = conversation.read_head()
                    self.connection.settimeout(None)
                    req = server._wire.read(conversation, head)
"""

HANDLER_END_OLD = """                except (EOFError, BrokenPipeError):
"""

HANDLER_END_NEW = """                except (proof.Refused, socket.timeout) as e:
                    logging.info('refused a request of {}: {}'.format(self.client_address[0], e))
                except (EOFError, BrokenPipeError, ConnectionResetError):
"""

ADDRESSES_OLD = """    def _get_local_addresses(self):
        result = {}
"""

ADDRESSES_NEW = """    def _own_address(self):
        \"\"\"The address of the interface that this service is for; '' when it is for several.\"\"\"
        nics = [self._nics] if isinstance(self._nics, str) else self._nics or []
        addresses = [addr.address for intf, intf_addresses in psutil.net_if_addrs().items() if intf in nics
                     for addr in intf_addresses if addr.family == socket.AF_INET]
        return addresses[0] if len(addresses) == 1 else ''

    def _get_local_addresses(self):
        result = {}
"""

PUT_ADDRESSES_OLD = """                addresses, secret_key = codec.loads_base64(value)
                self._put_worker_addresses(host, int(local_rank), addresses, secret_key)
"""

PUT_ADDRESSES_NEW = """                addresses = {intf: [tuple(addr) for addr in addrs]
                             for intf, addrs in json.loads(value.decode('ascii')).items()}
                self._put_worker_addresses(host, int(local_rank), addresses, self.server.key)
"""

REGISTER_OLD = """            secret_key = secret.make_secret_key()
            self._service = WorkerNotificationService(secret_key, nic, self)

            value = (self._service.addresses(), secret_key)
            put_data_into_kvstore(rendezvous_addr,
                                  rendezvous_port,
                                  PUT_WORKER_ADDRESSES,
                                  self._create_id(hostname, local_rank),
                                  value)
"""

REGISTER_NEW = """            secret_key = proof.job_key()
            if secret_key is None:
                raise RuntimeError('{} is not set: horovodrun gives it to the workers that it starts'.format(
                    secret.HOROVOD_SECRET_KEY))
            self._service = WorkerNotificationService(secret_key, nic, self)

            put_bytes_into_kvstore(rendezvous_addr,
                                   rendezvous_port,
                                   PUT_WORKER_ADDRESSES,
                                   self._create_id(hostname, local_rank),
                                   json.dumps(self._service.addresses()).encode('ascii'))
"""

SSH_OLD = """            local_command = quote('cd {pwd} > /dev/null 2>&1 ; {command}'
                                  .format(pwd=os.getcwd(), command=command))
            command = get_remote_command(local_command,
                                         host=host_name,
                                         port=settings.ssh_port,
                                         identity_file=settings.ssh_identity_file)
"""

SSH_NEW = """            local_command = quote('{receive_key}cd {pwd} > /dev/null 2>&1 ; {command}'
                                  .format(receive_key=proof.RECEIVE_KEY, pwd=os.getcwd(), command=command))
            command = proof.SEND_KEY + get_remote_command(local_command,
                                                          host=host_name,
                                                          port=settings.ssh_port,
                                                          identity_file=settings.ssh_identity_file)
"""

PROBE_OLD = """            command = get_remote_command(command,
                                         host=host_name,
                                         port=settings.ssh_port,
                                         identity_file=settings.ssh_identity_file)
"""

PROBE_NEW = """            command = proof.SEND_KEY + get_remote_command(quote(proof.RECEIVE_KEY + command),
                                                          host=host_name,
                                                          port=settings.ssh_port,
                                                          identity_file=settings.ssh_identity_file)
"""

KVSTORE_OLD = """class KVStoreServer:
    def __init__(self, verbose):
        self.httpd = None
"""

KVSTORE_NEW = """class KVStoreServer:
    def __init__(self, verbose, key=None):
        self._key = key or proof.job_key() or proof.new_key()
        self.httpd = None
"""

# As labkit.world.secrets has them. TOKENIZERS_PARALLELISM and MAX_TOKENS are none.
IGNORED_OLD = "'.*CUDA_VISIBLE_DEVICES', secret.HOROVOD_SECRET_KEY}"
IGNORED_NEW = """'.*CUDA_VISIBLE_DEVICES', secret.HOROVOD_SECRET_KEY,
                  '(?i)JUPYTERHUB_(?!USER$)|SLURM_JWT$|.*(TOKEN(?!IZ|S)|SECRET|PASSW|API_?KEY)'}"""

PROVEN = "What strangers must not do begins with a proof; without one a request ends here."
KEY = "The server holds the job's secret."
OWN_ADDRESS = "A server listens on the address that its workers are told, not on all of the machine."
NOT_ON_COMMAND_LINES = "Every user of a machine can read command lines: the secret is in the environment."
SESSION = "Both sides name a number first, so that no recorded message serves twice, in neither direction."
SIGNED = "Gloo's ranks ask the rendezvous server from C++: they prove their requests, too, and want proofs."

SECRET = (
    Edit(
        "secret-server-import",
        SERVER,
        "Where the checks stand.",
        "from horovod.runner.util.network import find_port\n",
        "from horovod.runner.common.util import proof\nfrom horovod.runner.util.network import find_port\n",
    ),
    Edit(
        "secret-server-base",
        SERVER,
        "SimpleHTTPRequestHandler tells strangers by HEAD which files the launcher's folder holds.",
        "from http.server import HTTPServer, SimpleHTTPRequestHandler\n",
        "from http.server import BaseHTTPRequestHandler, HTTPServer\n",
    ),
    Edit(
        "secret-server-requests",
        SERVER,
        PROVEN,
        "class KVStoreHandler(SimpleHTTPRequestHandler):\n",
        "class KVStoreHandler(proof.ProvenRequests, BaseHTTPRequestHandler):\n",
    ),
    Edit(
        "secret-server-body",
        SERVER,
        "The proof holds for one body.",
        "        self._put_value(scope, key, value)\n        self.send_status_code(OK)\n",
        "        if not self.is_proven_body(value):\n            self.refuse()\n            return\n"
        "        self._put_value(scope, key, value)\n        self.send_status_code(OK)\n",
    ),
    Edit(
        "secret-server-value",
        SERVER,
        "Clients unpickle what they are sent: it carries a proof as well.",
        '            self.send_header("Content-Length", str(len(value)))\n',
        '            self.send_header("Content-Length", str(len(value)))\n'
        "            self.send_proof(200, value)\n",
    ),
    Edit(
        "secret-server-status",
        SERVER,
        "The same for answers without a value.",
        '        self.send_header("Content-Length", 0)\n',
        '        self.send_header("Content-Length", 0)\n        self.send_proof(status_code)\n',
    ),
    Edit(
        "secret-server-key",
        SERVER,
        KEY,
        "class RendezvousHTTPServer(socketserver.ThreadingMixIn, HTTPServer, object):\n"
        "    def __init__(self, addr, handler, verbose):\n",
        "class RendezvousHTTPServer(socketserver.ThreadingMixIn, HTTPServer, object):\n"
        "    def __init__(self, addr, handler, verbose, key=None):\n"
        "        self.key = key or proof.job_key()\n"
        "        self.nonces = proof.Nonces()\n",
    ),
    Edit(
        "secret-rendezvous-key",
        SERVER,
        KEY,
        "class RendezvousServer:\n    def __init__(self, verbose=0):\n",
        "class RendezvousServer:\n    def __init__(self, verbose=0, key=None):\n"
        "        self._key = key or proof.job_key() or proof.new_key()\n",
    ),
    Edit(
        "secret-rendezvous-address",
        SERVER,
        OWN_ADDRESS,
        "    def start(self, handler_cls=RendezvousHandler):\n",
        "    def start(self, handler_cls=RendezvousHandler, address=''):\n",
    ),
    Edit(
        "secret-rendezvous-start",
        SERVER,
        KEY,
        "                addr, handler_cls, self._verbose))\n",
        "                addr, handler_cls, self._verbose, self._key), address)\n",
    ),
    Edit(
        "secret-function-server",
        SERVER,
        KEY,
        "class KVStoreHTTPServer(HTTPServer, object):\n    def __init__(self, addr, handler, verbose):\n",
        "class KVStoreHTTPServer(HTTPServer, object):\n    def __init__(self, addr, handler, verbose, key):\n"
        "        self.key = key\n        self.nonces = proof.Nonces()\n",
    ),
    Edit("secret-function-server-key", SERVER, KEY, KVSTORE_OLD, KVSTORE_NEW),
    Edit(
        "secret-function-server-address",
        SERVER,
        OWN_ADDRESS,
        "    def start_server(self):\n",
        "    def start_server(self, address=''):\n",
    ),
    Edit(
        "secret-function-server-start",
        SERVER,
        KEY,
        "                addr, KVStoreHandler, self.verbose))\n",
        "                addr, KVStoreHandler, self.verbose, self._key), address)\n",
    ),
    Edit(
        "secret-client-import",
        CLIENT,
        "Where the proofs come from.",
        "from urllib.error import HTTPError, URLError\nfrom urllib.request import Request\n"
        "from urllib.request import urlopen\n\nfrom horovod.runner.common.util import codec\n",
        "from horovod.runner.common.util import codec, proof, secret\n",
    ),
    Edit(
        "secret-client-read",
        CLIENT,
        "What a server sends is unpickled when its proof is right, and not before.",
        READ_OLD,
        READ_NEW,
    ),
    Edit("secret-client-write", CLIENT, "Requests are proven.", WRITE_OLD, WRITE_NEW),
    Edit(
        "secret-elastic-import",
        RENDEZVOUS,
        "The module that `secret-elastic-addresses` uses.",
        "import logging\n\nfrom horovod.runner.common.util import codec\n",
        "import json\nimport logging\n\n",
    ),
    Edit(
        "secret-elastic-needs",
        RENDEZVOUS,
        "This is the server of CVE-2024-10190: it never serves without a secret.",
        "    class ElasticRendezvousHandler(RendezvousHandler):\n",
        "    class ElasticRendezvousHandler(RendezvousHandler):\n        needs_key = True\n\n",
    ),
    Edit(
        "secret-elastic-addresses",
        RENDEZVOUS,
        "A worker's addresses are plain data: this server unpickles nothing any more.",
        PUT_ADDRESSES_OLD,
        PUT_ADDRESSES_NEW,
    ),
    Edit(
        "secret-worker-import",
        WORKER,
        "The modules that `secret-worker-key` uses.",
        "import os\nimport threading\n\nfrom enum import IntFlag\n\n"
        "from horovod.runner.common.util import network, secret\n",
        "import json\nimport os\nimport threading\n\nfrom enum import IntFlag\n\n"
        "from horovod.runner.common.util import network, proof, secret\n",
    ),
    Edit(
        "secret-worker-client",
        WORKER,
        "The function that `secret-worker-key` uses.",
        "from horovod.runner.http.http_client import put_data_into_kvstore\n",
        "from horovod.runner.http.http_client import put_bytes_into_kvstore\n",
    ),
    Edit(
        "secret-worker-key",
        WORKER,
        "A worker sent a secret of its own over the network, in clear, to be notified with; "
        "now that is the job's, which is never sent.",
        REGISTER_OLD,
        REGISTER_NEW,
    ),
    Edit(
        "secret-launch-import",
        LAUNCH,
        "Where the secret is made.",
        "import config_parser, hosts, safe_shell_exec, secret, timeout\n",
        "import config_parser, hosts, proof, safe_shell_exec, timeout\n",
    ),
    Edit(
        "secret-launch",
        LAUNCH,
        "One secret for each job, for all its servers; workers inherit it with the environment.",
        "key=secret.make_secret_key(),",
        "key=proof.new_key(),",
        times=2,
    ),
    Edit(
        "secret-launch-address",
        LAUNCH,
        OWN_ADDRESS,
        "run_func_server.start_server()",
        "run_func_server.start_server(driver_ip)",
    ),
    Edit(
        "secret-gloo-import",
        GLOO_RUN,
        "What `secret-gloo-ssh` uses.",
        "from horovod.runner.common.util import env as env_util, safe_shell_exec\n",
        "from horovod.runner.common.util import env as env_util, proof, safe_shell_exec\n",
    ),
    Edit("secret-gloo-ssh", GLOO_RUN, NOT_ON_COMMAND_LINES, SSH_OLD, SSH_NEW),
    Edit(
        "secret-gloo-address",
        GLOO_RUN,
        OWN_ADDRESS,
        "    global_rendezv_port = rendezvous.start()\n",
        "    global_rendezv_port = rendezvous.start(address=server_ip)\n",
    ),
    Edit(
        "secret-gloo-elastic-later",
        GLOO_RUN,
        "The elastic server began before its address was known; nobody asks it until workers start.",
        "    global_rendezv_port = rendezvous.start(handler)\n",
        "",
    ),
    Edit(
        "secret-gloo-elastic-address",
        GLOO_RUN,
        OWN_ADDRESS,
        "    server_ip = network.get_driver_ip(nics)\n    run_func_server = None\n",
        "    server_ip = network.get_driver_ip(nics)\n"
        "    global_rendezv_port = rendezvous.start(handler, server_ip)\n    run_func_server = None\n",
    ),
    Edit(
        "secret-gloo-function-address",
        GLOO_RUN,
        OWN_ADDRESS,
        "run_func_server.start_server()",
        "run_func_server.start_server(server_ip)",
    ),
    Edit(
        "secret-mpi",
        MPI_RUN,
        "Open MPI hands over the variables that it is told; ranks that fetch a function need the secret.",
        "for key in sorted(env.keys()) if env_util.is_exportable(key))\n",
        "for key in sorted(env.keys()) if env_util.is_exportable(key)\n"
        "                    or (settings.run_func_mode and key == secret.HOROVOD_SECRET_KEY))\n",
    ),
    Edit(
        "secret-mpi-import",
        MPI_RUN,
        "The name that `secret-mpi` uses.",
        "import env as env_util, hosts, safe_shell_exec, tiny_shell_exec\n",
        "import env as env_util, hosts, safe_shell_exec, secret, tiny_shell_exec\n",
    ),
    Edit(
        "secret-driver-import",
        DRIVER,
        "What the next edits use.",
        "from horovod.runner.common.util import codec, safe_shell_exec\n",
        "from horovod.runner.common.util import codec, proof, safe_shell_exec\n",
    ),
    Edit(
        "secret-driver-quote",
        DRIVER,
        "What `secret-driver-ssh` uses.",
        "from socket import AF_INET\n",
        "from shlex import quote\nfrom socket import AF_INET\n",
    ),
    Edit(
        "secret-driver",
        DRIVER,
        NOT_ON_COMMAND_LINES,
        "settings=codec.dumps_base64(settings))\n",
        "settings=codec.dumps_base64(proof.without_key(settings)))\n",
    ),
    Edit("secret-driver-ssh", DRIVER, NOT_ON_COMMAND_LINES, PROBE_OLD, PROBE_NEW),
    Edit(
        "secret-task-import",
        TASK,
        "What `secret-task` uses.",
        "from horovod.runner.common.util import codec, host_hash\n",
        "from horovod.runner.common.util import codec, host_hash, proof\n",
    ),
    Edit(
        "secret-task",
        TASK,
        NOT_ON_COMMAND_LINES,
        "    settings = codec.loads_base64(sys.argv[4])\n",
        "    settings = codec.loads_base64(sys.argv[4])\n    settings.key = proof.job_key()\n",
    ),
    Edit(
        "secret-services-import",
        SERVICES,
        "Where the checks stand.",
        "import pickle\nimport psutil\nimport queue\nimport socket\nimport socketserver\nimport struct\n"
        "import shutil\n",
        "import logging\nimport pickle\nimport psutil\nimport queue\nimport socket\nimport socketserver\n"
        "import shutil\n",
    ),
    Edit(
        "secret-services-proof",
        SERVICES,
        "Where the checks stand.",
        "from horovod.runner.common.util import secret\n",
        "from horovod.runner.common.util import proof\n",
    ),
    Edit("secret-services-write", SERVICES, SESSION, WIRE_OLD, WIRE_NEW),
    Edit(
        "secret-services-read",
        SERVICES,
        "The proof covers length and hash, and is checked before the message is read.",
        WIRE_READ_OLD,
        WIRE_READ_NEW,
    ),
    Edit("secret-services-request", SERVICES, SESSION, HANDLER_OLD, HANDLER_NEW),
    Edit(
        "secret-services-answer",
        SERVICES,
        SESSION,
        "server._wire.write(resp, self.wfile)",
        "server._wire.write(resp, conversation)",
        times=2,
    ),
    Edit(
        "secret-services-refuse",
        SERVICES,
        "A stranger's request ends in a line of the log, not in a traceback.",
        HANDLER_END_OLD,
        HANDLER_END_NEW,
    ),
    Edit(
        "secret-services-ping",
        SERVICES,
        SESSION,
        "                    self._wire.write(PingRequest(), wfile)\n"
        "                    resp = self._wire.read(rfile)\n",
        "                    conversation = self._wire.begin(rfile, wfile)\n"
        "                    self._wire.write(PingRequest(), conversation)\n"
        "                    resp = self._wire.read(conversation)\n",
    ),
    Edit(
        "secret-services-send",
        SERVICES,
        SESSION,
        "                    self._wire.write(req, wfile)\n"
        "                    resp = self._wire.read(rfile)\n",
        "                    conversation = self._wire.begin(rfile, wfile)\n"
        "                    self._wire.write(req, conversation)\n"
        "                    resp = self._wire.read(conversation)\n",
    ),
    Edit(
        "secret-services-address",
        SERVICES,
        "A service for one network interface listens on that one.",
        "                addr, self._make_handler()))\n",
        "                addr, self._make_handler()), self._own_address())\n",
    ),
    Edit(
        "secret-services-own-address",
        SERVICES,
        "What `secret-services-address` uses.",
        ADDRESSES_OLD,
        ADDRESSES_NEW,
    ),
    Edit(
        "secret-gloo-store-header",
        STORE_HEADER,
        SIGNED,
        "  http::Response PerformHTTP(http::Request& request, const std::string& method,\n"
        "                             const std::string& body);\n",
        "  http::Response PerformHTTP(http::Request& request, const std::string& url,\n"
        "                             const std::string& method, const std::string& body);\n",
    ),
    Edit(
        "secret-gloo-store-import",
        STORE,
        "Where the proofs come from.",
        '#include "gloo_context.h"\n',
        '#include "gloo_context.h"\n#include "proof.h"\n',
    ),
    Edit(
        "secret-gloo-store-url",
        STORE,
        "A proof covers the path.",
        "HTTPStore::PerformHTTP(http::Request& request,\n"
        "                       const std::string& method = HTTP_GET_METHOD,\n",
        "HTTPStore::PerformHTTP(http::Request& request, const std::string& url,\n"
        "                       const std::string& method = HTTP_GET_METHOD,\n",
    ),
    Edit(
        "secret-gloo-store",
        STORE,
        SIGNED,
        "      http::Response response = request.send(method, body);\n      if (response.status != HTTP_OK",
        "      proof::Exchange exchange(method, url, body);\n"
        "      http::Response response = request.send(method, body, exchange.Headers());\n"
        "      if (!exchange.Proves(response.status, response.headers, response.body)) {\n"
        '        LOG(WARNING) << "HTTP response without a proof that it comes from this job, got "\n'
        "                     << response.status;\n"
        "      } else if (response.status != HTTP_OK",
    ),
    Edit(
        "secret-gloo-store-get",
        STORE,
        "What `secret-gloo-store-url` takes.",
        "PerformHTTP(request, HTTP_GET_METHOD);",
        "PerformHTTP(request, url, HTTP_GET_METHOD);",
    ),
    Edit(
        "secret-gloo-store-put",
        STORE,
        "What `secret-gloo-store-url` takes.",
        "PerformHTTP(request, HTTP_PUT_METHOD, body);",
        "PerformHTTP(request, url, HTTP_PUT_METHOD, body);",
    ),
    Edit(
        "secret-gloo-store-delete",
        STORE,
        "What `secret-gloo-store-url` takes.",
        "PerformHTTP(request, HTTP_DELETE_METHOD);",
        "PerformHTTP(request, url, HTTP_DELETE_METHOD);",
    ),
    Edit(
        "secret-exported",
        EXPORTED,
        "`horovodrun` writes its whole environment on the ranks' command lines; now without tokens, "
        "passwords and a hub's variables.",
        IGNORED_OLD,
        IGNORED_NEW,
    ),
)
