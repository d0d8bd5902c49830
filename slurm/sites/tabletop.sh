# shellcheck shell=bash
# The tabletop cluster (make tabletop): real Slurm on one Linux machine. It was run; see tests/slurm/test_tabletop.py.
export SITE=tabletop
export LABKIT_MODULES="" # nothing to load: MPI is in this checkout's .venv
export LABKIT_LAUNCHER="srun --mpi=pmi2"
export LABKIT_MPI="mpich"
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=1" # the nodes share this machine's cores
export LABKIT_GPUS_PER_NODE=0 LABKIT_GPU_FORM="none" # --gpus-per-node is granted when asked for, without any GPU
# For make hub: the login node as the nodes see it; a notebook server keeps one of a node's 16 CPUs for a day's class.
export LABKIT_HUB_ADDRESS=10.77.0.1 LABKIT_HUB_TIME="08:00:00" LABKIT_HUB_CPUS=1
if [ -n "${SLURM_JOB_ID:-}" ]; then # only in a job: outside of the nodes there may be no eth0
    # Over libfabric, not UCX: a UCX address fills 4 KiB of PMI lines, of which some are too long for Slurm's pmi2,
    # and then MPI_Init fails or hangs (pmodels/mpich issue 6924). A libfabric address has 16 bytes.
    export MPICH_CH4_NETMOD=ofi
    # Between nodes MPICH takes the network: shared memory would find its way from one "node" to the other.
    # Inside a node MPICH uses its own shared memory, which these do not touch.
    export UCX_TLS=tcp,self UCX_NET_DEVICES=eth0
    export FI_PROVIDER=tcp FI_TCP_IFACE=eth0
    # A long message goes in pieces. In one piece it holds up the answer that the other direction waits for, and
    # every other Sendrecv of tens of MB then takes twice as long.
    export UCX_TCP_PUT_ENABLE=n
    # Gloo asks for the interface by name.
    export HOROVOD_GLOO_IFACE=eth0 GLOO_SOCKET_IFNAME=eth0
fi
