"""What is changed in MVAPICH2's sources before they are compiled."""

from __future__ import annotations

from pathlib import Path

from env.horovod.edit import Edit, EditError
from env.install.steps import StepFailed

TCP = "src/mpid/ch3/channels/nemesis/netmod/tcp/"
EDITS = (
    Edit(
        "tcp-undeclared",
        TCP + "tcp_init.c",
        "2.3.7 replaced gethostbyname by getaddrinfo, and tests a variable that there is not: the TCP part "
        "of ch3:nemesis does not compile",
        "MPIR_ERR_CHKANDJUMP2(mpierrno != 0, mpi_errno, MPI_ERR_OTHER,",
        "MPIR_ERR_CHKANDJUMP2(mpi_errno != 0, mpi_errno, MPI_ERR_OTHER,",
    ),
    Edit(
        "tcp-address-text",
        TCP + "tcp_getip.c",
        "the same change hands inet_ntop the address itself, not where it lies, and pointers for letters",
        "char* ip[INET_ADDRSTRLEN];\n            inet_ntop(AF_INET, addr, ip, sizeof(ip));",
        "char ip[INET_ADDRSTRLEN];\n            inet_ntop(AF_INET, &addr, ip, sizeof(ip));",
    ),
)


def apply_all(sources: Path) -> None:
    """Edit the unpacked sources. Raises StepFailed when one does not fit."""
    try:
        for edit in EDITS:
            edit.apply(sources)
    except EditError as error:
        raise StepFailed(str(error), "Use one of the archives that this kit knows.") from None
