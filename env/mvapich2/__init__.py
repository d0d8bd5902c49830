"""`make mvapich2 [SOURCE=file] [DEVICE=nemesis|sock|mrail]`: MVAPICH2 2.3.7, from its source.

It goes to .venv/mvapich2, beside the MPI of the set-up, of which it changes nothing. Its libmpi.so.12 has
MPICH's binary interface, so that the environment's mpi4py and Horovod run on either. A process runs on
MVAPICH2 when it starts with

LD_LIBRARY_PATH    .venv/mvapich2/lib first. Horovod's extensions need `libmpi.so.12`, and of the two places
                   where the loader may look, this variable comes before their own RUNPATH.
MPI4PY_MPIABI      mpich. Else mpi4py's wheel opens .venv/lib/libmpi.so.12, MPICH, by its path, whatever
                   LD_LIBRARY_PATH says; told the binary interface, it asks the loader as Horovod does.

and by a launcher of its own kind: .venv/mvapich2/bin/mpiexec, or `srun --mpi=pmi2`. A build with DEVICE=mrail
binds each rank to one core and then grants no threads; MV2_ENABLE_AFFINITY=0 lets Horovod have them.

.venv/mvapich2/installed.json is there when the library is complete and two ranks have run on it.
"""
