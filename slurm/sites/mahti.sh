# Mahti (CSC): nodes with 128 cores (2 AMD Rome 7H12) and 4 NVIDIA A100.
# not run here; from github.com/CSCfi/csc-user-guide (docs/computing), 2026-08-21
# The guide says that Mahti runs no jobs after 31 August 2026 and that Roihu takes its place: see roihu.sh.
export SITE=mahti

# Set your own project:
# export SBATCH_ACCOUNT=project_2001234
# gpumedium: up to 6 nodes. gputest: 1 node, 15 minutes.
export SBATCH_PARTITION="${SBATCH_PARTITION:-gpumedium}"

export LABKIT_GPUS_PER_NODE=4
export LABKIT_GPU_FORM="gres"
export SBATCH_GRES="gpu:a100:4"
# At most 32 cores per GPU.
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=32"

# compiling-mahti.md, for CUDA. Mahti's MPI is Open MPI; the guide does not name its module for this compiler.
export LABKIT_MODULES="gcc/10.4.0 cuda/12.6.1"
# creating-job-scripts-mahti.md: "should not be started with mpirun or mpiexec. Use srun instead."
export LABKIT_LAUNCHER="srun"
export LABKIT_MPI="openmpi"
# NCCL_SOCKET_IFNAME: not in the guide.
