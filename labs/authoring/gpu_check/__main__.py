"""`python -m authoring.gpu_check`: see authoring.gpu_check.conduct."""

import sys

from authoring.gpu_check.conduct import main

sys.exit(main())
