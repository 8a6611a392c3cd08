"""Makes a second interpreter."""

import sys

sys.path.insert(0, sys.argv[1])
import fakedist

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

fakedist.init()
fakedist.direct(10)  # alone
kept = interpreters.create()
fakedist.direct(20)
fakedist.finalize()
