"""`jax.version`: the version of JAX that programs see."""
