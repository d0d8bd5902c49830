#!/usr/bin/env bash
# bash env/offline.sh FOLDER: all that `make setup` fetches, into a folder, for a machine without a network.
#
# It runs after `make setup`, on a machine with a network and with the Python of the other one
# (PYTHON=python3.12). GPU_OPERATIONS=NCCL fetches what a GPU machine needs. There, with the folder and a
# checkout:
#
#     PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER make setup
set -euo pipefail

folder=${1:?"Name the folder to write: bash env/offline.sh FOLDER"}
root=$(realpath "$(dirname "$0")/..")
if [[ ! -e $root/.venv/setup-stamp.json ]]; then
    echo "There is no set-up here yet: make setup, then again." >&2
    exit 1
fi
mkdir -p "$folder"
folder=$(realpath "$folder")
cd "$root"
python=.venv/bin/python
pip=("$python" -m pip --disable-pip-version-check download --dest "$folder")

# The lock and Horovod's pinned sources, as the set-up itself would ask for them, with its settings.
# MPI_HOME is not among them: the other machine may have no MPI.
settings=$("$python" - "$folder/lock.txt" "$folder/sources.txt" <<'PROGRAM'
import sys
from pathlib import Path

from env.horovod import build
from env.install import environment

lock, sources = map(Path, sys.argv[1:])
chosen = environment.settings(Path(".venv"))
chosen = {name: chosen[name] for name in ("GPU_OPERATIONS", "TORCH_INDEX") if name in chosen}
lock.write_text(environment.requirements(chosen))
sources.write_text(f"horovod=={build.RELEASE} --hash=sha256:{build.SHA256}\n")
print(chosen.get("TORCH_INDEX", ""))
print(environment.in_words({name: chosen[name] for name in chosen if name != "TORCH_INDEX"}))
PROGRAM
)
{ read -r index; read -r gpu; } <<< "$settings" || true # without GPU_OPERATIONS there is no second line

"${pip[@]}" --only-binary :all: -r "$folder/lock.txt" ${index:+--extra-index-url "$index"}
HOROVOD_SKIP_COMPILE=1 "${pip[@]}" --no-deps --no-binary :all: --no-build-isolation --require-hashes \
    -r "$folder/sources.txt"
# mpi4py's sources, too: beside a site's MPI (MPI_HOME) the set-up compiles it.
"${pip[@]}" --no-deps --no-binary :all: "$(grep '^mpi4py==' "$folder/lock.txt")"
echo "Bring $folder along. There: PIP_NO_INDEX=1 PIP_FIND_LINKS=$folder make setup $gpu"
