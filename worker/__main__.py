"""``python -m worker``."""

import sys

from worker.main import main
from worker.process import end

end(main(sys.argv[1:]))
