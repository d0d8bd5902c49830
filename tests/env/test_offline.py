"""env/offline.sh: what it asks pip for, by a pip that writes down its words instead of fetching."""

from __future__ import annotations

import json
import os
import sys

import pytest

from env.horovod import build
from tests.helpers import program, ran

PROGRAM = """[ "$1" = - ] && exec {python} "$@"
echo "$@"
"""


@pytest.mark.parametrize(
    ("kept", "gpu", "torch", "words"),
    [
        ({}, "", "tensorflow-cpu==", ""),
        ({}, "NCCL", "nvidia-cuda-nvcc-cu12==", "GPU_OPERATIONS=NCCL"),
        ({"GPU_OPERATIONS": "NCCL MPI"}, "", "nvidia-cuda-nvcc", 'GPU_OPERATIONS="NCCL MPI"'),
        ({"TORCH_INDEX": "https://cpu", "MPI_HOME": "/opt/mpi"}, "", "tensorflow-cpu==", ""),
    ],
)
def test_the_lock_and_the_sources_are_asked_for(checkout, tmp_path, kept, gpu, torch, words):
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "setup-stamp.json").touch()
    (checkout / ".venv" / "settings.json").write_text(json.dumps(kept))
    program(checkout / ".venv" / "bin" / "python", PROGRAM.format(python=sys.executable))
    folder = tmp_path / "folder"
    env = {**os.environ, "GPU_OPERATIONS": gpu}
    said = ran("bash", checkout / "env" / "offline.sh", folder, env=env).stdout
    assert torch in (folder / "lock.txt").read_text()
    sources = (folder / "sources.txt").read_text()
    assert sources == f"horovod=={build.RELEASE} --hash=sha256:{build.SHA256}\n"
    packages, horovod, mpi4py, how = said.splitlines()
    assert f"--only-binary :all: -r {folder}/lock.txt" in packages
    assert packages.endswith("--extra-index-url https://cpu") == ("TORCH_INDEX" in kept)
    assert f"--require-hashes -r {folder}/sources.txt" in horovod
    assert "--no-binary :all: mpi4py==" in mpi4py
    assert how.endswith(f"PIP_NO_INDEX=1 PIP_FIND_LINKS={folder} make setup {words}")
