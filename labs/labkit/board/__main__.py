"""`python -m labkit.board …`: what `make board` and a hub's service call."""

import sys

from labkit.board import main

sys.exit(main())
