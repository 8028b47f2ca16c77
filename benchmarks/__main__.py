"""`python -m benchmarks`: all figures and their tables."""

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
runpy.run_module("run_all", run_name="__main__")
