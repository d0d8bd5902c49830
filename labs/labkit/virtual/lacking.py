"""mpi4py's names that the virtual cluster does not have: they raise a sentence."""

from __future__ import annotations

from labkit.errors import LabError

_COMM = """
    Abort Accept Ack_failed Agree Allgather_init Allgatherv_init Allreduce_init Alltoall_init Alltoallv
    Alltoallv_init Alltoallw Alltoallw_init Attach_buffer Barrier_init Bcast_init Bsend Bsend_init
    Call_errhandler Cart_map Clone Compare Connect Create Create_dist_graph Create_dist_graph_adjacent
    Create_errhandler Create_from_group Create_graph Create_group Create_intercomm Create_keyval Delete_attr
    Detach_buffer Disconnect Dup_with_info Exscan Exscan_init Flush_buffer Free_keyval Gather_init Gatherv
    Gatherv_init Get_attr Get_errhandler Get_failed Get_group Get_info Get_name Get_parent Get_topology
    Graph_map Iagree Iallgather Iallgatherv Ialltoall Ialltoallv Ialltoallw Ibsend Idup Idup_with_info
    Iexscan Iflush_buffer Igather Igatherv Improbe Ireduce_scatter Ireduce_scatter_block Irsend
    Is_inter Is_intra Is_revoked Iscan Iscatter Iscatterv Isendrecv Isendrecv_replace Ishrink Join Mprobe
    Precv_init Psend_init Recv_init Reduce_init Reduce_scatter_block_init Reduce_scatter_init Revoke Rsend
    Rsend_init Scan_init Scatter_init Scatterv Scatterv_init Send_init Sendrecv_replace Set_attr
    Set_errhandler Set_info Set_name Shrink Spawn Spawn_multiple Ssend_init bsend exscan group handle ibsend
    improbe info is_inter is_intra is_topo mprobe name topology
"""
_REQUEST = """
    Cancel Free Get_status Get_status_all Get_status_any Get_status_some Start Startall Testsome Waitsome
    cancel free get_status testsome waitsome
"""


class _Lacking:
    def __init__(self, whose: str):
        self.whose = whose

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> None:
        if instance is None:
            return self
        raise LabError(
            f"The virtual cluster's {self.whose} has no {self.name}. On real ranks (launch.run) mpi4py's "
            "own is there."
        )


def add(owner: type, whose: str, names: str) -> None:
    for name in names.split():
        if not hasattr(owner, name):
            lacking = _Lacking(whose)
            lacking.__set_name__(owner, name)
            setattr(owner, name, lacking)


def add_to_comm(owner: type) -> type:
    """A class decorator. Not __getattr__, with which Python looks up every attribute more slowly."""
    add(owner, "comm", _COMM)
    return owner


def add_to_request(owner: type) -> type:
    add(owner, "request", _REQUEST)
    return owner
