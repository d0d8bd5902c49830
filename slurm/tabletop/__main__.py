"""python -m slurm.tabletop VERB: what `make tabletop` and its companions call."""

import sys

from slurm.tabletop.cli import main

sys.exit(main(sys.argv[1:]))
