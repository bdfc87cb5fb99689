"""Networks as sections of a config."""
