"""Every site file in slurm/sites: what it may say, what it must say, and that it can be read
anywhere."""

from __future__ import annotations

import re
from subprocess import CompletedProcess

import pytest
from labkit import mpis, paths
from labkit.cluster import sites

from tests.helpers import ran

FOLDER = paths.root() / "slurm" / "sites"
STEMS = sorted(path.stem for path in FOLDER.glob("*.sh"))
PUBLIC = [stem for stem in STEMS if stem not in ("tabletop", "template")]

# What sbatch reads: man sbatch of Slurm 22.05, and src/sbatch/opt.c of 2026-08-20 still has every
# one.
READ = "ACCOUNT PARTITION QOS CONSTRAINT RESERVATION GPUS_PER_NODE GRES EXCLUSIVE NETWORK TIMELIMIT"
READ += " MEM_PER_NODE MEM_PER_CPU MEM_PER_GPU THREADS_PER_CORE"
SBATCH_READS = {f"SBATCH_{name}" for name in READ.split()}
OWN = "MODULES SETUP_MODULES LAUNCHER MPI GPUS_PER_NODE GPU_FORM SBATCH_OPTIONS GDRCOPY HOROVOD"
OWN += " HUB_ADDRESS HUB_TIME HUB_PARTITION HUB_RESERVATION HUB_CPUS HUB_GPUS HUB_MEMORY HUB_PAM"
KIT = {"SITE", *(f"LABKIT_{name}" for name in OWN.split())}
LIBRARIES = re.compile(
    r"(SLURM|MV2|MVP|MPIR_CVAR|MPICH|UCX|FI|OMPI|HYDRA|NCCL|HOROVOD|GLOO|OMP|I_MPI|PMI)_[A-Z0-9_]+"
)
LAUNCHER = re.compile(r"srun( --mpi=[a-z0-9_]+)?|mpirun_rsh( -export(-all)?)?|mpiexec|mpirun|ibrun")
VALUE = r"""("[^"`]*"|'[^']*'|[^\s"'`$();&|<>]*)"""
LINE = re.compile(
    rf"""(export )?([A-Z][A-Z0-9_]*={VALUE}( |$))+( *#.*)?|: "\$\{{[A-Z_]+:=[^`$]*\}}"( *#.*)?"""
)


def text(stem: str) -> str:
    return (FOLDER / f"{stem}.sh").read_text(encoding="utf-8")


def source(stem: str, *commands: str, **environ: str) -> CompletedProcess:
    """Source the file, strictly, on a machine that has nothing but what `environ` says."""
    script = f'set -eu; source "{FOLDER / stem}.sh"; ' + "; ".join(commands)
    return ran("/bin/bash", "--norc", "--noprofile", "-c", script, env=environ, timeout=20)


@pytest.mark.parametrize("stem", STEMS)
def test_a_site_file_only_assigns(stem):
    """Bash reads it twice, strictly, on a machine without modules; it holds no command, account or
    secret."""
    for number, line in enumerate(text(stem).splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            # The tabletop's network is there only inside a job: it alone asks where it is.
            if stem == "tabletop" and re.fullmatch(r"if \[ -n [^`;]+ \]; then( #.*)?|fi", line):
                continue
            assert LINE.fullmatch(line.strip()), f"{stem}.sh:{number}: {line}"
            assert "$(" not in line, f"{stem}.sh:{number} runs a command"
            private = r"(?i)password|token|secret|/home/|/users/|@"
            assert not re.search(private, line), line
    for name in sites.assigned(text(stem)):
        assert name in SBATCH_READS | KIT or LIBRARIES.fullmatch(name), f"{name}: nobody reads it"
    once = source(stem, "export -p")
    assert (once.returncode, once.stderr) == (0, "")
    assert source(stem, f'source "{FOLDER / stem}.sh"', "export -p").stdout == once.stdout


@pytest.mark.parametrize("stem", STEMS)
def test_what_every_site_must_say(stem):
    names = [*KIT, *SBATCH_READS]
    printed = source(stem, *(f'echo "{name}=${{{name}:-}}"' for name in names)).stdout
    values = dict(line.split("=", 1) for line in printed.splitlines())
    assert values["SITE"] == stem
    assert values["SBATCH_ACCOUNT"] == "", "an account of its own"
    assert LAUNCHER.fullmatch(values["LABKIT_LAUNCHER"]), values["LABKIT_LAUNCHER"]
    assert values["LABKIT_GPU_FORM"] in sites.GPU_FORMS
    assert values["LABKIT_MPI"] in (*mpis.FLAVORS, "")
    assert {"LABKIT_MODULES", "LABKIT_MPI"} <= set(sites.assigned(text(stem)))
    if not values["LABKIT_MPI"]:  # not known: then the file says whom to ask what
        assert "Ask the site" in text(stem)
    gpus, form = values["LABKIT_GPUS_PER_NODE"], values["LABKIT_GPU_FORM"]
    assert gpus.isdecimal()
    options = values["LABKIT_SBATCH_OPTIONS"]
    assert (values["SBATCH_GPUS_PER_NODE"] == gpus) == (form == "gpus-per-node")
    gres = f"{values['SBATCH_GRES']} {options}"
    assert bool(re.search(rf"\bgpu:([a-z0-9]+:)?{gpus}\b", gres)) == (form == "gres")
    if gpus != "0":  # a rank has threads of its own
        assert int(re.search(r"--cpus-per-task=(\d+)", options)[1]) > 1
    names = ("ACCOUNT", "PARTITION", "QOS", "CONSTRAINT")
    chosen = {f"SBATCH_{name}": name.lower() for name in names}
    shown = source(stem, *(f'echo "${name}"' for name in chosen), **chosen)
    assert shown.stdout.split() == list(chosen.values()), "the user's own choice wins"


@pytest.mark.parametrize("stem", PUBLIC)
def test_jobs_load_no_library_that_the_frameworks_bring(stem):
    """A module of another NCCL, cuDNN or CUDA comes before PyTorch's own in the loader's search."""
    modules = sites.load(stem, {"PATH": "/usr/bin:/bin"}).get("LABKIT_MODULES", "").lower()
    names = {module.partition("/")[0] for module in modules.split()}
    asked = names & {"cuda", "cudatoolkit", "nccl", "cudnn"}
    assert not asked or "without CUDA/12?" in text(stem), asked


@pytest.mark.parametrize("stem", PUBLIC)
def test_a_machine_we_have_not_used_says_so_and_names_its_source(stem):
    lines = text(stem).splitlines()
    notices = [line for line in lines[:3] if line.startswith("# not run here; from ")]
    assert len(notices) == 1, lines[:3]
    assert re.search(r", (20\d\d-[01]\d(-[0-3]\d)?|a page without a date)$", notices[0]), notices[0]
    assert re.search(r"[\w-]+(\.[\w-]+)+/", notices[0]), "a source that can be looked up"
    # A fact without a source is a question to the site, or says that there is none.
    assert "NCCL_SOCKET_IFNAME" in text(stem)


def test_a_site_is_loaded_as_bash_sees_it_and_the_users_choice_wins():
    """What another site's file has left in the shell is not the user's choice."""
    bare = {"PATH": "/usr/bin:/bin", "SBATCH_ACCOUNT": "mine"}
    loaded = sites.load("leonardo", bare | {"SBATCH_QOS": "boost_qos_dbg"})
    assert loaded["SBATCH_PARTITION"] == "boost_usr_prod"
    assert loaded["LABKIT_SBATCH_OPTIONS"] == "--cpus-per-task=8"
    assert loaded["SBATCH_GRES"] == "gpu:4"
    assert sites.load("leonardo", bare | {"SBATCH_PARTITION": "p"})["SBATCH_PARTITION"] == "p"
    assert "LABKIT_MPI" not in sites.load("ascend"), "empty is left out"
    now = sites.environment("snellius", {**bare, **sites.load("leonardo", bare)})
    assert bare.items() < now.items()
    assert now["SBATCH_PARTITION"] == "gpu_a100"
    assert not now.keys() & {"SBATCH_GRES", "SBATCH_MEM_PER_NODE"}
