"""``python -m detector``."""

import sys

from detector.main import main

sys.exit(main(sys.argv[1:]))
