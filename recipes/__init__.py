"""Training recipes: typed configs, one loop, many tasks.

``python -m recipes.train --config gcn.yaml key.path=value`` is the way in.  The files in the order
a run passes through them: ``train`` (command line) → ``config`` (YAML to frozen models) → ``run``
(folder, devices, hooks) → ``tasks/*`` (data, model, sums) → ``loop`` → ``step`` and ``hooks``.

Nothing is imported here: a fault in a config must be reported before jaxlib is loaded.
"""
