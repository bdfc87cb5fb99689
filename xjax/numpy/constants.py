"""Constants: pi, e, nan and others as Python floats, hence weakly typed."""

from __future__ import annotations

import numpy as np

e: float = np.e
euler_gamma: float = np.euler_gamma
inf: float = np.inf
nan: float = np.nan
newaxis: None = None
pi: float = np.pi
