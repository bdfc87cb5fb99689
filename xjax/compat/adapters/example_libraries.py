"""`jax.example_libraries`: `stax` and `optimizers`, which are `xnn.stax` and `xnn.optimizers`."""
