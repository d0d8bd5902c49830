"""The batch scripts as text, and what slurm/launch.sh says before anything runs. No daemon is
needed."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from labkit import labfile, paths

from tests import helpers

ROOT = paths.root()
SCRIPTS = sorted((ROOT / "slurm").glob("*.sbatch"))
LABS = labfile.headers(ROOT)
SITES = sorted({path.stem for path in (ROOT / "slurm/sites").glob("*.sh")} - {"template"})


def test_each_lab_with_ranks_has_a_batch_script_and_no_other():
    wanted = [stem for stem, header in LABS.items() if header.ranks > 1]
    assert [path.stem for path in SCRIPTS] == wanted


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with the batch scripts and the site files, and nothing else."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "slurm", tmp_path / "slurm", ignore=ignore)
    return tmp_path


def bash(folder: Path, script: str = "slurm/20_ranks_and_messages.sbatch", **variables: str) -> str:
    """What the script says when bash runs it in the folder; it must fail, and without a second
    thought."""
    names = ("PATH", "HOME", "LABKIT_TEST_RUN")
    env = {name: os.environ[name] for name in names if name in os.environ}
    done = helpers.ran("bash", script, cwd=folder, env=env | variables)
    text = done.stdout + done.stderr
    assert done.returncode == 1, text
    assert "line " not in text, "no complaint of bash itself"
    return text


JOB = {"SLURM_JOB_ID": "1"}
MOON, TABLETOP = {**JOB, "SITE": "moon"}, {**JOB, "SITE": "tabletop"}


@pytest.mark.parametrize(
    ("place", "variables", "says"),
    [
        (".", {}, "is for Slurm: make submit LAB=20"),
        (".", JOB, f"Say which cluster this is, .* Known are: {' '.join(SITES)}."),
        (".", MOON, r"There is no slurm/sites/moon\.sh\. Say which .* Known are: "),
        (".", TABLETOP, r"there is no .*/\.venv/bin/python .*`make setup` makes"),
        ("slurm", TABLETOP, "^Call sbatch in the folder of the labs"),
    ],
)
def test_what_a_batch_script_lacks_is_said(folder, place, variables, says):
    script = os.path.relpath(folder / "slurm/20_ranks_and_messages.sbatch", folder / place)
    assert re.search(says, bash(folder / place, script, **variables))


@pytest.mark.parametrize("own", ["", "nccl"])
def test_the_users_build_of_horovod_wins_over_the_site_files(folder, own):
    site = "export SITE=here LABKIT_HOROVOD=mpi\n"
    (folder / "slurm/sites/here.sh").write_text(site, encoding="utf-8")
    script = "source slurm/launch.sh; read_site x; echo $LABKIT_HOROVOD"
    env = {"PATH": os.environ["PATH"], "SITE": "here", "LABKIT_HOROVOD": own}
    done = helpers.ran("bash", "-c", script, cwd=folder, env=env)
    assert done.stdout == (own or "mpi") + "\n", done.stderr


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("module() { [[ $2 == gcc ]]; }", "The module moonstone of slurm/sites/here.sh cannot be"),
        ("unset -f module", "has no `module` command"),
    ],
)
def test_modules_that_cannot_be_loaded(folder, module, says):
    site = f'{module}; export SITE=here LABKIT_MODULES="gcc moonstone"\n'
    (folder / "slurm/sites/here.sh").write_text(site)
    assert says in bash(folder, **JOB, SITE="here")
