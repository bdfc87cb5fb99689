"""Backends and their devices, other processes, and launches in flight."""
