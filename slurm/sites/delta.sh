# Delta (NCSA): nodes with one 64-core AMD EPYC 7763 and 4 NVIDIA A100 (simultaneous multithreading is off).
# not run here; from github.com/ncsa/Delta_doc (running_jobs.rst, architecture.rst), 2025-05-28
# Delta moved to Red Hat 9 and the Cray programming environment in the winter of 2025/26; what changed is marked RH9 and
# comes from docs.ncsa.illinois.edu/systems/delta/en/rh9/user_guide/prog_env.html, a page without a date.
export SITE=delta

# `accounts` on a login node prints your projects. Set your own (in users' scripts those for GPUs end in -delta-gpu):
# export SBATCH_ACCOUNT=abcd-delta-gpu
export SBATCH_PARTITION="${SBATCH_PARTITION:-gpuA100x4}"
# The sample script asks for 208 GB with all 4 GPUs of a node.
export SBATCH_MEM_PER_NODE="${SBATCH_MEM_PER_NODE:-208G}"

export LABKIT_GPUS_PER_NODE=4
export LABKIT_GPU_FORM="gpus-per-node"
export SBATCH_GPUS_PER_NODE=4
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=16"

# RH9: the default is PrgEnv-gnu with Cray MPICH; there is no mpirun.
export LABKIT_MODULES="PrgEnv-gnu cray-mpich"
# For `make setup` alone: nvcc, and no library that a job should load, since PyTorch brings its own.
export LABKIT_SETUP_MODULES="cudatoolkit/25.3_12.8"
export LABKIT_LAUNCHER="srun"
export LABKIT_MPI="cray-mpich"

# From the sample script "PyTorch Multi-Node": the Slingshot interfaces begin with hsn.
export NCCL_SOCKET_IFNAME=hsn
# Ask the site: what is the module with NCCL's Slingshot plugin called since RH9 (before: nccl)?
