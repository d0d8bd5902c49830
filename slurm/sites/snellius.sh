# Snellius (SURF): nodes with 72 cores and 4 NVIDIA A100 (gpu_a100), or 64 cores and 4 H100 (gpu_h100).
# not run here; from servicedesk.surf.nl/wiki, "Snellius partitions", a page without a date
# GPU request and srun: github.com/SURF-ML/Snellius-AI-Guide (run.sh of 03 and 05), 2025-11-24.
export SITE=snellius

# No source sets an account. If you have several, ask the service desk which one: export SBATCH_ACCOUNT=…
export SBATCH_PARTITION="${SBATCH_PARTITION:-gpu_a100}"

export LABKIT_GPUS_PER_NODE=4
export LABKIT_GPU_FORM="gpus-per-node"
export SBATCH_GPUS_PER_NODE=4
# A quarter of a node is 18 cores and 1 GPU. On gpu_h100 it is 16 cores.
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=18"

# The year of the software stack first, then a toolchain with Open MPI: github.com/HPC-TUE/multi-gpu (README), 2025.
export LABKIT_MODULES="2023 foss/2023a"
# For `make setup` alone: nvcc, and no library that a job should load, since PyTorch brings its own.
export LABKIT_SETUP_MODULES="CUDA/12.4.0"
export LABKIT_LAUNCHER="srun"
# foss is EasyBuild's toolchain of GCC and Open MPI.
export LABKIT_MPI="openmpi"

# github.com/HPC-TUE/multi-gpu (README), 2025: eno1np0 on the A100 nodes, eno2np0 on the H100 nodes.
export NCCL_SOCKET_IFNAME=eno1np0
# Ask the site: which module of the year 2024 or later has a CUDA-aware Open MPI (UCX-CUDA), and srun's --mpi for it?
