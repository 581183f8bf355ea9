"""``python -m worker``."""

import sys

from worker.main import end, main

end(main(sys.argv[1:]))
