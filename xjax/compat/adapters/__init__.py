"""Modules of JAX that xjax has not: the file `a__b.py` stands for ``jax.a.b``, `jax.py` for more names of `jax`."""
