"""Backends and their devices, other processes, and what runs on them at the moment."""
