#!/bin/bash
#SBATCH --job-name=labs-hub
#SBATCH --chdir={{homedir}}
#SBATCH --output={{homedir}}/labs-hub.log
#SBATCH --export={{keepvars}}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={{nprocs}}
#SBATCH --time={{runtime}}
{% if partition %}#SBATCH --partition={{partition}}
{% endif %}{% if account %}#SBATCH --account={{account}}
{% endif %}{% if qos %}#SBATCH --qos={{qos}}
{% endif %}{% if reservation %}#SBATCH --reservation={{reservation}}
{% endif %}{% if memory %}#SBATCH --mem={{memory}}
{% endif %}{% if options %}#SBATCH {{options}}
{% endif %}
umask 077
{{prologue}}
exec {{cmd}}
