"""Pages for a browser: the frame of a page, figures in it, the sections of a report."""
