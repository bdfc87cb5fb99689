"""From a program to an executable and its launch, with the cache on disk."""
