"""What programs and notebooks write, line by line: value, dtype, weak type, text or class of error are those of JAX."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import xjax

jax = pytest.importorskip("jax")
for name in ("image", "scipy.special", "scipy.stats", "ops"):
    importlib.import_module(f"jax.{name}")

# The text that a value prints as.
PRINTED = r"""
jnp.array([[1,2],[3,4]])
jnp.array([1.5,2], dtype='bfloat16')
jnp.array([True,False])
jnp.array(3)
jnp.array([])
jnp.zeros((2,0))
jnp.array([1+2j])
jnp.arange(2000)
jnp.arange(12.).reshape(3,4)[1]
jnp.float32(1/3)
jnp.array([1e-10,1.,1e10])
jnp.array([jnp.nan,jnp.inf,-jnp.inf])
str(jnp.arange(3))
str(jnp.float32(2.5))
f"{jnp.arange(3)}"
f"{jnp.float32(2.5):8.2f}"
"%.2f" % jnp.float32(2.5)
"%d" % jnp.int32(7)
repr(jnp.arange(3).aval)
repr(jnp.float32(1).aval)
jnp.arange(3).dtype
repr(jnp.float32)
str(jnp.float32)
jnp.float32
""".strip().split("\n")

WRITTEN = r"""
jnp.dtype('float32')
jnp.float32.dtype
jnp.array([1,2],jnp.int8)+200
jnp.array([1,2],jnp.uint8)-3
jnp.int32(5)//2
-7//jnp.int32(2)
-7%jnp.int32(3)
jnp.int32(-7)%3
2**jnp.arange(4)
jnp.arange(4)**2
jnp.arange(3)/2
1/jnp.arange(3)
jnp.arange(3)@jnp.arange(3)
jnp.arange(3)==jnp.arange(3)
jnp.arange(3)==[0,1,2]
jnp.arange(3)<2
~jnp.array([True,False])
~jnp.arange(3)
-jnp.array([True])
jnp.arange(3)<<1
jnp.array([1,2,3])[jnp.array([0,2])]
jnp.arange(5)[::-1]
jnp.arange(5)[-2:]
jnp.arange(5)[10]
jnp.arange(5)[jnp.array([10,-10])]
jnp.arange(6).reshape(2,3)[:,1]
jnp.arange(6).reshape(2,3)[...,None].shape
jnp.arange(6)[jnp.arange(6)%2==0]
jnp.arange(5).at[1].set(9)
jnp.arange(5).at[jnp.array([1,1])].add(1)
jnp.arange(5).at[10].set(3)
jnp.arange(5).at[1:3].multiply(2)
jnp.arange(5.).at[1].get(mode='fill',fill_value=-1)
jnp.arange(5).at[7].get(mode='fill',fill_value=-1)
jnp.where(jnp.arange(4)>1)
jnp.where(jnp.arange(4)>1, 1, 0.5)
jnp.sum(jnp.arange(5))
jnp.mean(jnp.arange(5))
jnp.max(jnp.array([]))
jnp.argmax(jnp.array([]))
jnp.sum(jnp.array([]))
jnp.concatenate([jnp.arange(2),jnp.ones(2)])
jnp.stack([jnp.arange(2),jnp.ones(2)],1)
jnp.linspace(0,1,5)
jnp.arange(0,1,0.3)
jnp.arange(5,0,-2)
jnp.eye(2)
jnp.full((2,),7)
jnp.full((2,),7.)
jnp.ones(3,int)
jnp.ones(3,float)
jnp.ones(3,complex)
jnp.ones(3,bool)
jnp.zeros_like(jnp.arange(3),dtype='float16')
jnp.asarray(3.)
jnp.asarray(np.float64(3.))
jnp.asarray([np.float64(3.),1])
jnp.asarray(np.arange(3,dtype='int64'))
jnp.asarray((1,2.))
jnp.asarray([[1],[2,3]])
jnp.asarray('a')
jnp.asarray(None)
jnp.asarray([None])
jnp.asarray({'a':1})
jnp.asarray(object())
jnp.array([jnp.array(1),2])
jnp.array(range(3))
jnp.array(x for x in range(3))
jnp.array(np.array(['a']))
jnp.array(np.datetime64('2020-01-01'))
jnp.array(10**20)
jnp.array(2**31)
jnp.array(-1,dtype='uint8')
jnp.array(300,dtype='uint8')
jnp.array(1.7,dtype=int)
jnp.array(b'ab')
jnp.int32(2.7)
jnp.int8(300)
jnp.uint8(-1)
jnp.float16(1e6)
jnp.bool_(3)
jnp.complex64(1)
jnp.dot(jnp.ones(2),jnp.ones(3))
jnp.ones((2,3))+jnp.ones((3,2))
jnp.ones((2,3)).reshape(4)
jnp.ones((2,3)).reshape(-1,-1)
jnp.ones((2,3)).reshape(3,-1).shape
jnp.ones(3)[1.5]
jnp.ones(3)['a']
jnp.ones(3)[0,0]
jnp.ones(3)[[0,1]]
jnp.ones((2,2))[(0,1)]
jnp.ones(3)+'a'
jnp.ones(3)+[1,2,3]
jnp.ones(3)+None
np.ones(3)+jnp.ones(3)
np.float32(2)*jnp.ones(2,'bfloat16')
2*jnp.ones(2,'bfloat16')
np.float64(2)*jnp.ones(2,'bfloat16')
jnp.ones(2,'int8')*2.5
jnp.ones(2,'int8')+jnp.ones(2,'uint8')
jnp.ones(2,'float16')+jnp.ones(2,'bfloat16')
jnp.ones(2,'int32')+jnp.ones(2,'float16')
jnp.ones(2,bool)+jnp.ones(2,bool)
jnp.ones(2,bool)-jnp.ones(2,bool)
jnp.ones(2,'uint8')<<9
jnp.sqrt(-1)
jnp.sqrt(-1+0j)
jnp.log(0)
jnp.sin('a')
jnp.sin([1,2])
jnp.sin(1)
jnp.abs(-3)
jnp.abs(jnp.int8(-128))
jnp.sign(-2.5)
jnp.round(2.5)
jnp.round(-0.5)
jnp.floor(2)
jnp.clip(jnp.arange(5),1,3)
jnp.clip(jnp.arange(5),max=2)
jnp.minimum(1,2.)
jnp.power(2,-1)
jnp.power(2,3)
jnp.true_divide(1,0)
jnp.divmod(7,-2)
jnp.unique(jnp.array([3,1,1]))
jnp.unique(jnp.array([3,1,1]),return_counts=True)
jnp.sort(jnp.array([3,jnp.nan,1]))
jnp.argsort(jnp.array([3,1,2]))
jnp.nonzero(jnp.array([0,1,1]))
jnp.cumsum(jnp.arange(4))
jnp.diff(jnp.array([1,4,9]))
jnp.tile(jnp.arange(2),2)
jnp.repeat(jnp.arange(2),2)
jnp.split(jnp.arange(6),3)
jnp.split(jnp.arange(5),3)
jnp.array_split(jnp.arange(5),3)
jnp.einsum('ij,jk->ik',jnp.ones((2,2)),jnp.ones((2,2)))
jnp.einsum('ij,jk',jnp.ones((2,3)),jnp.ones((2,2)))
jnp.linalg.inv(jnp.eye(2)*2)
jnp.linalg.inv(jnp.zeros((2,2)))
jnp.linalg.inv(jnp.ones((2,3)))
jnp.linalg.norm(jnp.array([3.,4.]))
jnp.linalg.det(jnp.eye(2))
jnp.linalg.solve(jnp.eye(2),jnp.ones(2))
jnp.linalg.eigh(jnp.eye(2))
jnp.linalg.svd(jnp.eye(2))
jnp.linalg.slogdet(jnp.eye(2))
jnp.linalg.qr(jnp.eye(2))
jnp.finfo('float32')
jnp.finfo('float32').eps
jnp.iinfo('int8')
jnp.iinfo('int8').max
jnp.result_type(1,2.)
jnp.result_type('int8',jnp.float16)
jnp.promote_types('int8','uint8')
jnp.can_cast('int8','int16')
jnp.issubdtype('float32',jnp.floating)
jnp.isscalar(3)
jnp.ndim([1,2])
jnp.shape(3)
jnp.size([1,2])
jnp.broadcast_shapes((2,1),(3,))
jnp.broadcast_to(jnp.arange(3),(2,3))
jnp.broadcast_to(jnp.arange(3),(2,4))
jnp.array_equal(jnp.arange(2),[0,1])
jnp.allclose(1.,1+1e-9)
jnp.isclose(jnp.nan,jnp.nan,equal_nan=True)
jnp.pi
jnp.inf
jnp.newaxis
jnp.e
jax.grad(lambda x: x**2)(3.)
jax.grad(lambda x: x**2)(3)
jax.grad(lambda x: jnp.array([x,x]))(3.)
jax.grad(lambda x: x)(jnp.arange(3.))
jax.grad(lambda x: (x,x))(3.)
jax.grad(lambda x: 3)(3.)
jax.grad(lambda x: 3.)(3.)
jax.grad(lambda d: d['a']*d['b'])({'a':2.,'b':3.})
jax.grad(lambda x,y: x*y, argnums=(0,1))(2.,3.)
jax.grad(lambda x,y: x*y, argnums=2)(2.,3.)
jax.value_and_grad(lambda x: (x**2,'aux'),has_aux=True)(3.)
jax.grad(lambda x: x.real)(1j)
jax.grad(lambda x: x.real**2,holomorphic=True)(1j)
jax.grad(jnp.sin)(jnp.complex64(1))
jax.jit(lambda x: x if x>0 else -x)(1.)
jax.jit(lambda x: int(x))(1.)
jax.jit(lambda x: np.sin(x))(1.)
jax.jit(lambda x: range(x))(1)
jax.jit(lambda x: x[x>0])(jnp.arange(3))
jax.jit(lambda n: jnp.ones(n))(3)
jax.jit(lambda n: jnp.ones(n),static_argnums=0)(3)
jax.jit(lambda x: 'a')(1)
jax.jit(lambda x: None)(1)
jax.jit(lambda x: {'b':x,'a':(x,)})(1)
jax.jit(lambda x: x)('a')
jax.jit(lambda x: x)(None)
jax.jit(lambda x: x)([1,2.])
jax.jit(lambda x,n: x*n,static_argnums=1)(1.,[2])
jax.jit(lambda x: jnp.nonzero(x))(jnp.arange(3))
jax.vmap(lambda x: x**2)(jnp.arange(3))
jax.vmap(lambda x,y: x+y)(jnp.arange(3),jnp.arange(2))
jax.vmap(lambda x,y: x+y,in_axes=(0,None))(jnp.arange(3),1)
jax.vmap(lambda x: x)(1.)
jax.vmap(lambda x: x,in_axes=1)(jnp.ones(3))
jax.vmap(lambda x: x,out_axes=1)(jnp.ones((3,2))).shape
jax.vmap(lambda d: d['a'])({'a':jnp.arange(2),'b':jnp.ones(2)})
jax.vmap(lambda x: x,in_axes=(0,1))(jnp.ones(3))
jax.vmap(lambda x: 3)(jnp.ones(3))
jax.vmap(lambda x: x, axis_size=2)(jnp.ones(3))
jax.jacfwd(lambda x: x**2)(jnp.arange(2.))
jax.jacrev(lambda x: x**2)(jnp.arange(2.))
jax.hessian(lambda x: (x**3).sum())(jnp.arange(2.))
jax.jvp(lambda x: x**2,(3.,),(1.,))
jax.jvp(lambda x: x**2,(3.,),(1,))
jax.jvp(lambda x: x**2,(3,),(1.,))
jax.jvp(lambda x: x**2,3.,1.)
jax.vjp(lambda x: x**2,3.)[1](1.)
jax.vjp(lambda x: x**2,3.)[1](1)
jax.vjp(lambda x: x**2,3.)[1](jnp.ones(2))
jax.linearize(lambda x: x**2,3.)[1](2.)
jax.lax.cond(True,lambda x: x,lambda x: -x,1.)
jax.lax.cond(1.0,lambda x: x,lambda x: -x,1.)
jax.lax.cond(True,lambda x: x,lambda x: 1,1.)
jax.lax.cond(jnp.array([True]),lambda x: x,lambda x: -x,1.)
jax.lax.scan(lambda c,x: (c+x,c*x),0.,jnp.arange(3.))
jax.lax.scan(lambda c,x: (c+x,c*x),0,jnp.arange(3.))
jax.lax.scan(lambda c,x: c,0.,jnp.arange(3.))
jax.lax.scan(lambda c,_: (c+1,None),0,None,length=3)
jax.lax.scan(lambda c,_: (c+1,None),0,None)
jax.lax.fori_loop(0,3,lambda i,x: x+i,0)
jax.lax.while_loop(lambda x: x<5,lambda x: x+2,0)
jax.lax.while_loop(lambda x: x<5,lambda x: x+2.,0)
jax.lax.switch(1,[lambda x: x,lambda x: 2*x],3.)
jax.lax.switch(5,[lambda x: x,lambda x: 2*x],3.)
jax.lax.map(lambda x: x*2,jnp.arange(3))
jax.lax.associative_scan(jnp.add,jnp.arange(4))
jax.lax.dynamic_slice(jnp.arange(5),(3,),(3,))
jax.lax.dynamic_update_slice(jnp.arange(5),jnp.ones(2,int),(4,))
jax.lax.add(1,2.)
jax.lax.add(jnp.ones(2),1)
jax.lax.add(jnp.ones(2),jnp.ones(2,int))
jax.lax.top_k(jnp.array([1,3,2]),2)
jax.random.PRNGKey(0)
jax.random.key(0)
jax.random.split(jax.random.PRNGKey(0))
jax.random.normal(jax.random.key(0),(2,))
jax.random.normal(jax.random.key(0),2)
jax.random.normal(0)
jax.random.uniform(jax.random.key(0),minval=2,maxval=1)
jax.random.randint(jax.random.key(0),(3,),0,10)
jax.random.choice(jax.random.key(0),5,(3,),replace=False)
jax.random.permutation(jax.random.key(0),5)
jax.random.categorical(jax.random.key(0),jnp.log(jnp.array([.2,.8])))
jax.random.bernoulli(jax.random.key(0),0.3,(3,))
jax.random.fold_in(jax.random.key(0),1)
jax.random.key_data(jax.random.key(3))
jax.random.normal(jax.random.key(0),(2,),'int32')
jax.random.normal(jax.random.split(jax.random.key(0)),(2,))
jax.random.key(0)+1
jax.random.key(0).dtype
jax.random.split(jax.random.key(0))[0].shape
jax.nn.relu(jnp.array([-1.,2.]))
jax.nn.softmax(jnp.arange(3.))
jax.nn.one_hot(jnp.arange(3),4)
jax.nn.one_hot(5,3)
jax.nn.gelu(1.)
jax.nn.sigmoid(0)
jax.nn.logsumexp(jnp.arange(3.))
jax.tree.map(lambda x: x+1,{'a':1,'b':(2,None)})
jax.tree.map(lambda x,y: x+y,{'a':1},{'b':1})
jax.tree.leaves({'b':1,'a':[2,3]})
jax.tree.structure({'b':1,'a':[2,None]})
jax.tree.flatten((1,{'a':2}))
jax.tree.reduce(lambda a,b: a+b,[1,2,3])
jax.tree.all([True,False])
jax.tree.transpose(jax.tree.structure([0,0]),jax.tree.structure((0,0)),[(1,2),(3,4)])
jax.tree_util.tree_map_with_path(lambda p,x: jax.tree_util.keystr(p),{'a':[1,2]})
jax.eval_shape(lambda x: x@x.T,jax.ShapeDtypeStruct((2,3),jnp.float32))
jax.make_jaxpr(lambda x: jnp.sin(x)+1)(1.)
jax.ops.segment_sum(jnp.arange(4),jnp.array([0,0,1,1]),2)
jax.device_put(1.)
jax.device_get({'a':jnp.ones(2)})
jax.typeof(jnp.ones(2))
jax.numpy.vectorize(lambda x,y: x@y,signature='(n),(n)->()')(jnp.ones((2,3)),jnp.ones(3))
jax.image.resize(jnp.arange(4.).reshape(2,2),(1,1),'bilinear')
jax.scipy.special.expit(0.)
jax.scipy.stats.norm.logpdf(0.)
jax.checkpoint(jnp.sin)(1.)
isinstance(jnp.ones(2),jax.Array)
isinstance(np.ones(2),jax.Array)
jnp.ones(2).nbytes
jnp.ones((2,3)).T.shape
jnp.ones(2).tolist()
jnp.ones(()).item()
jnp.ones(2).item()
float(jnp.ones(2))
float(jnp.ones(1))
int(jnp.float32(2.7))
bool(jnp.ones(2))
list(jnp.arange(2))
[*jnp.arange(2)]
sum(jnp.arange(3))
max(jnp.arange(3))
jnp.arange(3).sum(axis=5)
jnp.ones((2,2)).sum(axis=(0,0))
jnp.ones(2).foo
jnp.ones(2)[0]==1
np.asarray(jnp.arange(3)).dtype
np.array(jnp.ones(2,'bfloat16')).dtype
hash(jnp.float32(1).item())
jnp.ones(2).block_until_ready()
jnp.arange(3).astype(str)
jnp.ones(2).astype('complex64')
jnp.array([1j]).astype(float)
jnp.ones(2)[None,:].squeeze(1)
jnp.expand_dims(jnp.ones(2),(0,3)).shape
jnp.ones(2).__array__(int)
jnp.frombuffer(b'\x01\x02',dtype='uint8')
jnp.fromfunction(lambda i,j: i+j,(2,2))
jnp.meshgrid(jnp.arange(2),jnp.arange(2))
jnp.mgrid[0:2,0:2]
jnp.ogrid[0:2]
jnp.r_[1:3,5]
jnp.c_[jnp.arange(2),jnp.arange(2)]
jnp.ix_(jnp.arange(2),jnp.arange(2))
jnp.s_[1:2]
jnp.index_exp[1:2]
jnp.apply_along_axis(jnp.sum,0,jnp.ones((2,2)))
jnp.piecewise(jnp.arange(3.),[jnp.arange(3)>1],[1,0])
jnp.select([jnp.arange(3)>1],[1],0)
jnp.histogram(jnp.arange(5.),bins=2)
jnp.bincount(jnp.array([0,1,1]))
jnp.interp(0.5,jnp.arange(2.),jnp.arange(2.))
jnp.polyfit(jnp.arange(3.),jnp.arange(3.),1)
jnp.convolve(jnp.ones(2),jnp.ones(2))
jnp.percentile(jnp.arange(5.),50)
jnp.median(jnp.arange(4))
jnp.cov(jnp.arange(6.).reshape(2,3))
jnp.corrcoef(jnp.arange(6.).reshape(2,3))
jnp.fft.fft(jnp.ones(2))
jnp.take(jnp.arange(3),5)
jnp.take(jnp.arange(3),jnp.array([-1]))
jnp.searchsorted(jnp.arange(3),1.5)
jnp.digitize(1.5,jnp.arange(3))
jnp.roll(jnp.arange(3),1)
jnp.flip(jnp.arange(3))
jnp.rot90(jnp.arange(4).reshape(2,2))
jnp.triu(jnp.ones((2,2)))
jnp.kron(jnp.eye(2),jnp.ones(1))
jnp.outer(jnp.arange(2),jnp.arange(2))
jnp.cross(jnp.array([1,0,0]),jnp.array([0,1,0]))
jnp.trace(jnp.eye(2))
jnp.diag(jnp.arange(2))
jnp.tri(2)
jnp.vander(jnp.arange(2))
jnp.packbits(jnp.array([1,0,1]))
jnp.gcd(6,4)
jnp.nan_to_num(jnp.array([jnp.nan]))
jnp.copysign(1.,-0.)
jnp.heaviside(0.,0.5)
jnp.sinc(0.)
jnp.i0(0.)
jnp.unwrap(jnp.array([0.,6.]))
jnp.lexsort((jnp.array([1,0]),jnp.array([0,0])))
jnp.array_str(jnp.ones(2))
round(jnp.float32(2.567))
round(jnp.array([1.25,2.5]),1)
round(jnp.int8(3))
2 in jnp.arange(3)
'a' in jnp.arange(3)
jax.random.key(0) in jax.random.split(jax.random.key(0))
jnp.int8(1e3)
jnp.array(jnp.nan,dtype=int)
jnp.uint8(True)
jnp.array(-3.7,dtype='uint8')
jnp.array(3.7,dtype='uint8')
jax.jacfwd(lambda x: x**2)(3.)
jax.hessian(lambda x: x**3)(3.)
jax.grad(lambda x: x**2)(3.)*jnp.bfloat16(2)
jax.grad(lambda x,y: x,1)(3.,1.)
jax.jvp(lambda x: x,(3,),(np.zeros((),jax.dtypes.float0),))[0]
jax.vjp(lambda x: jnp.round(x).astype(int),3.)[1](1)
jnp.array([1+2j]).view('float32')
jnp.float32(1).view('uint8')
jnp.array([1,2],'int16').byteswap()
jnp.array_equal([1,2],(1,2))
jnp.array_equiv([1,1],1)
jnp.trapezoid(jnp.array([1.,jnp.inf]))
jax.P('x')+jax.P('y')
len(jax.P('x',None))
jax.ShapeDtypeStruct((2,),'float32').update(dtype='int8')
jax.jit(lambda x: x,in_shardings=3)(1.)
jax.jit(lambda x: x,compiler_options={'xla_nonsense':1})(1.)
jax.jit(lambda x: x*2).lower(1.).compile()(2.)
""".strip().split("\n")

# Where xjax does otherwise, and why.
OTHERWISE = {
    "jnp.arange(5)[10]": "an index that is known to be out of bounds is refused",
    "jnp.arange(5).at[10].set(3)": "the same",
    "jnp.asarray(None)": "a TypeError, since the type is wrong",
    "jnp.asarray([None])": "the same",
    "jax.grad(lambda x: x.real)(1j)": "the gradient of a Python number is weakly typed, also of a complex one",
    "jax.jvp(lambda x: x**2,(3.,),(1,))": "a Python number takes the dtype of the value beside it",
    "jax.vjp(lambda x: x**2,3.)[1](1)": "the same",
    "jax.grad(lambda x,y: x*y, argnums=2)(2.,3.)": "a ValueError, as jacrev's in JAX",
    "jax.lax.add(jnp.ones(2),1)": "the same",
    "jax.random.key(0)+1": "a TypePromotionError, which is a ValueError",
    "'a' in jnp.arange(3)": "False, as in NumPy",
    "jnp.trapezoid(jnp.array([1.,jnp.inf]))": "infinite, as in NumPy",
    "jax.jit(lambda x: x,compiler_options={'xla_nonsense':1})(1.)": "a ValueError: the option is wrong, not XLA",
    "float(jnp.ones(1))": "one element is a number, as in NumPy",
}


def outcome(lib, expression):
    """(value, None), or (None, class of the error)."""
    try:
        return eval(expression, {"jax": lib, "jnp": lib.numpy, "np": np}), None
    except Exception as error:
        return None, type(error)


def assert_same(ours, theirs):
    if hasattr(theirs, "aval") and not hasattr(theirs, "_base_array"):
        assert (ours.shape, ours.dtype, ours.weak_type) == (theirs.shape, theirs.dtype, theirs.weak_type)
        np.testing.assert_allclose(np.asarray(ours).astype(complex), np.asarray(theirs).astype(complex), rtol=1e-5,
                                   atol=1e-6)
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b)
    else:
        assert repr(ours).replace("xjax", "jax") == repr(theirs)


@pytest.mark.parametrize("expression", [*PRINTED, *WRITTEN])
@pytest.mark.filterwarnings("ignore")
def test_an_expression_means_what_it_means_in_jax(expression):
    (ours, error), (theirs, expected) = outcome(xjax, expression), outcome(jax, expression)
    if expression in OTHERWISE:
        with pytest.raises(AssertionError):
            compare(expression, ours, error, theirs, expected)
    else:
        compare(expression, ours, error, theirs, expected)


def compare(expression, ours, error, theirs, expected):
    assert (error is None) == (expected is None), (error, expected)
    if expected is not None:
        builtin = next(c for c in expected.__mro__ if c.__module__ == "builtins")
        assert issubclass(error, builtin)
    elif expression in PRINTED:
        assert repr(ours).replace("xjax", "jax") == repr(theirs)
    else:
        assert_same(ours, theirs)


def test_the_table_of_differences_is_of_these_expressions():
    assert set(OTHERWISE) <= set(WRITTEN)
