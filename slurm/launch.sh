# shellcheck shell=bash
# Sourced by the batch scripts, which then call `launch NN_name`. Reads the site file, loads its modules and
# hands over to slurm.job, which looks at the node, starts the ranks and ends as they end.
# Knobs from the environment: SITE (always), SOLVED=1, SET="epochs=1", LABKIT_HOROVOD=nccl, LABKIT_MPI_BUILD=mvapich2,
# LABKIT_ENV="NCCL_DEBUG=INFO" (variables of the ranks, which win over the site file's), LABKIT_HOME.
set -euo pipefail

# The job ends with one sentence for the person who reads its output.
stop() {
    echo "$*" >&2
    exit 1
}

# A batch shell is no login shell, so the site's `module` command may still have to be brought in.
bring_modules() {
    local start
    for start in "${LMOD_PKG:-/usr/share/lmod/lmod}/init/bash" "${MODULESHOME:-/usr/share/modules}/init/bash" \
        /etc/profile.d/lmod.sh /etc/profile.d/modules.sh; do
        declare -F module >/dev/null && return
        # shellcheck disable=SC1090 # a file of the site
        if [[ -r $start ]]; then source "$start"; fi
    done
}

# The modules that the site file names, in its order.
load_modules() {
    local module
    for module in ${LABKIT_MODULES:-}; do
        declare -F module >/dev/null || stop "$SITE wants the modules $LABKIT_MODULES," \
            "but $(hostname) has no \`module\` command."
        module load "$module" || stop "The module $module of slurm/sites/$SITE.sh cannot be loaded on $(hostname)."
    done
}

# slurm/sites/$SITE.sh says what is special about this cluster.
read_site() {
    local file sites="" horovod=${LABKIT_HOROVOD:-}
    for file in slurm/sites/*.sh; do
        [[ $file == */template.sh ]] || sites+=" $(basename "$file" .sh)"
    done
    [[ -r slurm/sites/${SITE:-}.sh ]] || stop "${SITE:+There is no slurm/sites/$SITE.sh. }Say which cluster this is, as in:" \
        "SITE=tabletop sbatch slurm/$1.sbatch. Known are:$sites. \`make site NAME=x\` writes a file for another one."
    set +eu # what modules do inside is not ours to judge
    bring_modules
    # shellcheck disable=SC1090
    source "slurm/sites/$SITE.sh" || stop "slurm/sites/$SITE.sh ended with an error, see above."
    if [[ -n $horovod ]]; then export LABKIT_HOROVOD=$horovod; fi # the user's own choice wins over the file's
    load_modules
    set -eu
}

# Hand over to a module of the kit on the first node of a job.
hand_over() { # module [argument…]
    local python=.venv/bin/python
    [[ -x $python ]] || stop "On $(hostname) there is no $PWD/$python that can be run: \`make setup\` makes it." \
        "The nodes must see this folder, and the Python with which it was made."
    export PYTHONPATH="$PWD/labs${PYTHONPATH:+:$PYTHONPATH}"
    export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}" # srun takes no cores per rank from the job since 22.05
    export SLURM_EXPORT_ENV=ALL                           # after `sbatch --export=…` ranks would miss the rest
    exec "$python" -m "$@"
}

launch() {
    [[ -n ${SLURM_JOB_ID:-} ]] || stop "slurm/$1.sbatch is for Slurm: make submit LAB=${1%%_*}," \
        "or sbatch slurm/$1.sbatch. Without Slurm: make run LAB=${1%%_*} NP=4."
    read_site "$1"
    hand_over slurm.job "$1"
}
