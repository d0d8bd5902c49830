"""The batch scripts as text, and what slurm/launch.sh says before anything runs. No daemon is needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from labkit import labfile, paths
from labkit.cluster import sites

ROOT = paths.root()
SCRIPTS = sorted((ROOT / "slurm").glob("*.sbatch"))
LABS = labfile.headers(ROOT)
SITES = sorted(path.stem for path in (ROOT / "slurm" / "sites").glob("*.sh") if path.stem != "template")
every_script = pytest.mark.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])
# What only one cluster would understand belongs in its site file.
OF_A_SITE = ("account", "partition", "qos", "constraint", "reservation", "gres", "gpus", "mem", "nodelist")


@pytest.fixture(scope="module")
def known_options(tmp_path_factory) -> set[str]:
    """The long options of the sbatch that is installed here, from its own help."""
    conf = tmp_path_factory.mktemp("conf") / "slurm.conf"  # sbatch says nothing without one
    conf.write_text(
        "ClusterName=x\nSlurmctldHost=localhost\nNodeName=localhost\nPartitionName=d Nodes=ALL\n",
        encoding="utf-8",
    )
    env = {**os.environ, "SLURM_CONF": str(conf)}
    done = subprocess.run(["sbatch", "--help"], env=env, capture_output=True, text=True, timeout=60)
    options = set(re.findall(r"--([a-z][a-z-]+)", done.stdout))
    assert {"nodes", "time", "job-name"} <= options, done.stderr
    return options


def problems(text: str, stem: str, known: set[str]) -> list[str]:
    """What is wrong with a batch script; [] if nothing is."""
    mistakes = []
    options = {}
    command_seen = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("#SBATCH"):
            command_seen = command_seen or (line.strip() != "" and not line.startswith("#"))
            continue
        match = re.fullmatch(r"#SBATCH --([a-z-]+)=(\S+) +# (\S.*)", line)
        if command_seen:
            mistakes.append(f"{number}: sbatch ignores #SBATCH after the first command")
        elif not match:
            mistakes.append(f"{number}: not `#SBATCH --option=value  # why`")
        elif match[1] not in known:
            mistakes.append(f"{number}: sbatch has no --{match[1]}")
        elif match[1].startswith(OF_A_SITE):
            mistakes.append(f"{number}: --{match[1]} belongs in a site file")
        else:
            options[match[1]] = match[2]
    if options.get("job-name") != stem:
        mistakes.append("the job has another name than its lab")
    if options.get("output") != "%x-%j.out":
        mistakes.append("the output is not %x-%j.out")
    if not re.search(rf"^launch {re.escape(stem)}$", text, re.MULTILINE):
        mistakes.append("it does not launch its lab")
    if len(text.splitlines()) > 12:
        mistakes.append("it is longer than about ten lines")
    return mistakes


@every_script
def test_a_batch_script_is_clean(script, known_options):
    assert problems(script.read_text(encoding="utf-8"), script.stem, known_options) == []


@every_script
def test_nodes_and_ranks_are_those_of_the_lab(script):
    text = script.read_text(encoding="utf-8")
    numbers = {name: int(value) for name, value in re.findall(r"(?m)^#SBATCH --([a-z-]+)=(\d+) ", text)}
    assert numbers["nodes"] * numbers["ntasks-per-node"] == LABS[script.stem].ranks
    assert numbers["nodes"] == 2


@every_script
def test_a_rank_that_trains_has_more_than_one_core(script):
    cores = int(re.search(r"(?m)^#SBATCH --cpus-per-task=(\d+) ", script.read_text(encoding="utf-8"))[1])
    trains = {"torch", "tensorflow", "horovod"} & set(LABS[script.stem].needs)
    assert (cores > 1) == bool(trains)


@pytest.mark.parametrize("site", SITES)
def test_on_gpus_a_rank_has_more_than_one_core(site):
    known = sites.load(site, {"PATH": os.environ["PATH"]})
    if known["LABKIT_GPUS_PER_NODE"] == "0":
        return
    cores = int(re.search(r"--cpus-per-task=(\d+)", known["LABKIT_SBATCH_OPTIONS"])[1])
    assert cores > 1


def test_each_lab_with_ranks_has_a_batch_script_and_no_other():
    wanted = [stem for stem, header in LABS.items() if header.ranks > 1]
    assert [path.stem for path in SCRIPTS] == wanted


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("source slurm/launch.sh", "true\n#SBATCH --nice=1  # late", "after the first command"),
        ("--nodes=2 ", "--node=2 ", "sbatch has no --node"),
        ("# computers", "", "not `#SBATCH"),
        ("--cpus-per-task=1 ", "--partition=gpu ", "belongs in a site file"),
        ("--job-name=20_", "--job-name=21_", "another name"),
        ("%x-%j", "%j", "the output is not"),
        ("launch 20_", "launch 21_", "does not launch its lab"),
    ],
)
def test_the_linter_sees_what_is_wrong(old, new, says, known_options):
    script = next(path for path in SCRIPTS if path.stem.startswith("20_"))
    text = script.read_text(encoding="utf-8")
    assert text.count(old) == 1
    assert any(says in problem for problem in problems(text.replace(old, new), script.stem, known_options))


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with the batch scripts and the site files, and nothing else."""
    shutil.copytree(ROOT / "slurm", tmp_path / "slurm", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def bash(folder: Path, script: str = "slurm/20_ranks_and_messages.sbatch", **variables: str) -> str:
    """What the script says when bash runs it in the folder; it must fail, and without a second thought."""
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LABKIT_TEST_RUN") if name in os.environ}
    done = subprocess.run(
        ["bash", script], cwd=folder, env=env | variables, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, done.stdout + done.stderr
    text = done.stdout + done.stderr
    assert "line " not in text, "no complaint of bash itself"
    return text


def test_outside_of_slurm_it_says_how_to_submit(folder):
    assert "is for Slurm: make submit LAB=20" in bash(folder)


def test_without_a_site_the_sites_are_listed(folder):
    text = bash(folder, SLURM_JOB_ID="1")
    assert "Say which cluster this is" in text
    assert f"Known are: {' '.join(SITES)}." in text


def test_an_unknown_site_is_named(folder):
    assert "There is no slurm/sites/moon.sh. Known are: " in bash(folder, SLURM_JOB_ID="1", SITE="moon")


def test_without_an_environment_it_says_what_makes_one(folder):
    text = bash(folder, SLURM_JOB_ID="1", SITE="tabletop")
    assert f"there is no {folder}/.venv/bin/python that can be run: `make setup` makes it" in text


def test_elsewhere_it_says_where_to_call_sbatch(folder):
    text = bash(folder / "slurm", "20_ranks_and_messages.sbatch", SLURM_JOB_ID="1", SITE="tabletop")
    assert text.startswith("Call sbatch in the folder of the labs")


@pytest.mark.parametrize("own", ["", "nccl"])
def test_the_users_build_of_horovod_wins_over_the_site_files(folder, own):
    (folder / "slurm/sites/here.sh").write_text("export SITE=here LABKIT_HOROVOD=mpi\n", encoding="utf-8")
    script = "source slurm/launch.sh; read_site x; echo $LABKIT_HOROVOD"
    env = {"PATH": os.environ["PATH"], "SITE": "here", "LABKIT_HOROVOD": own}
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True)
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
