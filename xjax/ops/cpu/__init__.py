"""Forms of operations for CPUs, where XLA's own are slow or lose NaN: rules of `Primitive(lower_on={"cpu": ...})`.

Each stands beside the general rule, in the declaration of its operation in `xjax.ops`. From which size on a form is
taken, and why, says the table of `xjax.core.forms`; a rule returns None where XLA's own operation is better.
"""
