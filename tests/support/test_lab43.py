"""Lab 43: the logs that it shows."""

import re

from support import lab43


def test_every_log_tells_its_source_and_hides_its_hosts():
    files = list(lab43.LOGS.glob("*.log"))
    assert len(files) == 8
    for file in files:
        text = file.read_text()
        assert re.search(r"^# Source: https://github\.com/\S+", text, re.MULTILINE), file
        for address in re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", text):
            assert address.startswith("192.0.2."), (file, address)  # RFC 5737: for documentation
