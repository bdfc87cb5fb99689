"""What a run leaves behind: folder, checkpoints, plots, exported weights."""
