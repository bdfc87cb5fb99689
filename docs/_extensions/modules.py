"""The public modules of the reference. An object of several modules has its entry in the first of them."""

MODULES = (
    "xjax", "xjax.numpy", "xjax.numpy.fft", "xjax.numpy.linalg", "xjax.lax", "xjax.lax.linalg", "xjax.random",
    "xjax.nn", "xjax.nn.initializers", "xjax.ops", "xjax.image",
    "xjax.scipy", "xjax.scipy.special", "xjax.scipy.linalg", "xjax.scipy.sparse", "xjax.scipy.sparse.linalg",
    "xjax.scipy.fft", "xjax.scipy.signal", "xjax.scipy.ndimage", "xjax.scipy.interpolate", "xjax.scipy.integrate",
    "xjax.scipy.optimize", "xjax.scipy.cluster", "xjax.scipy.cluster.vq", "xjax.scipy.spatial",
    "xjax.scipy.spatial.transform", "xjax.scipy.stats",
    *(f"xjax.scipy.stats.{name}" for name in (
        "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "gennorm", "geom",
        "gumbel_l", "gumbel_r", "laplace", "logistic", "multinomial", "multivariate_normal", "nbinom", "norm",
        "pareto", "poisson", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy")),
    "xjax.tree", "xjax.tree_util", "xjax.flatten_util",
    "xjax.sharding", "xjax.distributed", "xjax.experimental.shard_map", "xjax.experimental.mesh_utils",
    "xjax.experimental.multihost_utils", "xjax.experimental.layout", "xjax.experimental.pjit", "xjax.memory",
    "xjax.custom_derivatives", "xjax.custom_batching", "xjax.ad_checkpoint", "xjax.checkpoint_policies",
    "xjax.ref", "xjax.debug", "xjax.errors", "xjax.experimental.checkify", "xjax.profiler", "xjax.monitoring",
    "xjax.test_util",
    "xjax.dtypes", "xjax.typing", "xjax.core", "xjax.stages", "xjax.forms", "xjax.version",
    "xjax.export", "xjax.ffi", "xjax.dlpack", "xjax.interop", "xjax.compat",
    "xjax.experimental", "xjax.experimental.sparse", "xjax.experimental.jet", "xjax.experimental.ode",
    "xjax.experimental.hijax", "xjax.experimental.compute_on", "xjax.experimental.xla_metadata",
    "xjax.experimental.serialize_executable", "xjax.experimental.compilation_cache",
    "xjax.experimental.compilation_cache.compilation_cache",
    "xnn", "xnn.layers", "xnn.graph", "xnn.kernels", "xnn.models", "xnn.pretrained", "xnn.losses", "xnn.metrics",
    "xnn.params", "xnn.rng", "xnn.sparse", "xnn.optimizers", "xnn.stax",
    "recipes",
)
