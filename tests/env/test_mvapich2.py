"""`make mvapich2`: what it refuses, what its cache goes by; where its source is at hand, the whole of it."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from env.horovod.edit import EditError
from env.install import steps
from env.mvapich2 import archive, build, edits, needs, prefix, sequence

ROOT = Path(__file__).resolve().parents[2]
OSU = archive.KNOWN[0]
SOURCE = Path(os.environ.get("MVAPICH2_SOURCE") or ROOT.parent / "shared/data/mvapich2-2.3.7.tar.xz")
needs_source = pytest.mark.skipif(
    not SOURCE.exists(), reason="MVAPICH2's source is not at hand (MVAPICH2_SOURCE=file names it)"
)
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


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """A cache of the test's own; the folder is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return archive.cache_root()


@pytest.fixture
def step(tmp_path) -> steps.Step:
    return steps.Step(1, 1, "A test", tmp_path / "step.log")


@pytest.fixture
def in_venv(checkout) -> Path:
    """That checkout with this very environment in its .venv; what is new there goes to the checkout alone."""
    (checkout / ".venv").mkdir()
    for entry in Path(sys.prefix).iterdir():
        if not entry.name.startswith(("mvapich2", "setup")):
            (checkout / ".venv" / entry.name).symlink_to(entry)
    # Of the environment, Python asks this file's folder for its packages: it may not be a link.
    (checkout / ".venv" / "pyvenv.cfg").unlink()
    shutil.copy(Path(sys.prefix, "pyvenv.cfg"), checkout / ".venv")
    return checkout


def command(root: Path, *arguments: str) -> list[str]:
    return [str(root / ".venv" / "bin" / "python"), "-m", "env.mvapich2", *arguments]


def install(root: Path, *arguments: str, timeout: float = 120, **env: str) -> subprocess.CompletedProcess:
    """Run what `make mvapich2` runs, in that checkout."""
    return subprocess.run(
        command(root, *arguments),
        cwd=root,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def test_without_network_and_without_source(step, monkeypatch):
    monkeypatch.setattr(archive, "FOLDER", "http://127.0.0.1:9/")  # nobody listens there
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(steps.StepFailed, match="no MVAPICH2 source here, .* cannot be reached") as failure:
        archive.fetch(step)
    assert archive.PAGE in failure.value.cure
    assert f"make mvapich2 SOURCE=/path/to/{OSU.name}" in failure.value.cure


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A real server in the place of OSU's; the folder of its files."""
    folder = tmp_path / "page"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *_):
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(archive, "FOLDER", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setenv("no_proxy", "*")
    yield folder
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_download_is_checked_and_kept(page, step, cache, monkeypatch):
    (page / OSU.name).write_bytes(b"the archive")
    small = archive.Archive(OSU.name, hashlib.sha256(b"the archive").hexdigest(), "a test")
    monkeypatch.setattr(archive, "OFFERED", small)
    monkeypatch.setattr(archive, "KNOWN", (small,))
    assert archive.in_cache() is None
    assert archive.fetch(step) == (cache / "archives" / OSU.name, small)
    assert archive.in_cache() == (cache / "archives" / OSU.name, small)


def test_a_download_with_another_checksum_leaves_nothing(page, step, cache):
    (page / OSU.name).write_bytes(b"<html>Please log in to this hotel's network</html>")
    with pytest.raises(steps.StepFailed, match="another checksum than it should") as failure:
        archive.fetch(step)
    assert archive.PAGE in failure.value.cure
    assert list((cache / "archives").iterdir()) == []


def test_a_damaged_archive_in_the_cache_is_removed(cache):
    file = cache / "archives" / OSU.name
    file.parent.mkdir(parents=True)
    file.write_bytes(b"half of it")
    assert archive.in_cache() is None
    assert not file.exists()


def test_an_archive_of_something_else(tmp_path):
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("other/readme"), io.BytesIO())
    with pytest.raises(steps.StepFailed, match="holds no mvapich2-"):
        archive.unpack(tmp_path / "other.tar.gz", tmp_path / "unpacked")
    (tmp_path / "broken.tar.gz").write_bytes(b"no archive at all")
    with pytest.raises(steps.StepFailed, match="cannot be unpacked"):
        archive.unpack(tmp_path / "broken.tar.gz", tmp_path / "unpacked")


def test_the_key_goes_by_archive_device_compiler_and_machine(monkeypatch):
    monkeypatch.setattr(needs, "compiler_version", lambda: "cc 12")
    monkeypatch.setattr(needs, "missing_for_mpirun_rsh", lambda: [])
    keys = [build.key(source, device) for source in archive.KNOWN for device in build.DEVICES]
    for module, name, value in (
        (needs, "compiler_version", lambda: "cc 14"),
        (needs, "missing_for_mpirun_rsh", lambda: [needs.FOR_MPIRUN_RSH["flex"]]),
        (build.platform, "machine", lambda: "aarch64"),
        (build, "FLAGS", (*build.FLAGS, "-O0")),
        (build, "OPTIONS", build.OPTIONS[1:]),
        (edits, "EDITS", edits.EDITS[1:]),
        (prefix, "LAYOUT", prefix.LAYOUT + 1),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(module, name, value)
            keys.append(build.key(OSU, "nemesis"))
    assert len(set(keys)) == len(keys)
    assert build.key(OSU, "nemesis") == keys[0]


def test_a_newer_compiler_or_system_leaves_what_is_installed(monkeypatch):
    before = build.recipe(OSU, "nemesis")
    monkeypatch.setattr(needs, "compiler_version", lambda: "another")
    monkeypatch.setattr(build.platform, "libc_ver", lambda: ("glibc", "9.9"))
    assert build.recipe(OSU, "nemesis") == before


def test_the_users_flags_stay_outside(monkeypatch):
    for name in ("CFLAGS", "LDFLAGS", "LIBS", "MPICHLIB_CFLAGS", "MV2_USE_CUDA", "CXX"):
        monkeypatch.setenv(name, "theirs")
    monkeypatch.setenv("CPATH", "/opt/rdma/include")  # where the headers are is theirs to say
    monkeypatch.setenv("MAKEFLAGS", " -j3 --jobserver-auth=3,4")
    env = build.environment()
    assert "theirs" not in env.values()
    assert env["CPATH"] == "/opt/rdma/include"
    assert env["MAKEFLAGS"] == "-j3"


def test_an_interrupted_build_leaves_nothing(cache):
    def interrupted() -> None:
        with build.Build(OSU, "sock") as made:
            made.work.mkdir()
            (made.work / "half").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [file.suffix for file in cache.iterdir()] == [".lock"]


def test_what_a_killed_build_left_is_removed_by_the_next(cache):
    with build.Build(OSU, "sock") as made:
        work = made.work
    work.mkdir()
    (work / "half").touch()
    with build.Build(OSU, "sock") as made:
        assert not work.exists()
        assert not made.ready


def test_a_second_build_of_the_same_waits(cache, tmp_path):
    script = (
        "from env.mvapich2 import archive, build\n"
        "with build.Build(archive.KNOWN[0], 'sock') as made:\n    print('ready:', made.ready)\n"
    )
    with build.Build(OSU, "sock") as made:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert "waiting for it" in process.stdout.readline()
        made.place.mkdir()
    assert process.stdout.readline() == "ready: True\n"
    assert process.wait(60) == 0
    process.stdout.close()


def test_edits_stop_at_other_sources(tmp_path):
    for edit in edits.EDITS:
        file = tmp_path / edit.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(edit.old, encoding="utf-8")
    edits.apply_all(tmp_path)
    assert [(tmp_path / edit.path).read_text(encoding="utf-8") for edit in edits.EDITS] == [
        edit.new for edit in edits.EDITS
    ]
    with pytest.raises(steps.StepFailed, match="edit 'tcp-undeclared'"):
        edits.apply_all(tmp_path)
    assert issubclass(EditError, Exception)


def test_a_program_and_a_script_work_wherever_they_are_moved(tmp_path):
    tree = tmp_path / "built"
    for folder in ("bin", "lib/pkgconfig"):
        (tree / folder).mkdir(parents=True)
    compiler = [needs.compiler(), "-x", "c", "-", "-o"]
    rpath = f"-Wl,-rpath,/where/it/was/made/.libs:{prefix.PLACEHOLDER}/lib"
    library = "int one(void) { return 1; }"
    program = "int one(void); int main(void) { return one() - 1; }"
    for source, options in (
        (library, ["lib/libone.so", "-shared"]),
        (program, ["bin/program", "-Llib", "-lone", rpath]),
    ):
        subprocess.run([*compiler, *options], cwd=tree, input=source, text=True, check=True)
    script = tree / "bin" / "mpicc"
    own = prefix.PLACEHOLDER
    script.write_text(f'#!/bin/sh\nprefix={own}\nlibdir={own}/lib\necho "$libdir" -fold\n')
    script.chmod(0o755)
    described = tree / "lib/pkgconfig/mpi.pc"
    described.write_text(f"# header\nprefix={prefix.PLACEHOLDER}\nlibdir=${{prefix}}/lib\n")
    (tree / "lib/libone.la").write_text(prefix.PLACEHOLDER)

    prefix.make_movable(tree, "-fold")
    moved = tmp_path / "some where else"
    tree.rename(moved)
    (tmp_path / "link").symlink_to(moved / "bin" / "mpicc")
    assert subprocess.run([moved / "bin/program"]).returncode == 0
    said = subprocess.run([tmp_path / "link"], capture_output=True, text=True, check=True).stdout
    assert said == f"{moved}/lib\n"
    assert "prefix=${pcfiledir}/../..\n" in (moved / "lib/pkgconfig/mpi.pc").read_text()
    assert not (moved / "lib/libone.la").exists()


def test_what_is_put_beside_takes_over_at_once(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    target = tmp_path / "mvapich2"
    target.mkdir()
    (target / "old").touch()
    assert prefix.put(tree, target).name == "mvapich2.new"
    assert (target / "old").exists()  # until all is well, what was there stays
    prefix.take_over(target)
    assert list(target.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("mv")) == ["mvapich2"]


def test_only_a_complete_installation_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(sequence, "TARGET", tmp_path)
    assert sequence.installed() == {}
    (tmp_path / sequence.NOTE).write_text('{"device": "so', encoding="utf-8")
    assert sequence.installed() == {}


@pytest.fixture
def lasting_cache(monkeypatch, pytestconfig) -> None:
    """The user's own cache, so that only the first run of the tests compiles."""
    monkeypatch.delenv("XDG_CACHE_HOME")


@needs_source
@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_it_is_built_verified_and_moved(in_venv, lasting_cache, tmp_path):
    done = install(in_venv, "--source", str(SOURCE), timeout=2900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mpi4py and Horovod: sums right, one MPI library, MVAPICH2" in done.stdout
    target = in_venv / ".venv" / "mvapich2"
    note = json.loads((target / "installed.json").read_text(encoding="utf-8"))
    assert note["device"] == "nemesis"
    assert note["library"].startswith("MVAPICH2")
    assert (target / "lib" / "libmpi.so.12").exists()

    start = (target / "installed.json").stat().st_mtime_ns
    again = install(in_venv)  # without SOURCE: what is there will do
    assert again.returncode == 0, again.stderr
    assert "already there: MVAPICH2" in again.stdout
    assert (target / "installed.json").stat().st_mtime_ns == start

    moved = in_venv.rename(tmp_path / "moved") / ".venv" / "mvapich2"
    (tmp_path / "hello.c").write_text(HELLO, encoding="utf-8")
    compiler = [moved / "bin" / "mpicc", "-o", tmp_path / "hello", tmp_path / "hello.c"]
    subprocess.run(compiler, check=True, timeout=60)
    run = [moved / "bin" / "mpiexec", "-n", "2", tmp_path / "hello"]
    env = os.environ | {"MV2_ENABLE_AFFINITY": "0"}
    said = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120, env=env).stdout
    assert sorted(said.splitlines()) == ["MVAPICH2 0 MULTIPLE", "MVAPICH2 1 MULTIPLE"]
