"""`python -m classroom …`: what `make board` and a hub's service call."""

import sys

from classroom import main

sys.exit(main())
