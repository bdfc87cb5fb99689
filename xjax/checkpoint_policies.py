"""The policies of `checkpoint` by name, as `checkpoint_policies.dots_saveable`."""

from __future__ import annotations

from xjax.core.public import attributes_of
from xjax.transforms.checkpoint_policies import (
    checkpoint_dots,
    checkpoint_dots_with_no_batch_dims,
    dots_saveable,
    dots_with_no_batch_dims_saveable,
    everything_saveable,
    nothing_saveable,
    offload_dot_with_no_batch_dims,
    save_and_offload_only_these_names,
    save_any_names_but_these,
    save_anything_except_these_names,
    save_from_both_policies,
    save_only_these_names,
)

__all__ = [
    "checkpoint_dots", "checkpoint_dots_with_no_batch_dims", "dots_saveable", "dots_with_no_batch_dims_saveable",
    "everything_saveable", "nothing_saveable", "offload_dot_with_no_batch_dims", "save_and_offload_only_these_names",
    "save_any_names_but_these", "save_anything_except_these_names", "save_from_both_policies", "save_only_these_names"]

__getattr__ = attributes_of(__name__)
