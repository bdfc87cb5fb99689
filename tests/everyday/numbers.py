"""Lines on unusual numbers: narrow index dtypes, far positions, NaN, limits of dtypes; for `tests/test_as_jax.py`."""

from tests.oracle import current, only

NUMBERS = current(r"""
jnp.roll(jnp.arange(300),jnp.uint8(5))
jnp.roll(jnp.arange(300),jnp.array([-1,5],'int8'),(0,0))
jax.jit(jnp.roll)(jnp.arange(300),jnp.array(255,'uint8'))
jnp.repeat(jnp.arange(3),jnp.array([100,100,100],'uint8'),total_repeat_length=300)
jnp.unravel_index(jnp.array([255],'uint8'),(300,40))
jnp.unravel_index(jnp.array([-1,5],'int8'),(300,40))
jnp.unravel_index(jnp.array([-1,5],'int16'),(300,400))
jnp.ravel_multi_index((jnp.array([1],'uint8'),jnp.array([3],'uint8')),(16,16))
jnp.ravel_multi_index((jnp.array([1],'uint8'),jnp.array([3],'uint8')),(17,16))
jnp.ravel_multi_index((jnp.array([1],'int32'),jnp.array([3],'int32')),(9,16),dtype='int8')
jnp.ravel_multi_index((1,3),(2**20,2**20))
jnp.ones((3,4,5))[jnp.array([0,1],'int8'),:,jnp.array([0,1],'uint8')]
jnp.arange(300).at[jnp.array([200,255],'uint8')].set(0)
jnp.eye(3,k=2**40)
jnp.eye(3,k=-2**40)
jnp.eye(3,k=2**31)
jnp.eye(3,k=-2**31-1)
jnp.eye(3,k=2**70)
jnp.eye(3,k=1.5)
jnp.tri(3,k=-2**31)
jnp.roll(jnp.arange(5),2**40)
jnp.rot90(jnp.ones((2,3)),2**70+1)
jnp.diagonal(jnp.ones((3,3)),2**40)
jnp.trace(jnp.ones((3,3)),-2**31)
jnp.arange(5,dtype='uint32').at[0].set(2**32-1)
jnp.arange(5,dtype='uint32').at[0].add(2**32-1)
jnp.arange(5,dtype='uint32').at[0].max(2**32-1)
jnp.arange(5,dtype='uint32').at[0].min(2**31)
jnp.arange(5,dtype='uint32').at[0:2].set(np.array([2**32-1,1]))
jnp.arange(5,dtype='uint32').at[0].set(2**32)
jnp.arange(5,dtype='uint32').at[0].set(-1)
jnp.finfo(jnp.ones(3)).eps
jnp.finfo(jnp.ones(3)).dtype
jnp.finfo(np.ones(3)).dtype
jnp.finfo(jnp.ones(3,'complex64')).dtype
jnp.finfo(jnp.arange(3)).dtype
jnp.finfo(jnp.ones(3,'bfloat16')).bits
jnp.finfo(1.0).bits
jnp.iinfo(jnp.arange(3)).max
jnp.iinfo(np.arange(3)).max
jnp.iinfo(jnp.uint8(3)).bits
jnp.iinfo(jnp.arange(3,dtype='int4')).max
jnp.iinfo(3).bits
jnp.iinfo(True).bits
jnp.iinfo(jnp.ones(3)).bits
jax.dtypes.finfo(jnp.ones(3)).eps
jax.jit(lambda x: x*jnp.finfo(x).eps)(jnp.ones(3))
jax.jit(lambda x: x*jnp.iinfo(x).max)(jnp.arange(3))
jnp.cumulative_sum(jnp.arange(3,dtype='uint8'))
jnp.cumulative_sum(jnp.full(3,100,'int8'),include_initial=True)
jnp.cumulative_sum(jnp.arange(3,dtype='int16'),dtype='uint8')
jnp.cumulative_prod(jnp.arange(1,9,dtype='uint8'))
jnp.cumsum(jnp.full(3,200,dtype='uint8'))
jnp.cumprod(jnp.full(3,100,dtype='int8'))
jnp.nancumsum(jnp.arange(3,dtype='uint8'))
jax.grad(jnp.nanstd)(jnp.array([1.,jnp.nan,3.,4.]))
jax.grad(jnp.nanvar)(jnp.array([1.,jnp.nan,3.,4.]))
jax.grad(lambda x: jnp.nanstd(x,ddof=1))(jnp.array([1.,jnp.nan,3.,4.]))
jax.grad(lambda x: jnp.nanstd(x,where=jnp.array([True,True,False,True])))(jnp.array([1.,jnp.nan,3.,4.]))
jax.grad(lambda x: jnp.nanvar(x,axis=0).sum())(jnp.array([[1.,jnp.nan],[2.,jnp.nan],[3.,jnp.nan]]))
jax.grad(lambda x: jnp.nanstd(x,axis=0).sum())(jnp.array([[1.,jnp.nan],[2.,jnp.nan],[3.,1.]]))
jax.hessian(jnp.nanstd)(jnp.array([1.,jnp.nan,3.,4.]))
jax.grad(jnp.nanmedian)(jnp.array([1.,jnp.nan,3.,4.]))
jax.grad(lambda x: jnp.nancumprod(x).sum())(jnp.array([1.,jnp.nan,3.,4.]))
jnp.average(jnp.arange(24.).reshape(2,3,4),axis=(0,2),weights=jnp.arange(8.).reshape(2,4))
jnp.average(jnp.arange(24.).reshape(2,3,4),axis=(2,0),weights=jnp.arange(8.).reshape(4,2),returned=True)
jnp.average(jnp.arange(24.).reshape(2,3,4),axis=(-1,0),weights=jnp.ones((4,2)),keepdims=True)
jnp.average(jnp.arange(24).reshape(2,3,4),axis=(1,),weights=jnp.arange(3),returned=True)
jnp.average(jnp.ones((2,3)),weights=jnp.ones((3,2)),axis=(0,1))
jnp.average(jnp.ones((2,3)),weights=jnp.ones((3,2)),axis=0)
jnp.average(jnp.arange(24.).reshape(2,3,4),axis=(),weights=jnp.float32(2.))
jnp.logaddexp(1+2j,3-1j)
jnp.logaddexp(1-4j,-1-4j)
jnp.logaddexp2(jnp.array([1+2j,3.]),jnp.array([3-1j,1.]))
jnp.logaddexp.reduce(jnp.array([1+2j,3.]))
jax.jvp(jnp.logaddexp,(1+2j,3-1j),(1+0j,0j))
jax.jvp(jnp.logaddexp2,(jnp.complex64(1+2j),jnp.complex64(3-1j)),(jnp.complex64(1+1j),jnp.complex64(2j)))
jax.grad(lambda x: jnp.logaddexp(x,2j),holomorphic=True)(jnp.complex64(1+2j))
jax.grad(lambda x: jnp.frexp(x)[0])(10.)
jax.grad(lambda x: jnp.frexp(x)[0])(jnp.inf)
jax.jvp(jnp.frexp,(jnp.array([10.,-.3]),),(jnp.ones(2),))[1][0]
jax.grad(lambda x: jnp.ldexp(*jnp.frexp(x)))(10.)
jnp.ones((3,4))[jnp.zeros((0,),bool)]
jnp.ones((3,4))[jnp.zeros((3,0),bool)]
jnp.ones((3,4))[np.array([],bool)]
jnp.ones((5,2))[np.zeros((0,0),bool)]
jnp.ones((4,)).at[jnp.zeros(0,bool)].set(1.)
jnp.ones(5)[np.zeros(4,bool)]
jnp.from_dlpack(jnp.ones(3),device=jax.devices()[1],copy=False)
np.from_dlpack(jnp.ones(3),copy=True)
type(jnp.ones(3).__dlpack__(max_version=(1,0))).__name__
type(jnp.ones(3).__dlpack__(max_version=None)).__name__
jax.lax.dot(jnp.ones((2,2)),jnp.ones((2,2)),precision='BF16_BF16_F32_X6')
jax.lax.dot(jnp.ones((2,2)),jnp.ones((2,2)),precision='BF16_BF16_F32_X9')
jax.lax.dot(jnp.ones((2,2)),jnp.ones((2,2)),precision='TF32_TF32_F32')
jax.lax.dot(jnp.ones((2,2)),jnp.ones((2,2)),precision='ANY_F8_ANY_F8_F32')
[m.name for m in jax.lax.DotAlgorithmPreset]
""".strip().split("\n") + [only(line, since="0.12") for line in r"""
[m.value for m in jax.lax.linalg.SvdAlgorithm]
jax.lax.linalg.svd(jnp.diag(jnp.array([1.,2.])),algorithm=jax.lax.linalg.SvdAlgorithm.DIVIDE_AND_CONQUER)[1]
jax.random.key_data(jax.random.key(0,dtype=jax.random.key(0,impl='rbg').dtype))
jax.random.key(0,dtype=jax.random.key(0).dtype,impl='rbg')
jax.random.key(0,dtype=jnp.float32)
jax.random.key_data(jax.random.wrap_key_data(jnp.zeros(4,'uint32'),dtype=jax.random.key(0,impl='rbg').dtype))
jax.random.wrap_key_data(jnp.zeros(2,'uint32'),dtype=jax.random.key(0).dtype,impl='rbg')
""".strip().split("\n")])

# Lines that have another meaning with jax_enable_x64, or require it.
NUMBERS_X64 = current(r"""
jnp.ones((3,4,5))[jnp.int64(1),:,jnp.int32(1)]
jnp.ones((3,4,5))[jnp.int64(1):2,jnp.int32(1)]
jnp.ones((3,4,5))[jnp.uint8(1),jnp.int64(1),jnp.uint64(1)]
jnp.ones((3,4,5))[jnp.array([0,1],'int64'),jnp.array([0,1],'int32'),:]
jax.vmap(lambda x,i,j: x[i,j,:],(None,0,0))(jnp.ones((3,4,5)),jnp.array([0,1],'int64'),jnp.array([0,1],'int32'))
jax.grad(lambda x: x[jnp.int64(1),:,jnp.int32(1)].sum())(jnp.ones((3,4,5)))
jnp.ones((3,4,5)).at[jnp.int64(1),:,jnp.int32(1)].set(2.)
jnp.cumulative_sum(jnp.arange(3,dtype='uint32'))
jnp.eye(3,k=2**70)
jnp.tril(jnp.ones((3,3)),2**40)
jnp.tril(jnp.ones((3,3)),2**31-1)
jnp.tril(jnp.ones((3,3)),-2**40)
jnp.triu(jnp.ones((3,3)),2**31)
jnp.triu(jnp.ones((3,3)),-2**40)
jnp.trace(jnp.ones((3,3)),2**40)
jnp.logaddexp2(1+9j,1-4j)
jnp.logaddexp(-jnp.inf+0j,1.+0j)
jnp.finfo(jnp.ones(3)).eps
""".strip().split("\n") + [only(line, since="0.12") for line in (
    "jnp.tri(3)", "jnp.tri(3,k=2**40)", "jnp.tri(3,k=-2**31-1)")])
