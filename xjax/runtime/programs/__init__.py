"""From a program to an executable and its launch, with the cache of executables on disk."""
