"""MVAPICH2 2.3.7 from its source: build.sh, which `make mvapich2` runs."""
