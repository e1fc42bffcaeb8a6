"""`python -m opendp_tree` is the command `opendp-tree`."""

import sys

from opendp_tree.cli import main

if __name__ == "__main__":
    sys.exit(main())
