"""One call in two libraries, and the check that both results are the same."""

from __future__ import annotations

import warnings

import numpy as np

# JAX marks comparisons of numbers as weak bools; a bool has no weak type.
BOOL = np.dtype(bool)


def to_arrays(module, x):
    """Arguments with NumPy arrays replaced by arrays of the library."""
    if isinstance(x, np.ndarray):
        return module.asarray(x)
    if isinstance(x, list) and any(isinstance(y, (np.ndarray, list)) for y in x):
        return [to_arrays(module, y) for y in x]
    return x


def call(module, name, args, keywords, numpy=None):
    """(result, error) of `module.name`; arrays are made by `numpy`, if that is another module."""
    args = [to_arrays(numpy or module, x) for x in args]
    keywords = {k: to_arrays(numpy or module, v) for k, v in keywords.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return getattr(module, name)(*args, **keywords), None
        except Exception as error:
            return None, error


def flat(x):
    return [z for y in x for z in flat(y)] if isinstance(x, (list, tuple)) else [x]


def assert_same(ours, theirs, label):
    assert len(flat(ours)) == len(flat(theirs)), label
    for x, y in zip(flat(ours), flat(theirs), strict=True):
        if not hasattr(y, "aval"):
            assert x == y, label
            continue
        assert x.shape == y.shape and x.dtype == y.dtype, (label, x.aval, y.aval)
        assert x.dtype == BOOL or x.weak_type == y.weak_type, (label, "weak type", x.weak_type, y.weak_type)
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype.kind in "fcV":
            tolerance = 2e-3 if x.dtype.itemsize < 4 else 1e-5
            x, y = (v.astype(np.complex128) for v in (x, y))
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=str(label))
        else:
            np.testing.assert_array_equal(x, y, err_msg=str(label))
