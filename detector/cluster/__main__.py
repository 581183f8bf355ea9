"""``python -m detector.cluster``."""

import os
import sys

from detector.cluster.main import main

code = main(sys.argv[1:])
# The SDK's runtime may crash the interpreter while it is taken down (temporalio #300).
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
