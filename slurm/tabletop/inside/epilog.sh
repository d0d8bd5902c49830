#!/bin/bash
# Slurm runs this on each node of a job when it has ended: what the job left there (nohup, setsid,
# disown) ends too. Such a process is told by its user and by the job's number in its environment.
if [[ -n ${SLURM_JOB_ID:-} ]]; then # without that number here: this script is none of the job's
    exec env -i /bin/bash "$0" "SLURM_JOB_ID=$SLURM_JOB_ID" "$SLURM_JOB_UID"
fi
job=$1 user=$2
for ((turn = 0; turn < 100; turn++)); do # one may start another one meanwhile
    found=false
    for file in $(grep --files-with-matches --no-messages --null-data --line-regexp --fixed-strings \
        "$job" /proc/[0-9]*/environ); do
        folder=${file%/environ}
        if grep --quiet --no-messages "^Uid:[[:space:]]$user[[:space:]]" "$folder/status"; then
            kill -KILL "${folder#/proc/}" 2>/dev/null
            found=true
        fi
    done
    $found || exit 0
done
