"""env/offline.sh: what it asks pip for, by a pip that writes down its words instead of fetching."""

from __future__ import annotations

import os
import sys

import pytest

from env.horovod import build
from tests.helpers import program, ran

PROGRAM = """[ "$1" = - ] && exec {python} "$@"
echo "$@"
"""


@pytest.mark.parametrize(
    ("gpu", "torch"), [("", "tensorflow-cpu=="), ("NCCL", "nvidia-cuda-nvcc-cu12==")]
)
def test_the_lock_and_the_sources_are_asked_for(checkout, tmp_path, gpu, torch):
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "setup-stamp.json").touch()
    program(checkout / ".venv" / "bin" / "python", PROGRAM.format(python=sys.executable))
    folder = tmp_path / "folder"
    env = {**os.environ, "GPU_OPERATIONS": gpu}
    said = ran("bash", checkout / "env" / "offline.sh", folder, env=env).stdout
    assert torch in (folder / "lock.txt").read_text()
    sources = (folder / "sources.txt").read_text()
    assert sources == f"horovod=={build.RELEASE} --hash=sha256:{build.SHA256}\n"
    packages, horovod, mpi4py, how = said.splitlines()
    assert f"--only-binary :all: -r {folder}/lock.txt" in packages
    assert f"--require-hashes -r {folder}/sources.txt" in horovod
    assert "--no-binary :all: mpi4py==" in mpi4py
    assert f"PIP_NO_INDEX=1 PIP_FIND_LINKS={folder} make setup" in how
