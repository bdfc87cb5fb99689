"""The user's options of promotion, at their strictest, judge what the user mixes and nothing that the library does.

Functions are traced and not run: promotion is a matter of types. Every row of the table of values whose arrays agree in
dtype and rank must have the same types with the options as without; so must calls of what has no row.
"""

from __future__ import annotations

import contextlib

import ml_dtypes
import numpy as np
import pytest

import xjax
import xnn
import xnn.optimizers
import xnn.stax as stax
from recipes import tasks
from tests.compare import assert_same, outcome, type_text
from tests.oracle import real_jax
from tests.values.signatures import words
from tests.values.table import ROWS
