"""The page over HTTP: this machine's loopback address alone, and nothing without the secret."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from labkit import board, journal
from labkit.errors import LabError, NotHere


@contextlib.contextmanager
def served(folder: Path, *options: str, **variables: str) -> Iterator[tuple[int, str, subprocess.Popen]]:
    """(port, path with the secret, process) of a board that is served; it is gone afterwards."""
    command = [sys.executable, "-m", "labkit.board", str(folder), "--serve", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables}
    )
    try:
        first = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:(\d+)(/\S+)", first)
        assert address, first + process.stderr.read()
        yield int(address[1]), address[2], process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        process.stdout.close()
        process.stderr.close()


def get(port: int, path: str, **headers: str) -> tuple[int, str, dict]:
    """(status, text, headers) of an answer; redirections are not followed."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return (
            answer.status,
            answer.read().decode(),
            {name.lower(): value for name, value in answer.getheaders()},
        )


@pytest.mark.slow
def test_nothing_without_the_secret_and_everything_fresh_with_it(tmp_path, monkeypatch):
    folder = tmp_path / "class"
    folder.mkdir()
    with served(folder, "0", "--base-url", "board", "--refresh", "3") as (port, path, process):
        assert path.startswith("/board/?token=")
        for wrong in ("/board/", "/board/?token=", "/board/?token=guess", "/board/?token=%C3%A9"):
            status, text, _ = get(port, wrong)
            assert (status, "open the whole address" in text) == (403, True)
        assert get(port, "/")[0] == 404
        assert get(port, "/board/", Cookie=f"labkit-board-{port}=guess")[0] == 403
        status, _, headers = get(port, path)
        assert (status, headers["location"]) == (302, "/board/"), "the secret leaves the address bar"
        assert "HttpOnly" in headers["set-cookie"]
        assert "SameSite=Strict" in headers["set-cookie"]
        cookie = headers["set-cookie"].split(";")[0]
        status, text, headers = get(port, "/board/", Cookie=cookie)
        assert status == 200
        assert "Nobody shares their progress yet" in text
        assert 'http-equiv="refresh" content="3"' in text
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        monkeypatch.setenv("LABKIT_CLASS", str(folder))
        monkeypatch.setenv("JUPYTERHUB_USER", "ada")
        journal.note("start", lab="23_ring_allreduce")
        journal.share()
        assert "ada" in get(port, "/board/", Cookie=cookie)[1]
        folder.rename(tmp_path / "away")
        status, text, _ = get(port, "/board/", Cookie=cookie)
        assert (status, "cannot be read" in text) == (503, True)
        listening = [
            place.laddr for place in psutil.Process(process.pid).net_connections() if place.status == "LISTEN"
        ]
        assert listening == [("127.0.0.1", port)]
    assert process.returncode == 0
    with pytest.raises(ConnectionRefusedError):
        get(port, "/")


def test_a_taken_port_and_a_short_secret_are_sentences(tmp_path, capsys, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert board.main([str(tmp_path), "--serve", str(port)]) == 1
    assert f"Port {port} cannot be taken here" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        board.main([str(tmp_path), "--serve", "99999"])
    assert "give a port" in capsys.readouterr().err
    monkeypatch.setenv("LABKIT_BOARD_TOKEN", "1234")
    assert board.main([str(tmp_path), "--serve"]) == 1
    assert "16 characters" in capsys.readouterr().err
    assert board.main([str(tmp_path / "none"), "--serve"]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_as_a_hubs_service_only_on_the_loopback_address(monkeypatch):
    monkeypatch.delenv("JUPYTERHUB_SERVICE_PREFIX", raising=False)
    with pytest.raises(NotHere, match="No JupyterHub started this"):
        board.hub_service(str)
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/services/board/")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")
    monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", "http://0.0.0.0:8899")
    with pytest.raises(LabError, match=r"http://0\.0\.0\.0:8899\. It is to be on the loopback"):
        board.hub_service(str)
    monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1:8899")
    monkeypatch.setitem(sys.modules, "jupyterhub.services.auth", None)  # the learners' Python has none
    with pytest.raises(NotHere, match="This Python has no jupyterhub"):
        board.hub_service(str)
