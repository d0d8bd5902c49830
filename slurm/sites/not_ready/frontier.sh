# Frontier (OLCF): nodes with one 64-core AMD EPYC and 4 AMD MI250X, which Slurm counts as 8 GPUs (one per die).
# not run here; from github.com/olcf/olcf-user-docs (frontier_user_guide.rst, pytorch_frontier.rst), 2026-07-22
# AMD GPUs: PyTorch for ROCm, RCCL in the place of NCCL; MVAPICH2-GDR's CUDA switches do not apply.
export SITE=frontier

# Set your own project:
# export SBATCH_ACCOUNT=abc123
# batch is the default partition; for tests up to 2 hours: export SBATCH_QOS=debug (one job at a time).
export SBATCH_PARTITION="${SBATCH_PARTITION:-batch}"

export LABKIT_GPUS_PER_NODE=8
# A job gets whole nodes. The guide lists --gpus-per-node among the options; its scripts bind with --gpus-per-task=1.
export LABKIT_GPU_FORM="gpus-per-node"
export SBATCH_GPUS_PER_NODE=8
# One core of each L3 region is kept back: 56 cores for 8 ranks. --network: from the guide's PyTorch script.
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=7 --network=disable_rdzv_get"

# From the PyTorch script. The guide has a table of which cray-mpich, cpe and rocm belong together.
export LABKIT_MODULES="PrgEnv-gnu/8.7.0 cpe/26.03 rocm/7.1.1 rccl-net-plugin craype-accel-amd-gfx90a"
export LABKIT_LAUNCHER="srun"
export LABKIT_MPI="cray-mpich"
# MVAPICH-Plus as user-managed software: module load ums ums038, then mvapich-plus/4.0-gnu (MVAPICH-docs, branch add_ums).
# For GPU buffers in MPI, with an mpi4py built by `MPICC="cc -shared"`: export MPICH_GPU_SUPPORT_ENABLED=1

# pytorch_frontier.rst: "if you see hangs, try using only hsn0".
export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3
