# LUMI-G (CSC, LUMI consortium): nodes with 56 usable cores and 4 AMD MI250X, which Slurm counts as 8 GPUs.
# not run here; from github.com/Lumi-supercomputer/lumi-userguide (docs/runjobs, docs/software), 2024-10-15
# AMD GPUs: PyTorch for ROCm, RCCL in the place of NCCL; MVAPICH2-GDR's CUDA switches do not apply.
export SITE=lumi

# Set your own project:
# export SBATCH_ACCOUNT=project_465000000
# standard-g: whole nodes, up to 2 days. dev-g: up to 3 hours, one running job. small-g: parts of up to 4 nodes.
export SBATCH_PARTITION="${SBATCH_PARTITION:-standard-g}"

export LABKIT_GPUS_PER_NODE=8
export LABKIT_GPU_FORM="gpus-per-node"
export SBATCH_GPUS_PER_NODE=8
# 56 cores / 8 ranks.
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=7"

# github.com/ECP-WarpX/WarpX, lumi_warpx.profile.example, 2024-10-24; the programming environment's MPI is Cray MPICH.
# Ask the site: which LUMI/YY.MM is current? Its modules change every few months.
export LABKIT_MODULES="LUMI/24.03 partition/G rocm/6.0.3"
export LABKIT_LAUNCHER="srun"
export LABKIT_MPI="cray-mpich"
# For GPU buffers in MPI, only with a program linked against Cray's GPU transfer library (lumig-job.md):
# export MPICH_GPU_SUPPORT_ENABLED=1

# docs/software/packages/pytorch.md. RCCL needs the plugin aws-ofi-rccl to use the Slingshot network (same page).
export NCCL_SOCKET_IFNAME=hsn
