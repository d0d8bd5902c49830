"""`python -m env.mvapich2 [--source file] [--device nemesis|sock|mrail]`, as `make mvapich2` calls it."""

import sys

from env.mvapich2.sequence import main

sys.exit(main(sys.argv[1:]))
