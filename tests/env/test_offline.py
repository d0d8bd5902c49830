"""env/offline.sh: what it asks pip for, by a pip that writes down its words instead of fetching."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from env.horovod import build

PROGRAM = """#!/bin/sh
[ "$1" = - ] && exec {python} "$@"
echo "$@"
"""


@pytest.mark.parametrize(
    ("gpu", "torch"), [("", "tensorflow-cpu=="), ("NCCL", "nvidia-cuda-nvcc-cu12==")]
)
def test_the_lock_and_the_sources_are_asked_for(checkout, tmp_path, gpu, torch):
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "setup-stamp.json").touch()
    python = checkout / ".venv" / "bin" / "python"
    python.write_text(PROGRAM.format(python=sys.executable))
    python.chmod(0o755)
    folder = tmp_path / "folder"
    command = ["bash", str(checkout / "env" / "offline.sh"), str(folder)]
    env = {**os.environ, "GPU_OPERATIONS": gpu}
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert torch in (folder / "lock.txt").read_text()
    sources = (folder / "sources.txt").read_text()
    assert sources == f"horovod=={build.RELEASE} --hash=sha256:{build.SHA256}\n"
    packages, horovod, mpi4py, how = said.splitlines()
    assert f"--only-binary :all: -r {folder}/lock.txt" in packages
    assert f"--require-hashes -r {folder}/sources.txt" in horovod
    assert "--no-binary :all: mpi4py==" in mpi4py
    assert f"PIP_NO_INDEX=1 PIP_FIND_LINKS={folder} make setup" in how
