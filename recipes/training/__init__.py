"""One run: its loop, its step, and the hooks of the loop."""
