"""`python -m hitm`: the program `hitm`."""

import os
import sys

from . import _program

program = _program.path()
os.execv(program, [program, *sys.argv[1:]])
