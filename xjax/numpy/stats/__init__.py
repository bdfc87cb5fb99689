"""Statistics of arrays and samples: averages, quantiles, differences, histograms, correlations, interpolation."""

from xjax.numpy.stats.averages import average
from xjax.numpy.stats.correlations import corrcoef, cov
from xjax.numpy.stats.counting import bincount, histogram, histogram_bin_edges
from xjax.numpy.stats.increments import diff, ediff1d, trapezoid
from xjax.numpy.stats.interpolation import interp
from xjax.numpy.stats.quantiles import median, nanmedian, nanpercentile, nanquantile, percentile, quantile
from xjax.numpy.stats.sliding import convolve, correlate

__all__ = ["average", "bincount", "convolve", "corrcoef", "correlate", "cov", "diff", "ediff1d", "histogram",
           "histogram_bin_edges", "interp", "median", "nanmedian", "nanpercentile", "nanquantile", "percentile",
           "quantile", "trapezoid"]
