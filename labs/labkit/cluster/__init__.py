"""Batch jobs from a notebook or the command line: submit, wait, read the records. Lab 36 uses it
first.

    job = cluster.submit("42", nodes=2)     # needs Slurm; `make tabletop` starts one here
    job.wait()                              # a line that says how it stands
    frame = job.records("step")             # what it measured, as a table

What a job is asked for beyond its batch script stands in slurm/sites/SITE.sh and nowhere else.

| name | what it is |
|---|---|
| `here` | the site we are at, or None: is there a cluster to submit to? |
| `submit` | a lab's batch script, handed to Slurm: a Job |
| `study` | one job for each number of nodes: a Study, with a table and a plot |
| `jobs`, `last_study` | this learner's jobs, and the newest study of a lab |
| `records_or_reference` | what the newest job of a lab measured, else the kit's own results |
| `StoppedWaiting` | raised by Ctrl-C while waiting for a job, which goes on |
| `asked`, `read_variable` | what a job is asked for, checked; one of its variables |
| `environment` | a job's environment |
| `why` | why a job waits, in plain words |
| `sites` | the files of slurm/sites: which there are, and what one of them sets |
| `slurm` | the client of Slurm's commands |
"""

from labkit.cluster import sites, slurm
from labkit.cluster.job import StoppedWaiting
from labkit.cluster.jobs import jobs, last_study, records_or_reference, study, submit
from labkit.cluster.request import asked, environment, read_variable
from labkit.cluster.sites import here
from labkit.cluster.status import why
