#!/usr/bin/env bash
# make container [EDITION=instructors] [ARCHIVE=labs.tar.gz] [BASE=image] [OPTIONS="more words for the builder"]:
# the labs of the last commit as the image hpdl-labs; docs/CONTAINER.md is its page.
#
# GPU_OPERATIONS and TORCH_INDEX, in the environment, are for the image; this checkout keeps its own.
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")/../.."
IMAGE=hpdl-labs
# What an image for GPUs begins with: nvcc of a CUDA 12, and the Python of Ubuntu 22.04.
GPU_BASE=docker.io/nvidia/cuda:12.8.1-devel-ubuntu22.04
gpu=${GPU_OPERATIONS:-}
index=${TORCH_INDEX:-}

stop() {
    printf 'container: %s\n  cure: %s\n' "$1" "$2" >&2
    exit 1
}

edition=learners
base=
archive=
while (($#)) && [[ $1 != --options ]]; do
    case $1 in
    --edition=learners | --edition=instructors) edition=${1#*=} ;;
    --archive=*.tar | --archive=*.tar.gz) archive=${1#*=} ;;
    --base=*) base=${1#*=} ;;
    *) stop "${1#--} will not do" "EDITION is learners or instructors, ARCHIVE a name that ends in .tar or .tar.gz." ;;
    esac
    shift
done
options=("${@:2}")

if [[ -e EDITION.json ]]; then
    stop "this is an unpacked archive, and \`make container\` makes the image of a checkout's last commit" \
        "Here, type: podman build -f env/Containerfile -t $IMAGE ."
fi
if [[ -n $gpu && -n $index ]]; then
    stop "GPU_OPERATIONS=$gpu needs PyTorch's CUDA build, and TORCH_INDEX=$index names another place" \
        "Leave TORCH_INDEX out."
fi
builder=
for name in podman docker buildah; do
    if "$name" info >/dev/null 2>&1; then # docker's command, say, is nothing without its daemon
        builder=$name
        break
    fi
done
if [[ -z $builder ]]; then
    stop "an image is built by podman, docker or buildah, and none of them answers \`info\` here" \
        "Start Docker or Podman Desktop, or its service; or install one: sudo apt-get install podman"
fi

# What the image is made of: the files of `make release`, and the wheels of Horovod that were compiled here.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
env -u PYTHON -u GPU_OPERATIONS -u TORCH_INDEX make --no-print-directory setup
.venv/bin/python -m authoring release --out "$scratch"
tar -x -f "$scratch"/*-"$edition"-*.tar.gz -C "$scratch"
context=$(echo "$scratch"/*-"$edition"-*/)
for wheel in "${XDG_CACHE_HOME:-$HOME/.cache}"/hpdl-labs/wheels/*/horovod-*.whl; do
    folder=$context/build/wheels/$(basename "$(dirname "$wheel")")
    mkdir -p "$folder"
    cp "$wheel" "$folder"
done

sections="setup tabletop container"
if [[ $edition == instructors ]]; then
    sections+=" tests"
fi
if [[ -n $gpu ]]; then
    base=${base:-$GPU_BASE}
fi
arguments=(--build-arg="SECTIONS=$sections")
for argument in "BASE=$base" "TORCH_INDEX=$index" "GPU_OPERATIONS=$gpu"; do
    if [[ ${argument#*=} ]]; then
        arguments+=(--build-arg="$argument")
    fi
done
SECONDS=0
"$builder" build -f "$context/env/Containerfile" -t $IMAGE "${arguments[@]}" "${options[@]}" "$context"
echo "$IMAGE: the $edition' edition, built by $builder in $SECONDS s"

# Podman and buildah call it localhost/NAME. Pushed, not saved, it has in the archive the plain name as well, by
# which alone Docker finds it.
save() {
    if [[ $builder == docker ]]; then
        docker save $IMAGE
    else
        "$builder" push --quiet $IMAGE docker-archive:/dev/stdout:$IMAGE:latest
    fi
}
if [[ -n $archive ]]; then
    pack=cat
    if [[ $archive == *.gz ]]; then
        pack=gzip
    fi
    if ! save | $pack >"$archive.part"; then
        rm -f "$archive.part"
        stop "$archive could not be written" "See above; is the disk full?"
    fi
    mv "$archive.part" "$archive"
    echo "$archive: a laptop takes it by podman load -i $(basename "$archive")"
fi

starter=${builder/buildah/podman}
devices=
if [[ -n $gpu ]]; then
    devices="--device nvidia.com/gpu=all "
    [[ $starter == podman ]] || devices="--gpus all "
fi
echo "JupyterLab at the first lab:"
# Memory that ranks share: /dev/shm has 64 MB in a container unless more is asked for.
echo "  $starter run --rm -it $devices--shm-size=1g -p 127.0.0.1:8888:8888 -v hpdl-labs:/home/learner $IMAGE"
