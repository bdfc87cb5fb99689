"""The processes and devices of a run: signals, locks, the launcher's watch, rows over devices."""
