"""Tasks, one file each, with `Config`, `load` and `make`; see `recipes.task`. A task has the name of its file."""
