"""Function transformations: jvp, linearize, transpose, batching, and transformations built on them."""
