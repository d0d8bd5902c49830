#!/bin/sh
# Rewrite the locks with uv (`pip install uv`; installs nothing else): `sh env/lock.sh [--upgrade]`.
# Without --upgrade, versions stay where they fit. One line serves Python 3.10 to 3.13, by markers.
set -eu
cd "$(dirname "$0")/.."

compile() {
    uv pip compile --quiet --universal --python-version 3.10 --no-annotate "$@"
}

# torch names its own CUDA packages exactly; the others are for Windows and macOS.
LEFT_OUT="triton cuda-bindings cuda-pathfinder cuda-toolkit appnope colorama pywinpty
    nvidia-cublas nvidia-cuda-cupti nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft
    nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse nvidia-cusparselt-cu13 nvidia-nccl-cu13
    nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx"
# shellcheck disable=SC2046 # one option for each word
compile "$@" $(printf -- '--no-emit-package %s ' $LEFT_OUT) env/requirements.in -o env/requirements.txt \
    --custom-compile-command "sh env/lock.sh, from requirements.in, which says why each direct one is here"

# The hub's lock has hashes: of the wheels that Linux on x86-64 takes, and of what has no wheel.
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
touch "$new/kept.txt"
# What both have follows the learners' lock.
[ $# -gt 0 ] || sed '/--hash/d; s/ \\$//' slurm/hub/requirements.txt |
    awk -F == 'NR == FNR { shared[$1]; next } !($1 in shared)' env/requirements.txt - >"$new/kept.txt"
compile --format pylock.toml -c env/requirements.txt -c "$new/kept.txt" slurm/hub/requirements.in -o "$new/pylock.toml"
echo nbgitpuller==1.3.0 | compile --no-deps --format pylock.toml - -o "$new/pylock.without.toml"
python3 - "$new/pylock.toml" "$new/pylock.without.toml" >slurm/hub/requirements.txt <<'END'
import re
import sys
import tomllib

TAKEN = re.compile(r"(cp31[0-3]|cp3\d?-abi3|py3|py2\.py3)[^/]*-(manylinux[^/]*x86_64|any)[^/]*\.whl$")

print("# Every package of the hub with its exact version and hashes: written by env/lock.sh from requirements.in.")
for name in sys.argv[1:]:
    for package in tomllib.load(open(name, "rb"))["packages"]:
        wheels = [wheel for wheel in package.get("wheels", []) if TAKEN.search(wheel["url"])]
        marker = package.get("marker", "python_full_version >= '3.10'")
        pin = f"{package['name']}=={package['version']}"
        if marker != "python_full_version >= '3.10'":
            pin += f" ; {marker}"
        hashes = sorted(file["hashes"]["sha256"] for file in wheels or [package["sdist"]])
        print(" \\\n    ".join([pin, *(f"--hash=sha256:{one}" for one in hashes)]))
END
