"""Lowerings for CPUs, for operations that XLA runs slowly or with loss of NaN: `Primitive(lower_on={"cpu": ...})`.

Each rule is declared next to the general rule, with its operation in `xjax.ops`. The table in `xjax.core.forms` states
the minimum size for each form, and the reason; a rule returns None where XLA's own operation is better.
"""
