"""`horovodrun` of this build: ranks on this machine, started by MPI.

Horovod 0.28.1's own also starts ranks over Gloo, on other hosts and in elastic jobs. What it needs
for them, servers among it, is not in this build: each such option is refused with what to type
instead.
"""

import argparse
import os
import shlex
import shutil
import socket
import subprocess
import sys

import horovod
from horovod.common import util

HOSTS = (
    "it starts ranks on this machine alone. On several, type mpiexec -n 4 -hosts node1,node2 python"
    " train.py, or srun python train.py in a job of Slurm"
)
GLOO = (
    "ranks are started by MPI. Leave this option out; HOROVOD_CPU_OPERATIONS=gloo in the"
    " environment has Gloo carry tensors of CPUs"
)
ELASTIC = (
    "elastic jobs are not in this build. Leave this option out, write checkpoints, and start the"
    " job again with mpiexec or srun after a failure"
)
REFUSED = {
    HOSTS: ("-hostfile", "--hostfile", "-p", "--ssh-port", "-i", "--ssh-identity-file"),
    GLOO: ("--gloo", "--jsrun"),
    ELASTIC: (
        *(
            "--min-np",
            "--min-num-proc",
            "--max-np",
            "--max-num-proc",
            "--slots-per-host",
            "--reset-limit",
        ),
        *("--host-discovery-script", "--elastic-timeout", "--blacklist-cooldown-range"),
    ),
}
SETTINGS = (
    "is no option here. Horovod's settings are environment variables: HOROVOD_TIMELINE,"
    " HOROVOD_FUSION_THRESHOLD, HOROVOD_CYCLE_TIME and others, as in HOROVOD_TIMELINE=file"
    " horovodrun …"
)


def built():
    """What `--check-build` says: the frameworks, controllers and libraries that are in this
    Horovod."""
    asked = {
        "Available Frameworks": {
            "TensorFlow": util.extension_available("tensorflow"),
            "PyTorch": util.extension_available("torch"),
        },
        "Available Controllers": {"MPI": util.mpi_built()},
        "Available Tensor Operations": {
            "NCCL": util.nccl_built(),
            "CCL": util.ccl_built(),
            "MPI": util.mpi_built(),
            "Gloo": util.gloo_built(),
        },
    }
    lines = [f"Horovod v{horovod.__version__}:"]
    for title, answers in asked.items():
        lines += ["", f"{title}:"]
        lines += [f"    [{'X' if there else ' '}] {name}" for name, there in answers.items()]
    return "\n".join(lines)


def is_here(host):
    """Is this name of a host, "node1:4" or without a number, one of this machine?"""
    return host.partition(":")[0] in ("localhost", "127.0.0.1", socket.gethostname())


class Refuse(argparse.Action):
    """Ends the program with the sentence in `const`."""

    def __call__(self, parser, namespace, values, option_string=None):
        """As argparse calls it."""
        parser.error(f"{option_string}: {self.const}.")


def options_of(arguments):
    """The options among `arguments`, which end where the ranks' command begins. Ends on a refused
    one."""
    parser = argparse.ArgumentParser(prog="horovodrun", description=__doc__, allow_abbrev=False)
    parser.add_argument("-v", "--version", action="version", version=horovod.__version__)
    parser.add_argument(
        "-cb", "--check-build", action="store_true", help="say what was built, and end"
    )
    parser.add_argument("-np", "--num-proc", type=int, help="how many ranks to start")
    parser.add_argument("-H", "--hosts", help="this machine, as localhost:2; no other is taken")
    parser.add_argument("--mpi", action="store_true", help="start ranks by MPI, as is done anyway")
    parser.add_argument(
        "--verbose", action="store_true", help="print the command of MPI's launcher"
    )
    for sentence, names in REFUSED.items():
        parser.add_argument(
            *names, action=Refuse, const=sentence, nargs="?", help=argparse.SUPPRESS
        )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what each rank runs")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.error(f"{unknown[0]} {SETTINGS}.")
    if options.hosts and not all(is_here(host) for host in options.hosts.split(",")):
        parser.error(f"-H {options.hosts}: {HOSTS}.")
    if not options.check_build and (
        not options.command or not options.num_proc or options.num_proc < 1
    ):
        parser.error("say how many ranks, and what they run: horovodrun -np 2 python train.py")
    return options


def launcher(ranks):
    """The command that starts so many ranks on this machine. Ends with a sentence where there is no
    MPI."""
    folders = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    mpiexec = shutil.which("mpiexec", path=folders)
    if mpiexec is None:
        sys.exit(
            "horovodrun: no mpiexec in PATH. Load the site's MPI module, or use the site's"
            " launcher."
        )
    said = subprocess.run(
        [mpiexec, "--version"], capture_output=True, text=True, check=False
    ).stdout
    if any(name in said for name in ("Open MPI", "OpenRTE", "PRTE", "PRRTE")):
        return [mpiexec, "--allow-run-as-root", "--host", f"localhost:{ranks}", "-n", str(ranks)]
    loopback = ["-iface", "lo"] if sys.platform.startswith("linux") else []
    return [mpiexec, "-l", *loopback, "-launcher", "fork", "-hosts", "localhost", "-n", str(ranks)]


def run_commandline():
    """The command line: ends as the ranks do."""
    options = options_of(sys.argv[1:])
    if options.check_build:
        print(built())
        return
    command = [*launcher(options.num_proc), *options.command]
    if options.verbose:
        print(shlex.join(command), flush=True)
    os.execv(command[0], command)


if __name__ == "__main__":
    run_commandline()
