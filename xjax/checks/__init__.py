"""Checks of values while a program runs: `xjax.experimental.checkify`, and checked mode.

A checked program is derived from a program: it has the same inputs and results, and further results, the state of its
checks. `recorder.py` derives it, `programs.py` has the rules of operations that hold programs, the other files have the
checks themselves.
"""
