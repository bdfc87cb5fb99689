"""Function transformations: jvp, linearize, transpose, batching and what is built on them."""
