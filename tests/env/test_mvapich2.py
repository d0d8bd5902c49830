"""`make mvapich2`: its cache, what an interrupt leaves, and, where its source is at hand, all of
it.

What it refuses is in tests/test_bad_inputs.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.helpers import awaited, marked, program, ran

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared/data/mvapich2-2.3.7.tar.xz"
SOURCE = Path(os.environ.get("MVAPICH2_SOURCE") or DATA)
HELLO = """
#include <mpi.h>
#include <stdio.h>
int main(int count, char **words) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, level, rank;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Get_library_version(text, &length);
    printf("%.8s %d %s\\n", text, rank, level == MPI_THREAD_MULTIPLE ? "MULTIPLE" : "less");
    MPI_Finalize();
    return 0;
}
"""
# A library in small: configure writes the prefix that it is told into what is installed.
CONFIGURE = """for word; do case $word in --prefix=*) prefix=${word#*=};; CFLAGS=*) flags=${word#*=};; esac; done
printf 'all:\\n\\t@test ! -e "$(PAUSE)" || { touch "$(PAUSE)"; sleep 300; }\\n' >Makefile
printf 'install:\\n\\tmkdir -p "$(DESTDIR)%s/bin"\\n' $prefix >>Makefile
printf '\\tcp mpicc mpiexec "$(DESTDIR)%s/bin"\\n' $prefix >>Makefile
echo "gcc -I$prefix/include $flags" >mpicc
"""
# Its launcher and two ranks: they say by what and on which library they ran, elsewhere with
# ELSEWHERE.
MPIEXEC = """[ "$5" = torch ] && by=MPI || by=MVAPICH2
echo '{"what": "x", "by": "'$by'", "libraries": {"MPI": ["'"${ELSEWHERE-${0%/bin/*}}/lib/libmpi.so"'"]}}'
"""


@pytest.fixture
def in_venv(checkout) -> Path:
    """That checkout with this very environment in its .venv; what is new there goes to the checkout
    alone."""
    (checkout / ".venv").mkdir()
    for entry in Path(sys.prefix).iterdir():
        if not entry.name.startswith(("mvapich2", "setup")):
            (checkout / ".venv" / entry.name).symlink_to(entry)
    # Of the environment, Python asks this file's folder for its packages: it may not be a link.
    (checkout / ".venv" / "pyvenv.cfg").unlink()
    shutil.copy(Path(sys.prefix, "pyvenv.cfg"), checkout / ".venv")
    return checkout


@pytest.fixture
def small(in_venv, tmp_path, monkeypatch) -> list[str]:
    """What `make mvapich2` runs there, for the small library; its cache is the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sources = tmp_path / "mvapich2-small"
    program(sources / "configure", CONFIGURE)
    program(sources / "mpiexec", MPIEXEC)
    with tarfile.open(tmp_path / "small.tar.gz", "w:gz") as tar:
        tar.add(sources, sources.name)
    folder = in_venv / "env" / "mvapich2"
    script = (folder / "build.sh").read_text()
    digest = hashlib.sha256((tmp_path / "small.tar.gz").read_bytes()).hexdigest()
    known = "declare -A KNOWN=("
    (folder / "build.sh").write_text(script.replace(known, f"{known}[{digest}]=small"))
    (folder / "sources.patch").write_text("")
    return ["bash", str(folder / "build.sh"), f"--source={tmp_path / 'small.tar.gz'}"]


def run(command: list[str], timeout: float = 60, **env: str) -> CompletedProcess:
    return ran(*command, env=os.environ | env, timeout=timeout)


def test_a_build_is_kept_for_others_and_knows_its_place(small, in_venv, tmp_path):
    done = run(small, CFLAGS="-theirs")
    assert done.returncode == 0, done.stderr
    mpicc = in_venv / ".venv" / "mvapich2" / "bin" / "mpicc"
    assert mpicc.read_text().strip() == f"gcc -I{in_venv}/.venv/mvapich2/include"
    again = run(small[:2])  # without SOURCE: what is there will do
    assert again.stdout == "already there: MVAPICH2 2.3.7, nemesis\n"
    shutil.rmtree(mpicc.parents[1])
    taken = run(small[:2])
    assert "compiled before with the same settings" in taken.stdout
    assert mpicc.exists()
    assert "is compiled: some" in run([*small, "--device=SOCK"]).stdout
    cache = tmp_path / "cache/hpdl-labs/mvapich2"
    assert len([folder for folder in cache.iterdir() if folder.is_dir()]) == 3


def test_ranks_that_ran_on_another_library_are_told(small, in_venv):
    done = run(small, ELSEWHERE="/usr")
    assert done.returncode == 1
    assert "2 ranks with mpi4py were to run on MVAPICH2 below" in done.stderr
    assert not (in_venv / ".venv" / "mvapich2").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_process_and_no_build(small, in_venv, tmp_path, number):
    pause = tmp_path / "pause"
    pause.touch()
    before = pause.stat().st_mtime_ns
    mark = f"LABKIT_MVAPICH2_TEST={tmp_path}"
    env = os.environ | {"PAUSE": str(pause), "LABKIT_MVAPICH2_TEST": str(tmp_path)}
    process = subprocess.Popen(small, env=env, start_new_session=True)
    awaited(lambda: pause.stat().st_mtime_ns > before, 60)
    os.killpg(process.pid, number)  # as a terminal does
    assert process.wait(30) != 0
    awaited(lambda: not marked(mark), 10)
    cache = tmp_path / "cache/hpdl-labs/mvapich2"
    assert [folder.name for folder in cache.iterdir() if folder.is_dir()] == ["archives"]
    assert not (in_venv / ".venv" / "mvapich2").exists()


def test_without_a_way_to_the_archive(small, tmp_path):
    nowhere = dict.fromkeys(("https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = run(small[:2], **nowhere, no_proxy="", NO_PROXY="")
    assert done.returncode == 1
    assert "cannot be reached" in done.stderr
    assert "make mvapich2 SOURCE=/path/to/mvapich2-2.3.7-1.tar.gz" in done.stderr


def test_what_was_fetched_and_is_damaged_is_removed(small, tmp_path):
    fetched = tmp_path / "cache/hpdl-labs/mvapich2/archives/mvapich2-2.3.7-1.tar.gz"
    fetched.parent.mkdir(parents=True)
    fetched.write_text("<html>Please log in to this hotel's network</html>")
    done = run(small[:2])
    assert done.returncode == 1
    assert "none of the archives of 2.3.7 that are known here" in done.stderr
    assert not fetched.exists()
    fetched.write_text("fetched before")
    other = tmp_path / "another version.tar.gz"
    other.write_text("MVAPICH2 2.2")
    assert run([*small[:2], f"--source={other}"]).returncode == 1
    assert fetched.exists(), "what was fetched is not what was named"


def test_a_folder_with_a_blank_is_refused_before_anything_is_compiled(small, in_venv):
    moved = in_venv.rename(in_venv.with_name("check out"))
    done = run(["bash", str(moved / "env" / "mvapich2" / "build.sh")])
    assert (done.returncode, "takes no path with a blank" in done.stderr) == (1, True)


@pytest.mark.skipif(
    not SOURCE.exists(), reason="MVAPICH2's source is not at hand (MVAPICH2_SOURCE=file)"
)
@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_it_is_built_and_verified(in_venv, tmp_path):
    """In the user's own cache, so that only the first run of the tests compiles."""
    command = ["bash", str(in_venv / "env/mvapich2/build.sh"), f"--source={SOURCE}"]
    done = run(command, timeout=2900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mpi4py and Horovod on two ranks: sums right, one MPI library." in done.stdout
    target = in_venv / ".venv" / "mvapich2"
    note = json.loads((target / "installed.json").read_text(encoding="utf-8"))
    assert note["device"] == "nemesis"
    (tmp_path / "hello.c").write_text(HELLO, encoding="utf-8")
    run([str(target / "bin" / "mpicc"), "-o", str(tmp_path / "hello"), str(tmp_path / "hello.c")])
    hello = [str(target / "bin" / "mpiexec"), "-n", "2", str(tmp_path / "hello")]
    said = run(hello, timeout=120, MV2_ENABLE_AFFINITY="0").stdout
    assert sorted(said.splitlines()) == ["MVAPICH2 0 MULTIPLE", "MVAPICH2 1 MULTIPLE"]
