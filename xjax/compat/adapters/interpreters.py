"""`jax.interpreters`: tables of rules, and the tools of rules."""
