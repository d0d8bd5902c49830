#!/usr/bin/env bash
# make mvapich2 [SOURCE=file] [DEVICE=nemesis, sock or mrail]: MVAPICH2 2.3.7, from its source, in .venv/mvapich2.
#
# It lies beside the MPI of the set-up, of which it changes nothing, and has MPICH's binary interface, so that
# the environment's mpi4py and Horovod run on either. A process runs on it when it is started by a launcher of
# its kind (.venv/mvapich2/bin/mpiexec, or srun --mpi=pmi2) with
#   LD_LIBRARY_PATH=.venv/mvapich2/lib   which comes before the RUNPATH of Horovod's extensions
#   MPI4PY_MPIABI=mpich                  or mpi4py's wheel opens MPICH by its path
#   MV2_ENABLE_AFFINITY=0                or a build for InfiniBand grants Horovod no threads
# .venv/mvapich2/installed.json is there when the library is complete and two ranks have run on it.
set -euo pipefail

PAGE=https://mvapich.cse.ohio-state.edu/download/mvapich/mv2
NAME=mvapich2-2.3.7-1.tar.gz
# OSU prints no checksums; those of its two archives are Spack's.
declare -A KNOWN=(
    [fdd971cf36d6476d007b5d63d19414546ca8a2937b66886f24a1d9ca154634e4]="OSU's of May 2022"
    [c39a4492f4be50df6100785748ba2894e23ce450a94128181d516da5757751ae]="OSU's of March 2022"
    [b2bb8db7e2c7b6b0b46d6dc384b334bc25b8a21be362f2385ac8886dcce8c240]="2.3.7-1 of the public repository"
)
# C of before 1999 in places: GCC 10 no longer merges variables that are defined twice, GCC 14 and Clang 16 stop
# at calls of undeclared functions and the like, GCC 15 reads C23 unless told otherwise.
FLAGS="-std=gnu11 -fcommon -Wno-error=implicit-function-declaration -Wno-error=implicit-int"
FLAGS+=" -Wno-error=int-conversion -Wno-error=incompatible-pointer-types"
OPTIONS=(--enable-threads=multiple --enable-shared --enable-silent-rules
    --disable-{fortran,cxx,static,omb,libxml2,maintainer-mode,dependency-tracking})
PREFIX=/hpdl-labs-mvapich2-prefix-to-be-replaced # what configure is told; nothing is ever there
BYTES_NEEDED=1500000000                          # unpacked, compiled, installed, and the copy in .venv

stop() {
    printf 'mvapich2: %s\n' "$1" >&2
    printf '  cure: %s\n' "${@:2}" >&2
    exit 1
}
by_hand="Fetch $NAME from $PAGE/ on any machine, then: make mvapich2 SOURCE=/path/to/$NAME"

source_file=
device=
for word in "$@"; do
    case $word in
    --source=*) source_file=$(realpath -s "${word#*=}") ;;
    --device=*) device=${word#*=} ;;
    *) stop "$word is unknown" "make mvapich2 [SOURCE=file] [DEVICE=nemesis, sock or mrail]" ;;
    esac
done

here=$(realpath "$(dirname "$0")")
cd "$here/../.."
target=$PWD/.venv/mvapich2
python=$PWD/.venv/bin/python
log=$PWD/.venv/setup-logs/mvapich2.log
[[ -e $python ]] || stop "$PWD/.venv is not there yet" "Type make mvapich2, which sets up first."
mkdir -p "${log%/*}"

# Without DEVICE: the one that is installed.
note=$target/installed.json
if [[ -z $device && -e $note ]]; then
    device=$(sed -n 's/.*"device": "\([a-z]*\)".*/\1/p' "$note")
fi
device=${device:-nemesis}
case ${device,,} in
nemesis) channel=(--with-device=ch3:nemesis:tcp) ;; # shared memory inside a node, TCP between nodes
sock) channel=(--with-device=ch3:sock) ;;           # TCP alone; a rank that waits sleeps
mrail) channel=(--with-device=ch3:mrail --with-rdma=gen2 --disable-mcast) ;; # InfiniBand between nodes
*) stop "DEVICE=$device is unknown" "There are nemesis (TCP between nodes), sock (TCP alone), mrail (InfiniBand)." ;;
esac
device=${device,,}
if [[ -n $source_file && ! -f $source_file ]]; then
    stop "SOURCE=$source_file is no file" "$by_hand"
fi

# The user's own flags would change the build behind the cache's back.
for name in $(compgen -e); do
    if [[ $name =~ ^(.*FLAGS|LIBS|CXX|FC|F77|MAKELEVEL|(MPICH|MPICHLIB|MV2|HYDRA)_.*)$ ]]; then
        unset "$name"
    fi
done
export LC_ALL=C CC=${CC:-cc}
managers=hydra
if command -v bison flex >/dev/null; then
    managers=hydra:mpirun
fi

# One build for each device, compiler and way to build; a second checkout takes it from the cache.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/hpdl-labs/mvapich2
mkdir -p "$cache/archives"
compiler=$("$CC" --version 2>/dev/null | head -n 1 || true)
machine="$compiler $(uname -m) $(getconf GNU_LIBC_VERSION 2>/dev/null || true)"
story="${channel[*]} ${OPTIONS[*]} $FLAGS $PREFIX $managers $machine"
key=$(cat "$here/sources.patch" - <<<"$story" | sha256sum | cut -c 1-24)
if [[ -e $note ]] && grep -q "\"$key\"" "$note"; then
    echo "already there: MVAPICH2 2.3.7, $device"
    exit 0
fi

look_round() {
    local missing=()
    for program in "$CC" make ar perl awk patch; do
        command -v "$program" >/dev/null || missing+=("$program")
    done
    local cure="On Debian and Ubuntu: apt-get install gcc libc6-dev make binutils perl mawk patch"
    if ((${#missing[@]})); then
        stop "not found, and MVAPICH2 must be compiled: ${missing[*]}" "$cure"
    fi
    if ! "$CC" -x c -fsyntax-only - <<<'#include <stdlib.h>' 2>/dev/null; then
        stop "the C library's headers (stdlib.h) are not found" "$cure"
    fi
    if [[ $device == mrail ]] && ! "$CC" -x c -fsyntax-only - <<<'#include <infiniband/verbs.h>' 2>/dev/null; then
        stop "InfiniBand's headers (infiniband/verbs.h) are not found" \
            "On Debian and Ubuntu: apt-get install libibverbs-dev. Without InfiniBand: make mvapich2 DEVICE=nemesis."
    fi
    if [[ $managers == hydra ]]; then
        echo "warning: without bison and flex mpirun_rsh is left out (apt-get install bison flex)"
    fi
    local free
    free=$(df --output=avail -B 1 "$cache" | tail -n 1)
    if ((free < BYTES_NEEDED)); then
        stop "$((free / 1000000)) MB are free in $cache, $((BYTES_NEEDED / 1000000)) are needed" "Free some space."
    fi
}

# The archive: SOURCE, or one that was fetched before, or OSU's. Sets source_file.
find_source() {
    if [[ -z $source_file ]]; then
        source_file=$cache/archives/$NAME
        if [[ ! -e $source_file ]]; then
            echo "$PAGE/$NAME is fetched …"
            "$python" - "$PAGE/$NAME" "$source_file.part" <<'PROGRAM' || stop "$PAGE cannot be reached" "$by_hand"
import shutil
import sys
import urllib.request

try:
    with urllib.request.urlopen(sys.argv[1], timeout=60) as answer, open(sys.argv[2], "wb") as file:
        shutil.copyfileobj(answer, file)
except OSError as error:
    sys.exit(str(error))
PROGRAM
            mv "$source_file.part" "$source_file"
        fi
    fi
    [[ -r $source_file ]] || stop "SOURCE=$source_file cannot be read" "Check who owns that file."
    local sum
    sum=$(sha256sum "$source_file" | cut -d ' ' -f 1)
    if [[ -z ${KNOWN[$sum]:-} ]]; then
        rm -f "$cache/archives/$NAME" # a download that is not what it should be is no use to the next call
        stop "SOURCE=$source_file is none of the archives of 2.3.7 that are known here: its SHA-256 is $sum" \
            "It may be damaged, or of another version. $by_hand"
    fi
    origin=${KNOWN[$sum]}
}

# Runs a command with its output in the log, in a group of processes that a signal to this script ends as a whole.
group=
logged() {
    setsid "$@" >>"$log" 2>&1 &
    group=$!
    local status=0
    wait $group || status=$?
    group=
    if ((status)); then
        tail -n 5 "$log" >&2
        stop "$1 failed" "Its whole story is in $log"
    fi
}
interrupted() {
    if [[ -n $group ]]; then
        kill -- -$group 2>/dev/null || true
        wait
    fi
    echo "mvapich2: interrupted; run it again, it begins that build anew" >&2
    exit 130
}
trap interrupted INT TERM HUP

compile() {
    local work=$cache/$key.work
    rm -rf "$work" # of a build that was killed
    trap 'rm -rf "$cache/$key.work"' EXIT
    mkdir "$work"
    tar -x -f "$source_file" -C "$work" --strip-components=1
    patch -s -p1 -F0 -d "$work" <"$here/sources.patch"
    echo "MVAPICH2 2.3.7 ($origin) for $device is compiled: some 10 minutes on 2 cores. Log: $log"
    local jobs
    jobs=$(grep -oE '\-j ?[0-9]+' <<<"${MAKEFLAGS:-}" | grep -oE '[0-9]+' || nproc)
    export MAKEFLAGS=
    : >"$log"
    cd "$work"
    logged ./configure --prefix=$PREFIX "${channel[@]}" --with-pm=$managers "${OPTIONS[@]}" CC="$CC" CFLAGS="$FLAGS"
    logged make -j "$jobs"
    logged make install DESTDIR="$work/stage"
    cd - >/dev/null
    find "$work/stage" -name '*.la' -delete              # libtool's notes on where the libraries lie
    sed -i "s|$FLAGS||" "$work/stage$PREFIX/bin/mpicc" # a learner's own programs need none of these
    mv "$work/stage$PREFIX" "$cache/$key"
}

exec 8>"$PWD/.venv/mvapich2.lock" # a second make mvapich2 of this checkout waits for the first
flock 8
exec 9>"$cache/$key.lock" # and who wants the same build meanwhile for that one
flock --nonblock 9 || { echo "MVAPICH2 is being built elsewhere; waiting for it" && flock 9; }
if [[ -d $cache/$key ]]; then
    echo "compiled before with the same settings: taken from $cache/$key"
else
    look_round
    find_source
    compile
fi

rm -rf "$target.new"
cp -a "$cache/$key" "$target.new"
# mpicc, pkg-config's file: texts alone. Programs find the library by LD_LIBRARY_PATH.
grep -rlIF $PREFIX "$target.new" | xargs -r sed -i "s|$PREFIX|$target|g"
"$python" -m env.mvapich2.verify "$target.new" "$device" "$key" "$log"
rm -rf "$target"
mv "$target.new" "$target"
echo "ready: $target"
