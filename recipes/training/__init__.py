"""One run: its loop, its step, and what happens beside them."""
