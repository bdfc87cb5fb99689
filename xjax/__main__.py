"""``python -m xjax program.py [arguments]``, ``python -m xjax -m module``, ``-c code``: a program written for JAX."""

import sys

from xjax.compat.launch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
