# The tabletop cluster (make tabletop): real Slurm on one Linux machine. It was run; see tests/test_tabletop.py.
export SITE=tabletop
export LABKIT_MODULES="" # nothing to load: MPI is in this checkout's .venv
export LABKIT_LAUNCHER="srun --mpi=pmi2"
export LABKIT_MPI="mpich"
export LABKIT_GPUS_PER_NODE=0 LABKIT_GPU_FORM="none" # --gpus-per-node is granted when asked for, without any GPU
if [ -n "${SLURM_JOB_ID:-}" ]; then # only in a job: on the machine itself eth0 may be missing
    # Between nodes MPICH takes the network: shared memory would find its way from one "node" to the other.
    # Inside a node MPICH uses its own shared memory, which UCX_TLS does not touch.
    export UCX_TLS=tcp,self UCX_NET_DEVICES=eth0
    export FI_PROVIDER=tcp FI_TCP_IFACE=eth0
    # Gloo asks for the interface by name.
    export HOROVOD_GLOO_IFACE=eth0 GLOO_SOCKET_IFNAME=eth0
fi
