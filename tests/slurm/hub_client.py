"""A learner as the hub sees one: logs in, starts a server, runs cells through its API, logs out."""

from __future__ import annotations

import json
import time
import uuid
from urllib.parse import urlsplit

import requests
import websocket

PATIENCE = 900  # seconds for anything that ends sooner on a machine that is not overloaded


class Learner:
    """One person's browser, without the browser."""

    def __init__(self, address: str, name: str, password: str):
        self.address = address
        self.name = name
        self.password = password
        self.session = requests.Session()
        self.session.trust_env = False  # no proxy on the way to a loopback address

    def log_in(self) -> bool:
        """Was the password taken?"""
        self.session.get(f"{self.address}/hub/login", timeout=PATIENCE)
        form = {"username": self.name, "password": self.password, "_xsrf": self._xsrf("/hub/")}
        url = f"{self.address}/hub/login?next=/hub/home"
        answer = self.session.post(url, data=form, allow_redirects=False, timeout=PATIENCE)
        return answer.status_code == 302

    def start(self) -> float:
        """Ask for the server and wait until it answers; the seconds that took."""
        begin = time.monotonic()
        self.session.get(f"{self.address}/hub/spawn/{self.name}", timeout=PATIENCE)
        while True:
            answer = self.session.get(f"{self.address}/hub/api/users/{self.name}", timeout=PATIENCE)
            server = answer.json().get("servers", {}).get("", {})
            if server.get("ready"):
                break
            if not server.get("pending") or time.monotonic() - begin > PATIENCE:
                raise RuntimeError(f"the server of {self.name} did not start: {server}")
            time.sleep(1)
        self.get("lab/tree/notebooks")  # the first page brings the cookies of this server
        return time.monotonic() - begin

    def get(self, path: str) -> requests.Response:
        """A page or an answer of the learner's own server."""
        return self.session.get(f"{self.address}/user/{self.name}/{path}", timeout=PATIENCE)

    def post(self, path: str, content: dict, method: str = "POST") -> requests.Response:
        """Send something to the learner's own server; PUT writes a file."""
        headers = {"X-XSRFToken": self._xsrf(f"/user/{self.name}/")}
        url = f"{self.address}/user/{self.name}/{path}"
        return self.session.request(method, url, json=content, headers=headers, timeout=PATIENCE)

    def log_out(self) -> None:
        """The hub ends the server then."""
        self.session.get(f"{self.address}/hub/logout", timeout=PATIENCE)

    def _xsrf(self, path: str) -> str:
        own = [each for each in self.session.cookies if (each.name, each.path) == ("_xsrf", path)]
        return own[0].value if own else ""

    def kernel(self, folder: str = "work") -> Kernel:
        """A new kernel, as for a notebook in this folder."""
        path = f"{folder}/work-{uuid.uuid4().hex}.ipynb"
        kernel = {"name": "python3"}
        content = {"kernel": kernel, "name": "work", "path": path, "type": "notebook"}
        answer = self.post("api/sessions", content)
        answer.raise_for_status()
        return Kernel(self, answer.json()["kernel"]["id"])


class Kernel:
    """A kernel of a learner's server, over a websocket for each cell.

    Between two cells a learner reads. A browser answers the server's pings meanwhile; here nobody
    would, and the server would hang up.
    """

    def __init__(self, learner: Learner, number: str):
        self.learner = learner
        self.number = number
        host = urlsplit(learner.address).netloc
        self.url = f"ws://{host}/user/{learner.name}/api/kernels/{number}/channels"

    def _connect(self) -> websocket.WebSocket:
        request = requests.Request("GET", f"{self.learner.address}/user/{self.learner.name}/api")
        jar = self.learner.session.cookies
        cookies = requests.cookies.get_cookie_header(jar, request.prepare())
        way = {"origin": self.learner.address, "http_no_proxy": ["127.0.0.1"]}
        return websocket.create_connection(self.url, cookie=cookies, timeout=PATIENCE, **way)

    def run(self, code: str) -> str:
        """Execute a cell; what it printed. RuntimeError where it raised."""
        number = uuid.uuid4().hex
        header = {"msg_id": number, "username": "", "session": self.number, "version": "5.3"}
        header |= {"msg_type": "execute_request", "date": ""}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": False, "stop_on_error": True}
        message = {"header": header, "parent_header": {}, "metadata": {}, "channel": "shell"}
        message["content"] = content
        connection = self._connect()
        try:
            connection.send(json.dumps(message))
            return self._printed(connection, number)
        finally:
            connection.close()

    def _printed(self, connection: websocket.WebSocket, number: str) -> str:
        """What the cell of this message prints, up to its end."""
        printed = []
        while True:
            answer = json.loads(connection.recv())
            if answer["parent_header"].get("msg_id") != number:
                continue
            kind, said = answer["header"]["msg_type"], answer["content"]
            if kind == "stream":
                printed.append(said["text"])
            elif kind == "error":
                more = "".join(printed)[-1000:]
                raise RuntimeError(f"{said['ename']}: {said['evalue']}\n{more}")
            elif kind == "status" and said["execution_state"] == "idle":
                return "".join(printed)
