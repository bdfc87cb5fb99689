"""Training recipes: typed configs, one loop, many tasks.

``python -m recipes.train --config gcn.yaml key.path=value`` is the entry point. A run passes through these files in
order: ``train`` (command line), ``settings/config_file`` (YAML to frozen models), ``training/run`` (devices, folder,
results), ``tasks/*`` (data, model, sums), ``training/loop``, ``training/step``, ``training/hooks``,
``results/checkpoint``.

Nothing here imports a large package: a fault in a config must be reported before jaxlib is loaded.
"""

import signal
import sys
import time
from typing import TYPE_CHECKING

from xnn.moved_modules import accept_old_names
from xnn.public import public_names

# Every command begins here; sys.argv[0] is "-m" until Python has located the module of `python -m recipes`. Until
# `errors.exit_code_of` or `process.interrupts` handles SIGINT, Ctrl-C ends the process without a traceback.
if sys.argv[0].endswith(("-m", "xjax-recipes")) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

STARTED = time.perf_counter()           # this module is loaded first by every command: run times are counted from here

accept_old_names("recipes", {
    "process": "interrupts progress lock watch parallel",
    "settings": "config_faults config_file listing optim",
    "results": "folder checkpoint plots image_plots exported",
    "data": "graph_batches pair_batches",
    "models": "text_models=text graph_models=graphs image_models=images",
    "training": "best privacy ranks step loop hooks trackers run dry_run",
})

if TYPE_CHECKING:
    from recipes import (
        compare,
        config,
        errors,
        evaluate,
        export,
        generate,
        kernel,
        launch,
        new_edges,
        predict,
        report,
        task,
        train,
        trained,
    )

__all__ = ["compare", "config", "errors", "evaluate", "export", "generate", "kernel", "launch", "new_edges",
           "predict", "report", "task", "train", "trained"]
public_names(__name__, modules=__all__)
