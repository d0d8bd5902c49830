"""The batch scripts as text, and what slurm/launch.sh says before anything runs. No daemon is
needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from labkit import labfile, paths

ROOT = paths.root()
SCRIPTS = sorted((ROOT / "slurm").glob("*.sbatch"))
LABS = labfile.headers(ROOT)
SITES = sorted(
    path.stem for path in (ROOT / "slurm" / "sites").glob("*.sh") if path.stem != "template"
)


def test_each_lab_with_ranks_has_a_batch_script_and_no_other():
    wanted = [stem for stem, header in LABS.items() if header.ranks > 1]
    assert [path.stem for path in SCRIPTS] == wanted


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with the batch scripts and the site files, and nothing else."""
    shutil.copytree(
        ROOT / "slurm", tmp_path / "slurm", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


def bash(folder: Path, script: str = "slurm/20_ranks_and_messages.sbatch", **variables: str) -> str:
    """What the script says when bash runs it in the folder; it must fail, and without a second
    thought."""
    env = {
        name: os.environ[name] for name in ("PATH", "HOME", "LABKIT_TEST_RUN") if name in os.environ
    }
    done = subprocess.run(
        ["bash", script],
        cwd=folder,
        env=env | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    text = done.stdout + done.stderr
    assert "line " not in text, "no complaint of bash itself"
    return text


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({}, "is for Slurm: make submit LAB=20"),
        ({"SLURM_JOB_ID": "1"}, f"Say which cluster this is, .* Known are: {' '.join(SITES)}."),
        (
            {"SLURM_JOB_ID": "1", "SITE": "moon"},
            r"There is no slurm/sites/moon\.sh\. Say which .* Known are: ",
        ),
        (
            {"SLURM_JOB_ID": "1", "SITE": "tabletop"},
            r"there is no .*/\.venv/bin/python .*`make setup` makes",
        ),
    ],
)
def test_what_a_batch_script_lacks_is_said(folder, variables, says):
    assert re.search(says, bash(folder, **variables))


def test_elsewhere_it_says_where_to_call_sbatch(folder):
    text = bash(folder / "slurm", "20_ranks_and_messages.sbatch", SLURM_JOB_ID="1", SITE="tabletop")
    assert text.startswith("Call sbatch in the folder of the labs")


@pytest.mark.parametrize("own", ["", "nccl"])
def test_the_users_build_of_horovod_wins_over_the_site_files(folder, own):
    (folder / "slurm/sites/here.sh").write_text(
        "export SITE=here LABKIT_HOROVOD=mpi\n", encoding="utf-8"
    )
    script = "source slurm/launch.sh; read_site x; echo $LABKIT_HOROVOD"
    env = {"PATH": os.environ["PATH"], "SITE": "here", "LABKIT_HOROVOD": own}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.stdout == (own or "mpi") + "\n", done.stderr


def test_a_module_that_cannot_be_loaded_is_named(folder):
    init = folder / "init" / "bash"
    init.parent.mkdir()
    init.write_text("module() { [[ $2 == gcc ]]; }\n", encoding="utf-8")
    (folder / "slurm/sites/here.sh").write_text('export SITE=here LABKIT_MODULES="gcc moonstone"\n')
    text = bash(folder, SLURM_JOB_ID="1", SITE="here", LMOD_PKG=str(folder))
    assert "The module moonstone of slurm/sites/here.sh cannot be loaded" in text
    assert "gcc" not in text


def test_modules_without_a_module_command(folder):
    (folder / "slurm/sites/here.sh").write_text('export SITE=here LABKIT_MODULES="gcc"\n')
    if Path("/etc/profile.d/modules.sh").exists() or Path("/etc/profile.d/lmod.sh").exists():
        (folder / "slurm/sites/here.sh").write_text(
            'unset -f module; export SITE=here LABKIT_MODULES="gcc"\n'
        )
    assert "has no `module` command" in bash(folder, SLURM_JOB_ID="1", SITE="here")
