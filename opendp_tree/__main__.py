"""`python -m opendp_tree` is the command `opendp-tree`."""

import sys

try:
    from opendp_tree.cli import main
except KeyboardInterrupt:  # loading takes a while
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())
