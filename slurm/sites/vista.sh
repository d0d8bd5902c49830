# Vista (TACC): Grace Hopper nodes with 72 Arm cores and 1 NVIDIA GPU; more GPUs means more nodes.
# not run here; from github.com/TACC/TACC-Docs (docs/hpc/vista), 2026-08-12
export SITE=vista

# -A is only needed if you have several projects:
# export SBATCH_ACCOUNT=MyProject
# gh-dev: up to 8 nodes and 2 hours, one job at a time. For longer or larger jobs: gh.
export SBATCH_PARTITION="${SBATCH_PARTITION:-gh-dev}"

export LABKIT_GPUS_PER_NODE=1
# A job gets whole nodes; --gres, --gpus-per-task and --mem are refused.
export LABKIT_GPU_FORM="none"
# 72 cores for as many as 4 ranks, though there is one GPU: a batch script puts up to 2 on a node.
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=18"

# launching.md: "use the TACC-specific MPI launcher ibrun".
export LABKIT_LAUNCHER="ibrun"
# building.md names two MPI libraries, the modules ompi and mvapich. These versions with MVAPICH-Plus were seen in one
# user's script only, so that `module spider mvapich-plus` should be asked first: gcc/15.1.0 cuda/13.0 mvapich-plus/5.1.0
export LABKIT_MODULES="gcc ompi"
# For `make setup` alone: nvcc, and no library that a job should load, since PyTorch brings its own.
export LABKIT_SETUP_MODULES="cuda"
export LABKIT_MPI="openmpi"
# Ask the site: which version of gcc, cuda and ompi belong together, and is there a CUDA-aware MVAPICH (mvapich-plus)?
# NCCL_SOCKET_IFNAME: not in the documentation.
