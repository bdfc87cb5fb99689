"""Symbolic dimensions: sizes of axes that are known only when an exported function is called."""
