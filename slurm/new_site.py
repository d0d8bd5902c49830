"""`make site NAME=mycluster`: slurm/sites/template.sh with what Slurm says on this login node
filled in.

Nothing is overwritten. What is not known is left empty, and `make doctor SITE=mycluster` says so.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping

from labkit import doctor, mpis, paths
from labkit.cluster import sites, slurm
from labkit.errors import LabError, NotHere, exit_status

# What may stand between double quotes in bash without a meaning of its own.
_PLAIN = re.compile(r"[\w./:+=@,% -]*")
# Modules that only the set-up needs: in a job, libraries of these would be beside PyTorch's own.
_FOR_SETUP = re.compile(r"(cuda|cudatoolkit|nccl|cudnn|cmake)(/|$)", re.IGNORECASE)


def write(name: str) -> str:
    """Write the file; the sentence about it. LabError for a name that will not do, or without
    Slurm."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,40}", name):
        raise LabError(
            f"NAME={name!r} will not do: small letters, digits, _ and -, such as my_cluster."
        )
    if name == "template" or name in sites.names():
        raise LabError(
            f"slurm/sites/{name}.sh is there already, and is left as it is. Choose another NAME."
        )
    folder = paths.root() / "slurm" / "sites"
    template = (folder / "template.sh").read_text(encoding="utf-8")
    text = fill(template, {"SITE": name, **look()})
    with (folder / f"{name}.sh").open("x", encoding="utf-8") as file:
        file.write(text)
    return (
        f"Written: slurm/sites/{name}.sh, with what Slurm, the modules loaded and the MPI library"
        " say here. Read it, and correct what does not apply. Next, also on a login node: make"
        f" doctor SITE={name}"
    )


def look() -> dict[str, str]:
    """Variable -> value, "" where it is not known. Raises slurm.Failed where Slurm does not
    answer."""
    client = slurm.Client()
    said = client.call("scontrol", "show", "config")
    config = dict(re.findall(r"(?m)^(\w+)\s*=\s*(.*?)\s*$", said))
    # The default partition if its nodes have GPUs, else the first that has some, else the default.
    partition = min(client.partitions(), key=lambda each: (each.gpus == 0, not each.default))
    gpus = partition.gpus
    form = "none"
    if gpus:
        form = "gpus-per-node" if "cons_tres" in config.get("SelectType", "") else "gres"
    counts = re.findall(r"\d+", client.ask("sinfo", "-h", "-p", partition.name, "-o", "%c"))
    cores = min(map(int, counts), default=0) // max(1, gpus)
    modules = list(filter(None, os.environ.get("LOADEDMODULES", "").split(":")))
    found = {
        "SBATCH_PARTITION": partition.name,
        "LABKIT_GPUS_PER_NODE": str(gpus),
        "LABKIT_GPU_FORM": form,
        "SBATCH_GPUS_PER_NODE": str(gpus) if form == "gpus-per-node" else "",
        "SBATCH_GRES": f"gpu:{gpus}" if form == "gres" else "",
        "LABKIT_SBATCH_OPTIONS": f"--cpus-per-task={cores}" if gpus and cores else "",
        "LABKIT_MODULES": " ".join(name for name in modules if not _FOR_SETUP.match(name)),
        "LABKIT_SETUP_MODULES": " ".join(name for name in modules if _FOR_SETUP.match(name)),
        "LABKIT_LAUNCHER": _launcher(client, config.get("MpiDefault", "none")),
        "LABKIT_MPI": _mpi(),
    }
    return {name: value if _PLAIN.fullmatch(value) else "" for name, value in found.items()}


def _launcher(client: slurm.Client, default: str) -> str:
    if default not in ("none", "(null)", ""):
        return "srun"
    plugins = client.mpi_plugins()
    best = next((name for name in ("pmi2", "pmix", "cray_shasta") if name in plugins), None)
    return f"srun --mpi={best}" if best else ""


def _mpi() -> str:
    """The flavor of the MPI library that a rank would load now."""
    try:
        family = doctor.which_mpi().family
    except NotHere:
        return ""
    return next((flavor for flavor, families in mpis.FLAVORS.items() if family == families[0]), "")


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with these values; an empty SBATCH_ variable becomes a comment, for sbatch reads
    it."""
    text = re.sub(r"(?m)^# not run here.*\n", "", template)
    text = text.replace(
        "# Template of a site file: everything", "# Written by `make site`: everything", 1
    )
    for name, value in values.items():
        line = f'export {name}="{value}"'
        if name == "SBATCH_PARTITION":
            line = f'export {name}="${{{name}:-{value}}}"'  # the user's own wins
        elif name.startswith("SBATCH_") and not value:
            line = f"# export {name}=…"
        text = re.sub(rf"(?m)^(# )?export {name}=.*$", lambda _, line=line: line, text, count=1)
    return text


def main() -> int:
    """`make site NAME=x`. 0: the file is written; 1: it is not, and why; 130: Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="slurm.new_site", description="Write slurm/sites/NAME.sh."
    )
    parser.add_argument("name", help="of the new site file, without .sh")
    name = parser.parse_args().name
    return exit_status(lambda: print(write(name)))


if __name__ == "__main__":
    sys.exit(main())
