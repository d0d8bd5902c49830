"""python -m slurm.tabletop VERB: what `make tabletop` and its companions call."""

import sys

from slurm.tabletop.verbs import main

sys.exit(main(sys.argv[1:]))
