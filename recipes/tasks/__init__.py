"""Tasks, one file each, with `Config`, `load` and `make`; see `recipes.task`. A task is called as its file is."""
