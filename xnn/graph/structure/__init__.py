"""Graphs as values: `Graph` and its relatives, batches of them, and their matrices and files."""
