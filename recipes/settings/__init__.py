"""From a YAML file and overrides to a checked config, and the list of all keys."""
