"""The processes and devices of a run: signals, locks, supervision by the launcher, rows split over devices."""
