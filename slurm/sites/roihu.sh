# Roihu (CSC): GPU nodes with 4 NVIDIA GH200, each a Hopper GPU with 72 Arm cores.
# not run here; from github.com/CSCfi/csc-user-guide (docs/computing), 2026-08-21
# Log in to roihu-gpu.csc.fi and run `make setup` there: the CPU side of Roihu has another processor (x86).
export SITE=roihu

# Set your own project:
# export SBATCH_ACCOUNT=project_2001234
# gpumedium: up to 4 nodes, but no more than 4 GPUs in a job. gputest: up to 2 nodes with 4 GPUs each, 15 minutes.
# gpularge: up to 10 nodes, after a scalability test.
export SBATCH_PARTITION="${SBATCH_PARTITION:-gputest}"

export LABKIT_GPUS_PER_NODE=4
export LABKIT_GPU_FORM="gres"
export SBATCH_GRES="gpu:gh200:4"
# Each GPU comes with up to 72 cores.
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=72"

# compiling-roihu.md, "Compiling on Roihu-GPU": the suite that is loaded by default.
export LABKIT_MODULES="gcc/14.3.0 openmpi/5.0.10"
# For `make setup` alone: nvcc, and no library that a job should load, since PyTorch brings its own.
export LABKIT_SETUP_MODULES="cuda/12.9.1"
export LABKIT_LAUNCHER="srun"
export LABKIT_MPI="openmpi"
# NCCL_SOCKET_IFNAME: not in the guide.
