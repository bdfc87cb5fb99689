"""The files of a run: folder, checkpoints, plots, exported weights."""
