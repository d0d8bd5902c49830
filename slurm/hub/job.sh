#!/bin/bash
#SBATCH --job-name=labs-hub
#SBATCH --chdir={{homedir}}
#SBATCH --output={{homedir}}/labs-hub.log
#SBATCH --export={{keepvars}}
#SBATCH --nodes=1
#SBATCH --ntasks=1
{{options}}
umask 077
# The site's modules, as in batch jobs: where one cannot be loaded, the job ends with a sentence.
source "$LABS_HUB_ROOT/slurm/launch.sh"
set +eu # what modules do inside is not ours to judge
LABKIT_MODULES=$(source "$LABS_HUB_ROOT/slurm/sites/$SITE.sh" && echo "${LABKIT_MODULES:-}") || exit
[[ -z $LABKIT_MODULES ]] || bring_modules
load_modules
exec {{cmd}}
