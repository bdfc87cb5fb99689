"""Lines on options set in a block, names of functions, and prints on several devices; for `tests/test_as_jax.py`.

`traces(jax, call)` is the number of times that `call(f)` traces a jitted function f; `split(jax, f)` is f in a
`shard_map` over two devices; `told(jax, call)` is the sorted list of the arguments of `say`, as text, in `call(say)`.
"""

import numpy as np

from tests.oracle import current


def traces(lib, call):
    count = []
    call(lib.jit(lambda x: (count.append(1), x * 2.0)[1]))
    return len(count)


def split(lib, f):
    mesh = lib.sharding.Mesh(np.array(lib.devices()[:2]), ("i",))
    return lib.shard_map(f, mesh=mesh, in_specs=lib.P("i"), out_specs=lib.P("i"))


def callback_arguments(lib, call):
    values = []
    call(lambda *args: values.append(str(args)))
    lib.effects_barrier()
    return sorted(values)


HELPERS = {"traces": traces, "split": split, "told": callback_arguments}

SHORT = {
    "PRECISION(": "jax.default_matmul_precision(",
    "DTYPES(": "jax.numpy_dtype_promotion(",
    "RANKS(": "jax.numpy_rank_promotion(",
    "TEXT(": "str(jax.make_jaxpr(",
    "SQUARE": "(lambda x: x@x)",
    "MIN(": "jax.scipy.optimize.minimize(",
    "LBFGS": "method='l-bfgs-experimental-do-not-rely-on-this'",
}
# A jitted function is traced once for each value of an option on which its program depends.
TRACES = r"""
traces(jax,lambda f: (f(1.),PRECISION('float32')(f)(1.),f(1.),PRECISION('float32')(f)(2.)))
traces(jax,lambda f: (f(1.),PRECISION('float32')(f)(1.),PRECISION('highest')(f)(1.)))
traces(jax,lambda f: (f(1.),PRECISION(None)(f)(1.),PRECISION('default')(f)(1.)))
traces(jax,lambda f: (f(1.),PRECISION('bfloat16')(f)(1.),PRECISION('fastest')(f)(1.)))
traces(jax,lambda f: (f(1.),RANKS('raise')(f)(1.),f(1.),RANKS('warn')(f)(1.)))
traces(jax,lambda f: (f(1.),DTYPES('strict')(f)(1.),f(1.),DTYPES('standard')(f)(1.)))
traces(jax,lambda f: (f(1.),jax.enable_x64(True)(f)(1.),f(1.)))
traces(jax,lambda f: (f(1.),jax.threefry_partitionable(False)(f)(1.),f(1.)))
traces(jax,lambda f: (f(1.),jax.softmax_custom_jvp(False)(f)(1.),f(1.)))
traces(jax,lambda f: (f(1.),jax.default_device(jax.devices()[0])(f)(1.),f(1.)))
traces(jax,lambda f: (f(1.),jax.transfer_guard('allow')(f)(1.),f(1.)))
traces(jax,lambda f: (f(1.),jax.log_compiles(False)(f)(1.),f(1.)))
traces(jax,lambda f: (f(1.),jax.disable_jit()(f)(1.),f(1.)))
traces(jax,lambda f: (f(1.),jax.checking_leaks()(f)(1.),f(1.)))
traces(jax,lambda f: (jax.jit(f)(1.),jax.jit(PRECISION('float32')(f))(1.)))
traces(jax,lambda f: (jax.grad(f)(1.),PRECISION('float32')(jax.grad(f))(1.),jax.grad(f)(2.)))
traces(jax,lambda f: (jax.grad(f)(1.),jax.grad(PRECISION('float32')(f))(1.),jax.grad(f)(2.)))
traces(jax,lambda f: (jax.vmap(f)(jnp.ones(2)),PRECISION('float32')(jax.vmap(f))(jnp.ones(2))))
traces(jax,lambda f: (f.lower(1.),PRECISION('float32')(f.lower)(1.),f.lower(1.)))
""".strip().split("\n")
# Products have the precision of the block, unless they specify a precision.
PRECISIONS = r"""
TEXT(PRECISION('float32')SQUARE)(jnp.ones((2,2))))
PRECISION('float32')(lambda: TEXT(SQUARE)(jnp.ones((2,2)))))()
PRECISION('bfloat16')(lambda: TEXT(SQUARE)(jnp.ones((2,2)))))()
PRECISION('tensorfloat32')(lambda: TEXT(SQUARE)(jnp.ones((2,2)))))()
PRECISION('default')(lambda: TEXT(SQUARE)(jnp.ones((2,2)))))()
PRECISION('BF16_BF16_F32')(lambda: TEXT(SQUARE)(jnp.ones((2,2)))))()
PRECISION('highest')(lambda: TEXT(jax.jitSQUARE)(jnp.ones((2,2)))))()
PRECISION('float32')(lambda: TEXT(jax.vmapSQUARE)(jnp.ones((2,2)))))()
PRECISION('float32')(lambda: TEXT(lambda x: jnp.dot(x,x,precision='default'))(jnp.ones((2,2)))))()
PRECISION('float32')(lambda: TEXT(lambda x: jnp.einsum('ij,jk->ik',x,x))(jnp.ones((2,2)))))()
PRECISION('float32')(lambda: 'HIGHEST' in jax.jitSQUARE.lower(jnp.ones((2,2))).as_text())()
[PRECISION(p)(jax.jitSQUARE.trace)(jnp.ones((2,2))).jaxpr.eqns[0].params['precision'] for p in (None,'high',None)]
PRECISION('nonsense')
RANKS('nonsense')
DTYPES('nonsense')
[str(jax.lax.Precision.HIGH),repr(jax.lax.Precision.HIGH),f'{jax.lax.Precision.HIGH}']
[str(jax.lax.DotAlgorithmPreset.BF16_BF16_F32),repr(jax.lax.DotAlgorithmPreset.BF16_BF16_F32)]
[str(jax.lax.GatherScatterMode.CLIP),str(jax.lax.RoundingMethod.TO_NEAREST_EVEN),str(jax.lax.FftType.FFT)]
""".strip().split("\n")
# An error that a block raises is also raised for a function that was traced before the block.
REFUSED = r"""
(lambda f: (f(jnp.ones(2)),DTYPES('strict')(f)(jnp.ones(2))))(jax.jit(lambda x: x+jnp.arange(2)))
(lambda f: (f(jnp.ones((2,2))),RANKS('raise')(f)(jnp.ones((2,2)))))(jax.jit(lambda x: x+jnp.arange(2)))
RANKS('raise')(jax.grad(lambda x: jnp.sum(x*jnp.ones((2,2)))))(jnp.ones(2))
RANKS('raise')(jax.vmap(lambda x: x+jnp.ones((2,2))))(jnp.ones(2))
RANKS('raise')(jax.vmap(lambda x: x+jnp.ones(2)))(jnp.ones(2))
RANKS('raise')(lambda: jnp.where(True,jnp.ones((2,2)),jnp.ones(2)))()
RANKS('raise')(lambda: jnp.matmul(jnp.ones((3,2,2)),jnp.ones((2,2))))()
RANKS('raise')(lambda: jnp.ones((2,2)).at[:].add(jnp.ones(2)))()
RANKS('raise')(lambda: jnp.clip(jnp.ones((2,2)),jnp.zeros(2)))()
DTYPES('strict')(lambda: jnp.ones(2)+jnp.ones(2,'int32'))()
DTYPES('strict')(lambda: jnp.ones(2)+1)()
DTYPES('strict')(lambda: jnp.ones(2).at[0].add(jnp.int32(1)))()
DTYPES('strict')(lambda: jnp.concatenate([jnp.ones(2),jnp.arange(2)]))()
DTYPES('strict')(lambda: jnp.where(True,jnp.ones(2),0))()
DTYPES('strict')(lambda: jnp.sin(jnp.arange(2)))()
DTYPES('strict')(lambda: jnp.arange(2)/2)()
DTYPES('strict')(lambda: jnp.mean(jnp.arange(2)))()
DTYPES('strict')(lambda: jnp.arange(2)*1.5)()
DTYPES('strict')(lambda: jnp.ones(2)*np.ones(2,'float64'))()
DTYPES('strict')(lambda: jnp.ones(2)**jnp.int32(2))()
DTYPES('strict')(lambda: jnp.ones(2,'bfloat16')*np.float32(2))()
""".strip().split("\n")
# Blocks can also decorate functions.
DECORATORS = r"""
jax.ensure_compile_time_eval()(lambda: 1)()
str(jax.make_jaxpr(lambda x: jax.ensure_compile_time_eval()(lambda: jnp.arange(3).sum())()*x)(2))
(lambda f: f(f,3))(jax.ensure_compile_time_eval()(lambda f,n: n and f(f,n-1)))
jax.jit(lambda x: (lambda f: f(f,3))(jax.ensure_compile_time_eval()(lambda f,n: n and f(f,n-1)))+x)(1.)
jax.jit(lambda x: jax.ensure_compile_time_eval()(lambda: jnp.sin(x)*float(jnp.cos(1.)))())(2.)
str(jax.make_jaxpr(lambda x: jax.ensure_compile_time_eval()(lambda: x*jax.jit(jnp.cos)(0.))())(2.))
jax.jit(lambda x: jax.ensure_compile_time_eval()(lambda: jax.lax.cond(x>0,jnp.sin,jnp.cos,x))())(2.)
jax.jit(lambda x: jax.ensure_compile_time_eval()(lambda: x*jax.grad(jnp.sin)(1.))())(2.)
jax.grad(jax.ensure_compile_time_eval()(lambda x: jnp.sin(x)*jnp.cos(1.)))(2.)
jax.vmap(jax.grad(jax.ensure_compile_time_eval()(lambda x: jnp.sin(x)*jnp.cos(1.))))(jnp.ones(2))
jax.lax.scan(jax.ensure_compile_time_eval()(lambda c,x: (jnp.sin(c)*jnp.cos(1.),x)),1.,jnp.ones(2))
jax.named_scope('a')(lambda: 1)()
jax.profiler.StepTraceAnnotation('a')(lambda: 1)()
jax.enable_x64(True)(lambda: jnp.arange(2).dtype)()
jax.default_prng_impl('rbg')(lambda: jax.random.PRNGKey(0))()
""".strip().split("\n")
# Names, pickles and copies of functions.
NAMES = r"""
repr(jnp.sum).split(' at ')[0]
repr(jax.lax.sin).split(' at ')[0]
[getattr(jnp,n).__qualname__ for n in 'acos acosh asin asinh atan atan2 atanh concat pow permute_dims abs conj'.split()]
[getattr(jnp,n).__name__ for n in 'max min amax amin round around prod cumsum vstack trapezoid vecdot matvec'.split()]
[getattr(jnp,n).__name__ for n in 'true_divide divide floor_divide mod remainder negative absolute fabs'.split()]
[getattr(jax.lax,n).__qualname__ for n in 'sin abs add max cumsum reduce_sum scatter_add argmax erf_inv'.split()]
[getattr(jax.nn.initializers,n).__name__ for n in 'kaiming_normal xavier_uniform zeros'.split()]
[jnp.acos is jnp.arccos,jnp.pow is jnp.power,jnp.concat is jnp.concatenate,jnp.abs is jnp.absolute]
pickle.loads(pickle.dumps(jax.lax.sin)) is jax.lax.sin
pickle.loads(pickle.dumps(jax.lax.cumsum)) is jax.lax.cumsum
pickle.loads(pickle.dumps(jax.lax.reduce_max)) is jax.lax.reduce_max
pickle.loads(pickle.dumps(jnp.sum)) is jnp.sum
pickle.loads(pickle.dumps(jnp.bfloat16)) is jnp.bfloat16
copy.deepcopy(jax.jit(jnp.sin))(1.)
""".strip().split("\n")
# Prints and callbacks inside `shard_map`: the types of their arguments, and the values from each device.
DEVICES = [line.replace("X", "jnp.arange(4.)") for line in r"""
TEXT(split(jax,lambda x: (jax.debug.print('{}',x),x)[1]))(X))
TEXT(split(jax,lambda x: (jax.debug.print('{} {}',x,1.),x)[1]))(X))
TEXT(split(jax,lambda x: (jax.debug.print('{} {}',x,jnp.ones(2)),x)[1]))(X))
TEXT(split(jax,lambda x: (jax.debug.print('{} {}',x,jax.lax.psum(x,'i')),x)[1]))(X))
TEXT(split(jax,lambda x: (jax.debug.print('hi'),x)[1]))(X))
TEXT(split(jax,lambda x: (jax.debug.print('{}',jax.lax.axis_index('i')),x)[1]))(X))
TEXT(jax.vmap(split(jax,lambda x: (jax.debug.print('{}',x),x*x)[1])))(jnp.ones((3,4))))
told(jax,lambda say: split(jax,lambda x: (jax.debug.callback(say,x),x)[1])(X))
told(jax,lambda say: jax.jit(split(jax,lambda x: (jax.debug.callback(say,x),x)[1]))(X))
told(jax,lambda say: jax.jit(split(jax,lambda x: (jax.debug.callback(say,1.),x)[1]))(X))
told(jax,lambda say: jax.jit(split(jax,lambda x: (jax.debug.callback(say),x)[1]))(X))
told(jax,lambda say: jax.jit(split(jax,lambda x: (jax.debug.callback(say,x,2.),x)[1]))(X))
told(jax,lambda say: jax.jit(split(jax,lambda x: (jax.debug.callback(say,jax.lax.psum(x,'i')),x)[1]))(X))
told(jax,lambda say: jax.jit(split(jax,lambda x: (jax.debug.callback(say,jnp.arange(2)),x)[1]))(X))
told(jax,lambda say: jax.grad(lambda x: split(jax,lambda x: (jax.debug.callback(say,x),x*x)[1])(x).sum())(X))
told(jax,lambda say: jax.vmap(split(jax,lambda x: (jax.debug.callback(say,x),x)[1]))(jnp.arange(8.).reshape(2,4)))
""".strip().split("\n")]
# Minima over complex numbers; the line searches take different steps.
MINIMA = r"""
(lambda r: (r.x,r.success,r.fun))(MIN(lambda z: jnp.sum(jnp.abs(z-jnp.array([1+2j,3j]))**2),jnp.zeros(2,complex),LBFGS))
(lambda r: (r.x.dtype,r.jac.dtype,r.fun.dtype))(MIN(lambda z: jnp.sum(jnp.abs(z)**2),jnp.ones(2,complex),LBFGS))
MIN(lambda z,a: jnp.sum((z.real-a)**2+(z.imag+1)**2),jnp.zeros(2,complex),(2.,),LBFGS).x
jax.jit(lambda z: MIN(lambda z: jnp.sum(jnp.abs(z-1j)**2),z,LBFGS).x)(jnp.ones(3,complex))
jax.vmap(lambda z: MIN(lambda z: jnp.sum(jnp.abs(z-1j)**2),z,LBFGS).x)(jnp.ones((2,3),complex))
MIN(lambda z: jnp.sum(jnp.abs(z)**2),jnp.full(2,1j),method='BFGS').success
""".strip().split("\n")

CONTEXTS = current([*TRACES, *PRECISIONS, *REFUSED, *DECORATORS, *NAMES, *DEVICES, *MINIMA])
for short, full in SHORT.items():
    CONTEXTS = [line.replace(short, full) for line in CONTEXTS]
