"""What concerns the process as a whole: its allocator, threads, forks, variables of the environment."""
