"""The files of a cluster: slurm.conf and its companions, the hosts file, env.sh and the commands in
bin/."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from slurm.tabletop import needs
from slurm.tabletop.settings import CPUS, Settings

HERE = Path(__file__).resolve().parent
INSIDE = HERE / "inside"  # what runs inside of the cluster's namespaces
ROOT = HERE.parents[1]
RUN = "/dev/shm/.tabletop"  # as in inside/cluster.sh
COMMANDS = (
    "sinfo",
    "sbatch",
    "srun",
    "salloc",
    "squeue",
    "scancel",
    "scontrol",
    "sattach",
    "sprio",
    "sdiag",
)
OWN = ("sacct", "tabletop-node")

# Every line that a learner might wonder about says why. Options: slurm.conf(5).
SLURM_CONF = """\
ClusterName={name}
SlurmctldHost=login(10.77.0.1)
AuthType=auth/munge
AuthInfo=socket={run}/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={run}/ctld
SlurmdSpoolDir={run}/spool/%n
SlurmctldPidFile={run}/ctld/pid
SlurmdPidFile={run}/spool/%n.pid
# The machine is shared by all nodes: nothing is pinned, nothing is limited.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
# Slurm itself ends what descends from a job's first process; this ends what has left that family.
Epilog={run}/conf/epilog.sh
SlurmdParameters=config_overrides
MpiDefault=pmi2
# A node that does not answer for 10 s is down; a job on it ends and is not tried again.
SlurmdTimeout=10
ReturnToService=2
JobRequeue=0
KillWait=5
MinJobAge=3600
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=5
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
FirstJobId={first_job}
# A job of a partition with a higher PriorityTier takes the nodes of one that may be requeued.
# That one first gets its --signal, and GraceTime seconds. There is no such partition until one
# is created: lab 70 does.
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
# From Slurm 23.02 on this is PreemptParameters=send_user_signal; the name that 22.05 knows is
# still read.
SlurmctldParameters=preempt_send_user_signal
# One line for each finished job; sacct reads it.
JobCompType=jobcomp/filetxt
JobCompLoc={run}/state/jobs.txt
{gres_types}
{nodes}
PartitionName=tabletop Nodes=ALL Default=YES MaxTime=INFINITE GraceTime=30 State=UP
"""


def address(number: int) -> str:
    """Node `number`'s address in the cluster's own network."""
    return f"10.77.0.{10 + number}"


def memory() -> int:
    """The machine's memory in MB; each node may use all of it."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20


def slurm_conf(name: str, settings: Settings, first_job: int) -> str:
    """slurm.conf as text."""
    gres = f" Gres=gpu:{settings.gpus}" if settings.gpus else ""
    lines = [
        f"NodeName=node{number} NodeAddr={address(number)} CPUs={CPUS} RealMemory={memory()}{gres}"
        for number in range(1, settings.nodes + 1)
    ]
    return SLURM_CONF.format(
        name=name,
        run=RUN,
        first_job=first_job,
        nodes="\n".join(lines),
        gres_types="GresTypes=gpu" if settings.gpus else "",
    )


def gres_conf(settings: Settings) -> str:
    """gres.conf: the device files that stand for GPUs."""
    last = settings.gpus - 1
    span = "0" if last == 0 else f"[0-{last}]"
    return f"AutoDetect=off\nName=gpu File={RUN}/gpu/gpu{span}\n" if settings.gpus else ""


def cgroup_conf(slurm_version: tuple[int, int]) -> str:
    """cgroup.conf: nothing is limited here, and nothing asked of the machine's control groups.

    Left to itself slurmd looks at what is mounted, and where that is version 2 it wants a scope of
    systemd's. Releases before 24.05 need a plug-in; that for version 1 asks for nothing while
    nothing is limited.
    """
    return f"CgroupPlugin={'disabled' if slurm_version >= (24, 5) else 'cgroup/v1'}\n"


def hosts(settings: Settings) -> str:
    """/etc/hosts inside the cluster."""
    lines = ["127.0.0.1 localhost", "::1 localhost", "10.77.0.1 login"]
    for number in range(1, settings.nodes + 1):
        lines.append(f"{address(number)} node{number}")
        # PyTorch looks up who calls it by this form of the address, and warns when it has no name.
        lines.append(f"::ffff:{address(number)} node{number}.tabletop")
    return "\n".join(lines) + "\n"


def write(
    state: Path, name: str, settings: Settings, first_job: int, slurm_version: tuple[int, int]
) -> None:
    """Write conf/, bin/, env.sh and what the shell scripts read, below the cluster's folder."""
    (state / "conf").mkdir(parents=True, exist_ok=True)
    files = {
        "conf/slurm.conf": slurm_conf(name, settings, first_job),
        "conf/gres.conf": gres_conf(settings),
        "conf/hosts": hosts(settings),
        "conf/cgroup.conf": cgroup_conf(slurm_version),
        "name": name + "\n",
        "settings": settings.as_shell(),
        "env.sh": env_sh(state),
    }
    for path, text in files.items():
        (state / path).write_text(text, encoding="utf-8")
    shutil.copy(INSIDE / "epilog.sh", state / "conf")
    # Now that slurm.conf has the number of the next job, the old log may go.
    for folder in ("log", "bin"):
        shutil.rmtree(state / folder, ignore_errors=True)
        (state / folder).mkdir()
    (state / "log").chmod(0o700)  # it names all users' jobs and files
    _write_commands(state, name)


def env_sh(state: Path) -> str:
    """What a person sources: the cluster's commands first in PATH."""
    folder = shlex.quote(str(state / "bin"))
    return (
        "# Source this: Slurm's commands then speak to this cluster.\n"
        f'case ":$PATH:" in *:{folder}:*) ;; *) export PATH={folder}:"$PATH" ;; esac\n'
        "export SITE=tabletop\n"
    )


def _write_commands(state: Path, name: str) -> None:
    values = {
        "name": name,
        "state": str(state),
        "python": sys.executable,
        "root": str(ROOT),
        "tools": str(Path(needs.program("sinfo")).parent),
    }
    text = (INSIDE / "enter.sh").read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", shlex.quote(value), 1)
    program = state / "bin" / "tabletop-enter"
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    for command in (*COMMANDS, *OWN):
        (state / "bin" / command).symlink_to("tabletop-enter")
