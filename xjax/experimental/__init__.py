"""What JAX keeps under `jax.experimental`: imported by name, `from xjax.experimental.jet import jet`."""
