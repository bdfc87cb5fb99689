"""Lines on 64-bit arrays that are used outside of the block that created them; for `tests/test_as_jax.py`.

x is float64, k int64, z complex128, u uint64, s a float64 scalar; `inside(f, *args)` calls a function with 64 bits
enabled; `ruled` and `ruled_vjp` are functions with custom rules.
"""

from tests.everyday.wide_functions import EAGER, LAX
from tests.everyday.wide_transforms import RULES, SOLVES, TRANSFORMS

WIDE = [*EAGER, *LAX, *TRANSFORMS, *RULES, *SOLVES]

# JAX's result has 32 bits where its own constants have 32 bits; ours has the 64 bits of the argument.
WIDER = r"""
jnp.linalg.norm(x,3)
jnp.median(x)
jnp.quantile(x,0.5)
jnp.percentile(x,30)
jnp.polyval(x,x)
jnp.interp(x,x,x)
jnp.diagflat(x)
jnp.vander(x)
jnp.meshgrid(x,x)
jnp.piecewise(x,[x>0.6],[0.1,lambda x: x])
jnp.nan_to_num(x)
jnp.nan_to_num(x,nan=0.1)
jnp.sinc(x)
jnp.linalg.norm(x)
jnp.linalg.inv(m)
jnp.linalg.det(m)
jnp.linalg.slogdet(m)
jnp.linalg.cholesky(m)
jnp.linalg.eigh(m)
jnp.linalg.pinv(m)
jnp.linalg.lstsq(m,x[:2])
jnp.linalg.matrix_power(m,-1)
jnp.fft.fft(x)
jnp.fft.rfft(x)
jnp.fft.ifft(z)
jax.scipy.special.logit(x)
jax.scipy.special.xlogy(x,x)
jax.scipy.special.entr(x)
jax.ops.segment_sum(x,jnp.array([0,0,1]))
jax.ops.segment_max(x,jnp.array([0,0,1]),num_segments=3)
jax.jit(lambda x: jnp.linalg.norm(x))(x)
jax.flatten_util.ravel_pytree({'a':x,'b':s})[0]
jnp.linalg.cond(m)
""".strip().split("\n")
# A cotangent that a rule computed with 32 bits is converted to the type of the argument here; JAX does not convert it.
WIDER += r"""
jax.grad(ruled_vjp)(s)
jax.jit(jax.grad(ruled_vjp))(s)
jax.vmap(jax.grad(ruled_vjp))(x)
jax.vjp(ruled_vjp,x)[1](jnp.ones(3))
jax.grad(lambda b: lax.custom_linear_solve(lambda v: v*2,b,lambda mv,b: b/2,symmetric=True).sum())(x)
jax.grad(lambda v: inside(ruled_vjp,v))(s)
""".strip().split("\n")

# JAX's result has 64 bits, but an intermediate value was rounded to 32 bits.
ROUNDED = r"""
x.at[0].set(2)
x.at[0].set(2.5)
x.at[0].set(0.1)
x.at[0].set(np.float64(0.1))
x.at[0].add(0.1)
x.at[0].mul(0.1)
x.at[0].min(0.1)
x.at[0].max(0.1)
x.at[1:].set(jnp.ones(2))
z.at[0].set(1j)
jnp.cross(x,x[::-1])
jnp.convolve(x,x)
jnp.correlate(x,x)
jnp.array([s,s])
jnp.array([x,x])
jnp.pad(x,1,constant_values=0.1)
jnp.choose(k%2,[x,x])
jax.jit(lambda x: x.at[0].set(0.1))(x)
jax.jit(lambda x: x.at[0].add(0.1))(x)
jax.grad(lambda x: jnp.sum(x**0.5))(x)
jax.grad(lambda x: jnp.sum(1/x))(x)
jax.grad(lambda x: jnp.std(x))(x)
jax.grad(lambda x: jnp.linalg.norm(x))(x)
jax.grad(lambda x: jnp.sum(jax.nn.softmax(x)[0]))(x)
x.dot(x)
x@x
jnp.dot(x,x)
jnp.vdot(x,x)
jnp.inner(x,x)
jnp.matmul(x[None],x[:,None])
jnp.tensordot(x,x,1)
jnp.einsum('i,i',x,x)
jnp.linalg.matrix_power(m,2)
jax.jit(lambda x: x@x)(x)
jax.grad(lambda x: jnp.dot(x,x))(x)
jax.vmap(lambda v: x@x*v)(x)
""".strip().split("\n")
