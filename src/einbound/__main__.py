"""`python -m einbound` is the command line."""

import sys

from einbound.cli import main

sys.exit(main())
