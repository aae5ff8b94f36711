"""``python -m bench``: the figures of ``bench.speed``."""

import sys

from bench.speed import main

sys.exit(main())
