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

stop() {
    printf 'mvapich2: %s\n  cure: %s\n' "$1" "$2" >&2
    exit 1
}
by_hand="Fetch $NAME from $PAGE/ on any machine, then: make mvapich2 SOURCE=/path/to/$NAME"

here=$(realpath "$(dirname "$0")")
root=$(realpath "$here/../..")
target=$root/.venv/mvapich2
python=$root/.venv/bin/python
log=$root/.venv/setup-logs/mvapich2.log
note=$target/installed.json
[[ -e $python ]] || stop "$root/.venv is not there yet" "Type make mvapich2, which sets up first."
mkdir -p "${log%/*}"

source_file=
device=nemesis
if [[ -e $note ]]; then # without DEVICE: the one that is installed
    device=$(sed -n 's/.*"device": "\([a-z]*\)".*/\1/p' "$note")
fi
for word in "$@"; do
    case $word in
    --source=*) source_file=$(realpath -s "${word#*=}") ;;
    --device=*) device=${word#*=} ;;
    *) stop "$word is unknown" "make mvapich2 [SOURCE=file] [DEVICE=nemesis, sock or mrail]" ;;
    esac
done
device=${device,,}
case $device in
nemesis) channel=(--with-device=ch3:nemesis:tcp) ;; # shared memory inside a node, TCP between nodes
sock) channel=(--with-device=ch3:sock) ;;           # TCP alone; a rank that waits sleeps
mrail) channel=(--with-device=ch3:mrail --with-rdma=gen2 --disable-mcast) ;; # InfiniBand between nodes
*) stop "DEVICE=$device is unknown" "There are nemesis (TCP between nodes), sock (TCP alone), mrail (InfiniBand)." ;;
esac
if [[ $target == *' '* ]]; then
    stop "MVAPICH2 cannot be used from $target: mpi4py takes no path with a blank" \
        "Move the checkout to a folder without one, and set up again there."
fi
if [[ -n $source_file && ! -r $source_file ]]; then
    stop "SOURCE=$source_file cannot be read" "$by_hand"
fi

jobs=$(grep -oE '\-j ?[0-9]+' <<<"${MAKEFLAGS:-}" | grep -oE '[0-9]+' || nproc)
# The user's own flags would change the build behind the cache's back, and another launcher's variables the ranks.
ours='.*FLAGS|LIBS|CXX|FC|F77|MAKELEVEL|PYTHONPATH|(MPICH|MPICHLIB|MV2|HYDRA|HOROVOD|OMPI|PMI|PMIX|SLURM)_.*'
for name in $(compgen -e); do
    if [[ $name =~ ^($ours)$ ]]; then
        unset "$name"
    fi
done
export LC_ALL=C CC=${CC:-cc}
managers=hydra
if command -v bison >/dev/null && command -v flex >/dev/null; then
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
    if ((${#missing[@]})); then
        stop "not found, and MVAPICH2 must be compiled: ${missing[*]}" \
            "On Debian and Ubuntu: apt-get install gcc libc6-dev make binutils perl mawk patch"
    fi
    if [[ $device == mrail ]] && ! "$CC" -x c -fsyntax-only - <<<'#include <infiniband/verbs.h>' 2>/dev/null; then
        stop "InfiniBand's headers (infiniband/verbs.h) are not found" \
            "On Debian and Ubuntu: apt-get install libibverbs-dev. Without InfiniBand: make mvapich2 DEVICE=nemesis."
    fi
    if [[ $managers == hydra ]]; then
        echo "warning: without bison and flex mpirun_rsh is left out (apt-get install bison flex)"
    fi
}

# The archive: SOURCE, or one that was fetched before, or OSU's. Sets source_file.
find_source() {
    local fetched=$cache/archives/$NAME
    if [[ -z $source_file ]]; then
        source_file=$fetched
    fi
    if [[ ! -e $source_file ]]; then
        echo "$PAGE/$NAME is fetched …"
        "$python" -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' \
            "$PAGE/$NAME" "$fetched.part" 2>>"$log" || stop "$PAGE cannot be reached" "$by_hand"
        mv "$fetched.part" "$fetched"
    fi
    local sum
    sum=$(sha256sum "$source_file" | cut -d ' ' -f 1)
    if [[ -z ${KNOWN[$sum]:-} ]]; then
        # A download that is not what it should be is no use to the next call.
        [[ $source_file != "$fetched" ]] || rm -f "$fetched"
        stop "SOURCE=$source_file is none of the archives of 2.3.7 that are known here: its SHA-256 is $sum" \
            "It may be damaged, or of another version. $by_hand"
    fi
}

logged() {
    "$@" >>"$log" 2>&1 || {
        tail -n 5 "$log" >&2
        stop "$1 failed" "Its whole story is in $log; the disk may be full (1.5 GB are needed)."
    }
}

compile() {
    local work=$cache/$key.work
    rm -rf "$work" # of a build that was killed
    trap 'rm -rf "$cache/$key.work"' EXIT
    mkdir "$work"
    tar -x -f "$source_file" -C "$work" --strip-components=1
    patch -s -p1 -F0 -d "$work" <"$here/sources.patch"
    echo "MVAPICH2 2.3.7 for $device is compiled: some 10 minutes on 2 cores. Log: $log"
    cd "$work"
    logged ./configure --prefix=$PREFIX "${channel[@]}" --with-pm=$managers "${OPTIONS[@]}" CC="$CC" CFLAGS="$FLAGS"
    logged make -j "$jobs"
    logged make install DESTDIR="$work/stage"
    cd "$root"
    find "$work/stage" -name '*.la' -delete              # libtool's notes on where the libraries lie
    sed -i "s|$FLAGS||" "$work/stage$PREFIX/bin/mpicc" # a learner's own programs need none of these
    mv "$work/stage$PREFIX" "$cache/$key"
}

# Two ranks add with mpi4py or torch's Horovod; the library below $target.new, and no other, is to carry them.
two_ranks() {
    logged timeout 180 env MPI4PY_MPIABI=mpich MV2_ENABLE_AFFINITY=0 OMP_NUM_THREADS=1 \
        "LD_LIBRARY_PATH=$target.new/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        "$target.new/bin/mpiexec" -n 2 "$python" "$root/env/install/verify_ranks.py" "$1"
    local answer
    answer=$(grep '^{"what"' "$log" | tail -n 1 || true)
    if [[ $answer != *"\"MPI\": [\"$(realpath "$target.new")/"* || $answer != *"\"by\": \"$2"* ]]; then
        stop "2 ranks with $1 were to run on $2 below $target, and did not" "Their answer is in $log"
    fi
}

exec 8>"$root/.venv/mvapich2.lock" # a second make mvapich2 of this checkout waits for the first
flock 8
: >"$log"
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
two_ranks mpi4py MVAPICH2
two_ranks torch MPI
printf '{"device": "%s", "key": "%s"}\n' "$device" "$key" >"$target.new/installed.json"
rm -rf "$target"
mv "$target.new" "$target"
echo "mpi4py and Horovod on two ranks: sums right, one MPI library. Ready: $target"
