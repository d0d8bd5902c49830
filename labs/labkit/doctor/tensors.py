"""Where a GPU's tensors go here: to MPI and to Horovod's library as they are, or through host memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labkit.doctor import mpi as doctor_mpi

AS_THEY_ARE = "taken as they are"


def by_mpi(mpi: Mapping, environment: Mapping[str, str]) -> str:
    """Of a GPU's tensors that are handed to this MPI, in words. mpi: that group of the report."""
    settings = doctor_mpi.parameters(environment, mpi["files"] or [])
    reason = doctor_mpi.staging_reason(mpi["family"], mpi["version"], mpi["cuda_built"], settings)
    return f"staged through the host: {reason}" if reason else AS_THEY_ARE


def by_horovod(built: Sequence[str], build: str | None, to_mpi: str) -> str:
    """The same of horovod.torch, in words; labkit.placement.of_horovod decides likewise on the ranks.

    built: what its library was built with, "nccl" and "cuda" perhaps among them. build: its name, see
    labkit.builds. to_mpi: what `by_mpi` says.
    """
    if "nccl" in built:
        return f"{AS_THEY_ARE}, by NCCL"
    if build != "host":
        return f"{to_mpi}, by MPI" if to_mpi == AS_THEY_ARE else to_mpi
    who = "Horovod itself" if "cuda" in built else "the labs"
    return f"staged through the host by {who}: this build has no operations for GPUs"
