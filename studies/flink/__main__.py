"""`python -m studies.flink`: run the comparison, and print it as Markdown."""

import sys

from .study import main

sys.exit(main(sys.argv[1:]))
