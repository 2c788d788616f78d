"""`python -m v14.doctor`."""

import sys

from v14.doctor.run import main

sys.exit(main(sys.argv[1:]))
