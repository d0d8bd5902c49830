"""`python -m labkit VERB …`: what the Makefile calls."""

import sys

from labkit.cli import main

sys.exit(main())
