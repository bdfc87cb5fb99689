"""`jax.extend`: modules for libraries that extend JAX."""
