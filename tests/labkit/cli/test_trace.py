"""`labkit trace`: a trace is served to its user alone; tests.test_bad_inputs has what is none."""

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import psutil
import pytest
from labkit.cli import main, trace

EVENT = {"name": "work", "ph": "X", "ts": 1.0, "dur": 2.0, "pid": 1, "tid": 1}


def test_packed_traces_and_horovods_timelines_are_read(tmp_path):
    packed, timeline = tmp_path / "a.json.gz", tmp_path / "timeline.json"
    packed.write_bytes(gzip.compress(json.dumps({"traceEvents": [EVENT]}).encode()))
    timeline.write_text("[\n" + json.dumps(EVENT) + ",\n")  # its job was killed
    assert trace.read(packed) == trace.read(timeline) == {"traceEvents": [EVENT]}


def test_the_viewer_serves_the_trace_to_this_machine_and_to_who_has_the_key(tmp_path, capsys):
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": [EVENT]}))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["trace", str(file), "--port", str(port), "--no-browser"]
        assert main(words) == 1
    assert "in use" in capsys.readouterr().err
    command = [sys.executable, "-m", "labkit", *words]
    viewer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = re.search(rf"http://127.0.0.1:{port}/\?key=\S+", viewer.stdout.readline())[0]
        sockets = psutil.Process(viewer.pid).net_connections()
        places = [tuple(each.laddr) for each in sockets if each.status == "LISTEN"]
        assert places == [("127.0.0.1", port)]
        for path in ("localtrace", "file_info", "", "?key=", "?key=x", "x/localtrace"):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=20)
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(address, timeout=20) as answer:
            assert "Perfetto" in answer.read().decode()
        with browser.open(f"http://127.0.0.1:{port}/localtrace", timeout=20) as answer:
            assert json.load(answer) == {"traceEvents": [EVENT]}
        os.kill(viewer.pid, signal.SIGINT)
        assert viewer.wait(20) == 130
        assert viewer.stderr.read() == ""
    finally:
        viewer.kill()
        viewer.communicate()
