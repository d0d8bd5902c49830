"""`python -m env.bundle`: see env.bundle.sequence."""

import sys

from env.bundle.sequence import main

sys.exit(main(sys.argv[1:]))
