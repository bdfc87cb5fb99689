"""Data on the host, as NumPy and SciPy arrays; nothing here uses a device."""
