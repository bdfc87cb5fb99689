"""Training recipes: typed configs, one loop, many tasks.

``python -m recipes.train --config gcn.yaml key.path=value`` is the way in. A run passes through these files, in this
order: ``train`` (command line), ``settings/config_file`` (YAML to frozen models), ``training/run`` (devices, folder,
results), ``tasks/*`` (data, model, sums), ``training/loop``, ``training/step``, ``training/hooks``,
``results/checkpoint``.

Nothing heavy is imported here: a fault in a config must be reported before jaxlib is loaded.
"""

import signal
import sys
import time

from xnn.moved_modules import accept_old_names

# `python -m recipes.COMMAND` begins here, and Python calls it "-m" until it has found the command. Ctrl-C ends it
# without a traceback until `errors.exit_code_of`, or `interrupts`, takes over.
if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

STARTED = time.perf_counter()           # the first of our modules that a command loads: its time is counted from here

accept_old_names("recipes", {
    "process": "interrupts progress lock watch parallel",
    "settings": "config_faults config_file listing optim",
    "results": "folder checkpoint plots image_plots exported",
    "data": "graph_batches pair_batches",
    "models": "text_models=text graph_models=graphs image_models=images",
    "training": "best privacy ranks step loop hooks trackers run dry_run",
})
