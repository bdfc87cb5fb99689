"""Settings of the process as a whole: its allocator, threads, forks, environment variables."""
