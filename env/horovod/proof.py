"""Who knows the job's secret: what Horovod's servers ask of a request, and its clients of an answer.

This file is no part of Horovod 0.28.1: it joins our build (env/HOROVOD.md), and proof.h is its twin in C++.

horovodrun makes a secret for each job. Its workers have it in their environment, never on a command line,
which every user of a machine can read. Over HTTP a request carries a number used once and an HMAC over
method, path, length and hash of the body; the answer carries one over that number, status and body. Over a
service's socket each side names a number first. All is compared in constant time, before a byte is
unpickled, and a recorded request is refused when it is sent again.
"""

import copy
import hashlib
import hmac
import http.client
import logging
import os
import struct
import threading
import urllib.error
import urllib.request

from horovod.runner.common.util.secret import HOROVOD_SECRET_KEY

NONCE_HEADER = "X-Horovod-Nonce"
BODY_HEADER = "X-Horovod-Body"
PROOF_HEADER = "X-Horovod-Proof"
REFUSED = 403

# A worker on another host reads the secret from ssh's standard input.
SEND_KEY = f'printf "%s\\n" "${HOROVOD_SECRET_KEY}" | '
RECEIVE_KEY = f"read -r {HOROVOD_SECRET_KEY}; export {HOROVOD_SECRET_KEY}; "

NUMBER_LENGTH = 32  # bytes
HEAD = struct.Struct("!Q32s32s")  # a message's length, its SHA-256, the proof
PATIENCE = 20  # seconds until a service wants to have seen a proof
PATIENCE_WITH_SERVERS = 300  # seconds: the elastic one tries all of a worker's addresses before it answers


class Refused(Exception):
    """The other side did not show that it knows the job's secret."""


def new_key():
    """A fresh secret, in this process's environment for the workers that it starts."""
    os.environ[HOROVOD_SECRET_KEY] = os.urandom(32).hex()
    return job_key()


def job_key():
    """The secret of this process's job, as bytes; None outside of a job."""
    return os.environ.get(HOROVOD_SECRET_KEY, "").encode("ascii") or None


def without_key(settings):
    """A copy of the settings that can stand on a command line."""
    settings = copy.copy(settings)
    settings.key = None
    return settings


def _hmac(key, *parts):
    return hmac.new(key, b"\n".join(parts), hashlib.sha256)


def prove_request(key, nonce, method, path, length, body_hash):
    """The proof of an HTTP request, in hexadecimal; all but the key are strings."""
    parts = [part.encode("latin-1") for part in (nonce, method, path, length, body_hash)]
    return _hmac(key, b"horovod http request", *parts).hexdigest()


def prove_answer(key, nonce, status, body):
    """The proof of the answer to the request of that nonce, in hexadecimal."""
    parts = [
        nonce.encode("latin-1"),
        str(status).encode("ascii"),
        hashlib.sha256(body).hexdigest().encode("ascii"),
    ]
    return _hmac(key, b"horovod http answer", *parts).hexdigest()


def same(left, right):
    """Are both strings the same? The time that it takes does not tell where they differ."""
    return hmac.compare_digest(left.encode("latin-1", "replace"), right.encode("latin-1", "replace"))


def ask(method, addr, port, path, body=b"", key=None):
    """Ask a server of this job, without a proxy; the answer's body, or None when there is no such value.

    With a key the request is proven, and so must the answer be. Raises Refused, or an OSError.
    """
    request = urllib.request.Request(f"http://{addr}:{port}{path}", data=body or None, method=method)
    request.add_header("Content-Length", str(len(body)))
    if key:
        nonce = os.urandom(16).hex()
        body_hash = hashlib.sha256(body).hexdigest()
        request.add_header(NONCE_HEADER, nonce)
        request.add_header(BODY_HEADER, body_hash)
        request.add_header(PROOF_HEADER, prove_request(key, nonce, method, path, str(len(body)), body_hash))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        answer = opener.open(request, timeout=PATIENCE_WITH_SERVERS)
    except urllib.error.HTTPError as error:
        answer = error
    except http.client.HTTPException as error:
        raise OSError(f"{addr}:{port} is no server of Horovod: {error!r}") from error
    with answer:
        value = answer.read()
    if answer.status == REFUSED:
        raise Refused(
            f"the server at {addr}:{port} serves who knows its job's secret ({HOROVOD_SECRET_KEY}) alone"
        )
    if key and not same(answer.headers.get(PROOF_HEADER, ""), prove_answer(key, nonce, answer.status, value)):
        raise Refused(f"the answer of {addr}:{port} is not from who knows this job's secret")
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise OSError(f"the server at {addr}:{port} answered {answer.status}")
    return value


class Nonces:
    """The numbers that a server has seen in proven requests: none is taken twice."""

    def __init__(self):
        self._seen = set()
        self._lock = threading.Lock()

    def take(self, nonce):
        """True the first time."""
        with self._lock:
            fresh = nonce not in self._seen
            self._seen.add(nonce)
            return fresh


class ProvenRequests:
    """For a handler of http.server: no method is called before the request's proof was found right.

    The server has `key` and `nonces`. Without a key it is a plain store for whoever reaches it, unless the
    handler says `needs_key`.
    """

    needs_key = False
    _nonce = None

    def parse_request(self):
        """As in http.server; False, and 403 is sent, when the request is not proven."""
        if not super().parse_request():
            return False
        if self._is_proven():
            return True
        logging.info("refused a request of %s without a proof", self.client_address[0])
        self.refuse()
        return False

    def _is_proven(self):
        key = self.server.key
        if key is None:
            return not self.needs_key
        nonce = self.headers.get(NONCE_HEADER, "")
        length = self.headers.get("Content-Length", "0")
        body_hash = self.headers.get(BODY_HEADER, "")
        right = prove_request(key, nonce, self.command, self.path, length, body_hash)
        if not same(self.headers.get(PROOF_HEADER, ""), right) or not self.server.nonces.take(nonce):
            return False
        self._nonce = nonce
        return True

    def refuse(self):
        """Answer 403, and not another word."""
        self._nonce = None
        self.close_connection = True
        self.send_response(REFUSED)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def is_proven_body(self, body):
        """Is this the body that the request's proof speaks of?"""
        if self._nonce is None:
            return True
        return same(hashlib.sha256(body).hexdigest(), self.headers.get(BODY_HEADER, ""))

    def send_proof(self, status, body=b""):
        """A header with the proof of this answer."""
        if self._nonce is not None:
            self.send_header(PROOF_HEADER, prove_answer(self.server.key, self._nonce, status, body))


class Conversation:
    """Messages between a service and its client, each proven for this connection and this direction."""

    def __init__(self, key, rfile, wfile, numbers, own, other):
        self._key = key
        self._rfile = rfile
        self._wfile = wfile
        self._numbers = numbers
        self._own = own
        self._other = other

    @classmethod
    def accept(cls, key, rfile, wfile):
        """The service's side: it speaks first."""
        number = os.urandom(NUMBER_LENGTH)
        wfile.write(number)
        wfile.flush()
        numbers = number + read_all(rfile, NUMBER_LENGTH)
        return cls(key, rfile, wfile, numbers, b"horovod service answer", b"horovod service request")

    @classmethod
    def begin(cls, key, rfile, wfile):
        """The client's side."""
        number = os.urandom(NUMBER_LENGTH)
        wfile.write(number)
        wfile.flush()
        numbers = read_all(rfile, NUMBER_LENGTH) + number
        return cls(key, rfile, wfile, numbers, b"horovod service request", b"horovod service answer")

    def _proof(self, direction, length, message_hash):
        return _hmac(self._key, direction, self._numbers, str(length).encode("ascii"), message_hash).digest()

    def write(self, message):
        """Send these bytes with their proof."""
        message_hash = hashlib.sha256(message).digest()
        head = HEAD.pack(len(message), message_hash, self._proof(self._own, len(message), message_hash))
        self._wfile.write(head)
        self._wfile.write(message)
        self._wfile.flush()

    def read_head(self):
        """Length and hash of the message that follows. Raises Refused when they are not proven."""
        length, message_hash, shown = HEAD.unpack(read_all(self._rfile, HEAD.size))
        if not hmac.compare_digest(shown, self._proof(self._other, length, message_hash)):
            raise Refused("Security error: digest did not match the message.")
        return length, message_hash

    def read(self, head=None):
        """The bytes of the next message. Raises Refused when they are not proven."""
        length, message_hash = head or self.read_head()
        message = read_all(self._rfile, length)
        if not hmac.compare_digest(hashlib.sha256(message).digest(), message_hash):
            raise Refused("Security error: digest did not match the message.")
        return message


def read_all(rfile, length):
    """That many bytes. Raises EOFError when the other side ends before."""
    data = rfile.read(length)
    if len(data) != length:
        raise EOFError
    return data
