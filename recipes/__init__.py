"""Training recipes: typed configs, one loop, many tasks.

``python -m recipes.train --config gcn.yaml key.path=value`` is the way in. A run passes through these files, in this
order: ``train`` (command line), ``config_file`` (YAML to frozen models), ``run`` (devices, folder, results),
``tasks/*`` (data, model, sums), ``loop``, ``step``, ``hooks``, ``checkpoint``.

Nothing heavy is imported here: a fault in a config must be reported before jaxlib is loaded.
"""

import signal
import sys
import time

# `python -m recipes.COMMAND` begins here, and Python calls it "-m" until it has found the command. Ctrl-C ends it
# without a traceback until `errors.exit_code_of`, or `interrupts`, takes over.
if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

STARTED = time.perf_counter()           # the first of our modules that a command loads: its time is counted from here
