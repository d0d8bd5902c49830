"""The set-up without its long steps: what it reads, what it refuses, and when it need not run
again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from labkit import builds

from env.install import environment, mpi, steps, verify, verify_ranks
from tests.env import wheels
from tests.helpers import program, ran

ROOT = Path(__file__).resolve().parents[2]


def test_a_sites_mpi_comes_first(tmp_path):
    site, venv = tmp_path / "site", tmp_path / "venv"
    for name in ("mpicc", "mpicxx", "mpiexec"):
        program(site / "bin" / name, "echo site")
    (site / "lib").mkdir()
    (venv / "bin").mkdir(parents=True)
    library = mpi.find(venv, str(site))
    assert library.site
    assert library.rpath() == [str(site / "lib")]
    assert library.environment({"PATH": "/usr/bin"})["PATH"] == f"{site}/bin:/usr/bin"
    mpi.put_site_commands(library, venv)
    assert ran(venv / "bin" / "mpiexec").stdout == "site\n"


class PipAlone:
    """A step that only notes what pip is asked for."""

    def __init__(self):
        self.asked: list[str] = []

    def run(self, command) -> str:
        self.asked += map(str, command[command.index("pip") + 1 :])
        return ""


@pytest.mark.parametrize(
    ("tag", "compiled"),
    [("cp311-cp311-linux_x86_64", True), ("cp311-cp311-manylinux_2_5_x86_64", False)],
)
def test_after_a_sites_mpi_the_wheels_come_back(tmp_path, tag, compiled):
    venv = tmp_path / "venv"
    wheel = venv / "lib/python3.11/site-packages/mpi4py-4.1.2.dist-info/WHEEL"
    wheel.parent.mkdir(parents=True)
    wheel.write_text(f"Wheel-Version: 1.0\nTag: {tag}\n")
    assert environment.has_compiled_mpi4py(venv) == compiled
    program(venv / "bin" / "mpiexec", "echo site")
    mpi.remove_commands(venv)
    assert not (venv / "bin" / "mpiexec").exists()
    step = PipAlone()
    environment.install_mpi_wheels(step, venv)
    locked = environment.locked({})
    assert {f"mpich=={locked['mpich']}", f"mpi4py=={locked['mpi4py']}"} <= set(step.asked)
    assert "--force-reinstall" in step.asked


def test_ranks_that_do_not_find_each_other_are_no_two_ranks(tmp_path):
    """As where srun has no PMI, or mpiexec belongs to another MPI: each is alone, its sum right."""
    venv = tmp_path / "venv"
    program(venv / "bin" / "mpiexec", 'shift 2\n"$@"\n"$@"')
    program(venv / "bin" / "python", f'exec "{sys.executable}" "$@"')
    step = steps.Step(1, 1, "Two ranks", tmp_path / "log")
    with pytest.raises(steps.StepFailed, match="takes itself for one of 1, so this launcher and"):
        verify.run(step, venv, "mpi4py", "MPI", "host", tmp_path)


def test_srun_starts_the_ranks_of_an_mpi_without_a_launcher(tmp_path, monkeypatch):
    site, venv = tmp_path / "cray", tmp_path / "cray" / "venv"
    for file in ("bin/mpicc", "bin/mpicxx", "tools/srun", "venv/bin/python"):
        program(site / file, "echo srun: $@ job $SLURM_JOB_ID")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(mpi.shutil, "which", lambda name: None)
    with pytest.raises(
        steps.StepFailed, match=r"none of mpiexec, .* in bin/, and there is no srun"
    ):
        mpi.site_home(str(site))
    monkeypatch.setattr(mpi.shutil, "which", lambda name: str(site / "tools" / name))
    mpi.put_site_commands(mpi.find(venv, str(site)), venv)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    answer = ran(venv / "bin" / "mpiexec", "-n", 2, env=verify.clean_environment(venv))
    assert answer.stdout == "srun: -n 2 job 7\n"
    monkeypatch.setattr(sys, "prefix", str(venv))
    assert builds.mpi_builds() == {"mpi": site}


def test_a_process_may_hold_the_cuda_runtime_of_its_mpi(tmp_path, monkeypatch):
    """What MVAPICH2-GDR, Cray's MPICH and others map beside their main library."""
    files = ["libmpi.so.12", "libmpicxx.so.12", "libmpi_gtl_cuda.so.0", "libmpifort.so.12"]
    files += ["libcudart.so.12"]
    maps = tmp_path / "maps"
    maps.write_text("".join(f"7f00-7f01 r-xp 00000000 00:00 1   /x/lib/{file}\n" for file in files))
    assert verify_ranks.libraries(maps) == {
        "MPI": ["/x/lib/libmpi.so.12"],
        "CUDA runtime": ["/x/lib/libcudart.so.12"],
        "NCCL": [],
    }
    own = "/x/libcudart.so.11.0"
    found = {"MPI": ["/x/libmpi.so"], "NCCL": [], "CUDA runtime": [own, "/y/libcudart.so.12"]}
    said = (
        "MPI brings a CUDA runtime of its own, so a process holds libcudart.so.11.0 and libcudart"
    )
    monkeypatch.setattr(verify_ranks, "needed_by", lambda library: {own})
    error, warning = verify_ranks.doubled(found)
    assert (error, warning) == ("", f"{said}.so.12")
    monkeypatch.setattr(verify_ranks, "needed_by", lambda library: set())
    error, _ = verify_ranks.doubled(found)
    assert error.startswith("holds 2 libraries of CUDA runtime: /x/libcudart")
    found["MPI"] = ["/x/libmpi.so", "/y/libmpi.so"]
    assert verify_ranks.doubled(found)[0] == "holds 2 libraries of MPI: /x/libmpi.so, /y/libmpi.so"


def test_a_job_verifies_where_a_login_node_may_not(tmp_path):
    (tmp_path / ".venv").mkdir()
    script = verify.write_job(tmp_path / ".venv", gpus=True)
    text = script.read_text()
    assert "#SBATCH --gpus-per-node=2" in text
    assert f'exec "{tmp_path}/.venv/bin/python" "{tmp_path}/env/setup.py" --verify' in text


def direct(name: str) -> dict[str, str]:
    """Package -> its line, of a requirements.in."""
    lines = (environment.ENV / name).read_text(encoding="utf-8").splitlines()
    asked = [line for line in lines if line and not line.startswith("#")]
    return {re.match(r"[\w.-]+", line)[0]: line for line in asked}


@pytest.mark.parametrize("settings", [{}, {"GPU_OPERATIONS": "NCCL"}])
def test_every_direct_requirement_is_locked_and_has_a_reason(settings):
    asked = direct("requirements.in")
    if settings:
        del asked["tensorflow-cpu"]
        asked |= direct("requirements-gpu.in")
    locked = environment.requirements(settings)
    for name, line in asked.items():
        assert re.search(rf"^{re.escape(name)}==", locked, re.M), name
        assert "#" in line, name
        if pin := re.match(r"[\w.-]+==\S+", line):
            assert re.search(rf"^{re.escape(pin[0])}$", locked, re.M), name


OF_GPUS = {"torch", "tensorflow", "tensorflow-cpu", "nvidia-cuda-nvcc-cu12"}


@pytest.mark.parametrize(
    ("settings", "others"),
    [({"GPU_OPERATIONS": "NCCL"}, OF_GPUS), ({"MPI_HOME": "/opt/mpi"}, {"mpich", "mpi4py"})],
)
def test_requirements_follow_the_settings(settings, others):
    plain = set(environment.requirements({}).splitlines())
    lines = plain ^ set(environment.requirements(settings).splitlines())
    assert {line.split("==")[0] for line in lines} == others
    assert environment.cuda_major() == 12


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Settings as of a call with these variables, after a set-up that kept what was given to
    `keep`."""
    for name in environment.SETTINGS:
        monkeypatch.delenv(name, raising=False)

    def read(**variables: str) -> dict[str, str]:
        with monkeypatch.context() as context:
            for name, value in variables.items():
                context.setenv(name, value)
            return environment.settings(tmp_path)

    return read


GPU = {"GPU_OPERATIONS": "NCCL", "CUDA_HOME": "/opt/cuda"}


@pytest.mark.parametrize(
    ("kept", "given", "chosen"),
    [
        ({}, {}, {}),
        ({}, GPU, GPU),
        # a module's CUDA_HOME alone says nothing
        ({}, {"CUDA_HOME": "/opt/cuda", "NCCL_HOME": "/opt/nccl"}, {}),
        # kept, whatever a module says
        (GPU, {}, GPU),
        (GPU, {"CUDA_HOME": "/opt/cuda-13"}, GPU),
        (GPU, {"GPU_OPERATIONS": ""}, GPU),
        # changed in what is said
        (GPU, {"GPU_OPERATIONS": "MPI"}, GPU | {"GPU_OPERATIONS": "NCCL MPI"}),
        (GPU, {"GPU_OPERATIONS": "nccl"}, GPU),
        ({}, {"GPU_OPERATIONS": "nccl,mpi"}, {"GPU_OPERATIONS": "NCCL MPI"}),
        (GPU, {"GPU_OPERATIONS": "NCCL", "CUDA_HOME": "/new"}, GPU | {"CUDA_HOME": "/new"}),
        (GPU, {"MPI_HOME": "/opt/mpi"}, GPU | {"MPI_HOME": "/opt/mpi"}),
        # and the way back
        (GPU, {"GPU_OPERATIONS": "none"}, {}),
        (GPU, {"GPU_OPERATIONS": "NCCL", "CUDA_HOME": "none"}, {"GPU_OPERATIONS": "NCCL"}),
        ({"MPI_HOME": "/opt/mpi"}, {"MPI_HOME": "NONE"}, {}),
        ({"TORCH_INDEX": "https://host/cpu"}, {}, {"TORCH_INDEX": "https://host/cpu"}),
        # Python is not kept: the environment has it
        (GPU, {"PYTHON": "python3.13"}, GPU),
    ],
)
def test_settings_are_kept_and_changed(tmp_path, settings, kept, given, chosen):
    environment.keep(tmp_path, kept)
    assert settings(**given) == chosen


def test_kept_settings_that_cannot_be_read(tmp_path, settings):
    (tmp_path / "settings.json").write_text("{", encoding="utf-8")
    with pytest.raises(steps.StepFailed, match=r"settings\.json cannot be read") as failure:
        settings()
    assert "Remove that file" in failure.value.cure


@pytest.mark.parametrize(
    ("free", "chosen", "needed"), [(5e9, {}, "6 GB"), (15e9, {"GPU_OPERATIONS": "NCCL"}, "16 GB")]
)
def test_room_on_the_disk(tmp_path, monkeypatch, free, chosen, needed):
    usage = SimpleNamespace(free=free)
    monkeypatch.setattr(environment.shutil, "disk_usage", lambda folder: usage)
    room = f"{free / 1e9:.1f} GB are free, {needed} are needed"
    with pytest.raises(steps.StepFailed, match=room):
        environment.check_room(tmp_path, tmp_path / ".venv", chosen)
    # where this PyTorch is installed nothing much is fetched any more; with another one all is
    version = environment.locked(chosen)["torch"]
    other = environment.locked({} if chosen else {"GPU_OPERATIONS": "NCCL"})["torch"]
    site = tmp_path / ".venv/lib/python3.11/site-packages"
    (site / f"torch-{other}.dist-info").mkdir(parents=True)
    with pytest.raises(steps.StepFailed, match="are needed"):
        environment.check_room(tmp_path, tmp_path / ".venv", chosen)
    (site / f"torch-{version}+cpu.dist-info").mkdir()
    environment.check_room(tmp_path, tmp_path / ".venv", chosen)


@pytest.mark.parametrize(
    ("output", "cure"),
    [
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("Failed to establish a new connection: Name or service not known", "network"),
        ("ERROR: No matching distribution found for torch==2.13.0", "package index"),
        ("CMake Error: No CMAKE_CXX_COMPILER could be found.", "g++ make"),
        ("c++: fatal error: Killed signal terminated program cc1plus", "MAKEFLAGS=-j1"),
        ("all is well", ""),
    ],
)
def test_cures(output, cure):
    assert cure in steps.cure_for(output)


def test_a_command_that_hangs_without_a_word_is_ended(tmp_path):
    step = steps.Step(1, 1, "Two ranks", tmp_path / "log")
    began = time.monotonic()
    with pytest.raises(steps.StepFailed, match="no end after 1 s: I wait") as failure:
        step.run(["sh", "-c", "echo I wait; sleep 100"], timeout=1)
    assert failure.value.log == tmp_path / "log"
    assert time.monotonic() - began < 90


@pytest.mark.slow
def test_packages_that_are_not_there_or_of_the_wrong_kind(checkout, set_up, tmp_path):
    """The second time GPU_OPERATIONS=NCCL, with a toolkit and packages of a few bytes; the real one
    takes gigabytes."""
    lock = checkout / "env" / "requirements.txt"
    lock.write_text("no-such-package-of-the-labs==1.0\n", encoding="utf-8")
    done = set_up(PYTHON=sys.executable, PIP_NO_INDEX="1")
    assert done.returncode == 1
    assert "[3/7] Packages failed: ERROR: No matching distribution found" in done.stderr
    log = re.search(r"log:  (.+)", done.stderr)[1]
    assert "no-such-package-of-the-labs" in Path(log).read_text(encoding="utf-8")
    assert "cure:" in done.stderr
    assert "Traceback" not in done.stderr

    lock.write_text("torch==2.13.0\n", encoding="utf-8")
    program(tmp_path / "cuda" / "bin" / "nvcc", "echo release 12.4, V12.4.131")
    offered = tmp_path / "offered"
    torch = {"torch/__init__.py": "", "torch/version.py": "cuda = None\n"}
    wheels.make(offered, "torch", "2.10.0+cpu", torch)
    wheels.make(offered, "tensorflow", "2.21.0", {"tensorflow/__init__.py": ""})
    wheels.make(offered, "nvidia-cuda-nvcc-cu12", "12.8.93", {"nvidia/__init__.py": ""})
    gpu = {"GPU_OPERATIONS": "NCCL", "CUDA_HOME": str(tmp_path / "cuda")}
    pip = {"PIP_FIND_LINKS": str(offered), "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1"}
    done = set_up(PYTHON=sys.executable, **gpu, **pip)
    assert done.returncode == 1
    assert "failed: pip brought PyTorch 2.10.0+cpu, a build without CUDA" in done.stderr
    assert "Traceback" not in done.stderr
    # the settings are kept: the next call goes on with them, and says so when it fails
    assert environment.kept(checkout / ".venv")["GPU_OPERATIONS"] == "NCCL"
    assert "with: GPU_OPERATIONS=NCCL" in set_up(PYTHON="python1.0").stderr


def test_another_checkouts_environment_is_left_alone(checkout, set_up, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (checkout / ".venv").symlink_to(theirs)
    done = set_up(PYTHON=sys.executable)
    assert done.returncode == 1
    assert ".venv is a link to " in done.stderr
    assert "cure: Remove the link" in done.stderr
    assert not list(theirs.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(("torch", "kept"), [("pinned", True), ("0.1.0", False), ("", True)])
def test_the_other_kind_of_machines_frameworks_go_with_the_environment(tmp_path, torch, kept):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    site = next(venv.glob("lib/python3.*/site-packages"))
    version = environment.locked({})["torch"] if torch == "pinned" else torch
    if torch:
        (site / f"torch-{version}+cpu.dist-info").mkdir()
    (site / "tensorflow").mkdir()
    step = steps.Step(1, 1, "Virtual environment", tmp_path / "log")
    environment.create(step, str(venv / "bin" / "python"), venv, {})
    assert (site / "tensorflow").exists() == kept
    assert (venv / "bin" / "python").exists()


def fingerprint(root: Path, settings: dict[str, str] | None = None) -> str:
    """The fingerprint of that checkout with these settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "ROOT", root)
        patch.setattr(environment, "ENV", root / "env")
        return environment.fingerprint(settings or {})


@pytest.fixture
def already_set_up(checkout):
    """That checkout with the stamp of a set-up, and with a Python that notes that it was
    started."""
    program(checkout / ".venv" / "bin" / "python", 'echo started >> "$0.started"\nexit 1')
    metadata = checkout / ".venv/lib/python3.11/site-packages/horovod/metadata.json"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("{}", encoding="utf-8")
    return checkout


def stamp(root: Path, settings: dict[str, str]) -> None:
    """The stamp, the list of builds and the settings that a set-up of that checkout would leave."""
    venv = root / ".venv"
    builds = {"default": "host", "folders": {"host": "lib/python3.11/site-packages"}}
    contents = {
        "key": fingerprint(root, settings),
        "root": str(root),
        "mpi": "mpich wheel",
        "python": "python3.11",
        "settings": settings,
        "wheels": {"host": "horovod.whl"},
    }
    (venv / "horovod-builds.json").write_text(json.dumps(builds), encoding="utf-8")
    (venv / "setup-stamp.json").write_text(json.dumps(contents), encoding="utf-8")
    environment.keep(venv, settings)


@pytest.mark.parametrize(
    ("before", "given"),
    [
        ({}, {}),
        ({}, {"PYTHON": "python3.11"}),
        (GPU, {}),
        (GPU, {"CUDA_HOME": "/a/module/of/another/cuda"}),
    ],
)
def test_a_second_call_does_nothing(already_set_up, set_up, before, given):
    stamp(already_set_up, before)
    done = set_up(**given)
    assert done.returncode == 0, done.stderr
    assert "already set up" in done.stdout
    assert not before or "GPU_OPERATIONS=NCCL CUDA_HOME=/opt/cuda" in done.stdout
    # neither pip nor anything else of the environment was run
    assert not (already_set_up / ".venv/bin/python.started").exists()


def test_a_stamp_that_was_cut_off_is_none(already_set_up, set_up):
    (already_set_up / ".venv" / "setup-stamp.json").write_text("")
    done = set_up(CUDA_HOME="/none", GPU_OPERATIONS="MPI")
    assert done.returncode == 1
    assert "[1/7] Look round failed" in done.stderr
    assert "Traceback" not in done.stderr


def test_another_setting_sets_up_again_and_says_with_what(already_set_up, set_up, tmp_path):
    stamp(already_set_up, GPU)
    done = set_up(GPU_OPERATIONS="MPI")  # there is no such toolkit: it ends in the first step
    assert done.returncode == 1
    said = "[1/7] Look round failed: no CUDA toolkit: CUDA_HOME=/opt/cuda has no bin/nvcc"
    assert said in done.stderr
    assert 'with: GPU_OPERATIONS="NCCL MPI" CUDA_HOME=/opt/cuda' in done.stderr
    assert "Traceback" not in done.stderr
    assert "already set up" in set_up().stdout  # nothing was changed


COUNT = "pyproject.toml env/requirements.txt env/requirements-gpu.in env/install/steps.py"
COUNT += " env/horovod/patches/4-keras3.patch"
NOT = "env/HOROVOD.md env/lock.sh env/container/start.py env/mvapich2/build.sh"


@pytest.mark.parametrize("file", [*COUNT.split(), *NOT.split()])
def test_a_changed_file_makes_the_stamp_invalid(checkout, file):
    before = fingerprint(checkout)
    with (checkout / file).open("a", encoding="utf-8") as text:
        text.write("# one line more\n")
    assert (fingerprint(checkout) != before) == (file in COUNT)
