"""Lines on the objects themselves: specs, arrays, types of numbers, large integers; for `tests/test_as_jax.py`."""

import sys

from tests.oracle import current, only

# What a spec with a pending reduction prints as, says or refuses.
SPECS = r"""
repr(jax.P('x'))
repr(jax.P('x',('y','z'),None))
jax.P.__name__
jax.P('x').partitions
jax.P('x',None).index(None)
jax.P('x').index('y')
jax.P('x','y','x').count('x')
repr(jax.P('x').update(partitions=(None,)))
type('Spec',(jax.P,),{})
repr(jax.P('x',reduced={'y'}))
repr(jax.P('x','z').update(reduced=frozenset(['y'])))
jax.P('x',unreduced={'y'}).partitions
jax.P('x',unreduced={'y'}).unreduced
jax.P('x',unreduced={'y'}).reduced
len(jax.P('x',unreduced={'y'}))
jax.P(unreduced={'y'})==jax.P(unreduced={'y'})
jax.P(unreduced={'y'})==jax.P()
jax.P(unreduced={'y'})==jax.P(reduced={'y'})
hash(jax.P(unreduced={'y'}))==hash(jax.P(unreduced={'y'}))
len({jax.P(unreduced={'y'}),jax.P(),jax.P(reduced={'y'}),jax.P(unreduced=frozenset('y'))})
list(jax.P(unreduced={'y'}))
jax.P('x',unreduced={'y'})[0]
jax.P(unreduced={'y'})+('x',)
('x',)+jax.P(reduced={'y'})
repr(jax.P('x',reduced={'y'})+jax.P('z'))
jax.P('x',unreduced={'x'})
jax.P(('z','x'),reduced={'x'})
jax.P(unreduced={'y'},reduced={'y'})
jax.P(unreduced={None})
jax.P(unreduced=('x',))
jax.P(reduced='x')
jax.P('x',unreduced=())
""".strip().split("\n")
SPECS_SINCE_0_12 = r"""
repr(jax.P('x',unreduced={'y'}))
repr(jax.P('x','z',unreduced={'y'},reduced={'w'}))
repr(jax.P(None,unreduced={'y'},unreduced_kind=jax.sharding.UnreducedKind.max))
jax.P(unreduced={'y'})+jax.P('x')
repr(jax.P('x',unreduced={'y'})+jax.P('z',unreduced={'y'}))
repr(jax.P('x',unreduced={'y'}).update(reduced={'z'}))
jax.P(unreduced={'y'}).update(unreduced=set())
jax.P(unreduced={'y'}).unreduced_kind.name
jax.P('x').unreduced_kind
jax.P(unreduced={'y'},unreduced_kind='max')
jax.P(unreduced_kind=jax.sharding.UnreducedKind.max)
jax.P(unreduced={'y'})==jax.P(unreduced={'y'},unreduced_kind=jax.sharding.UnreducedKind.min)
""".strip().split("\n")

# Arrays as Python objects: hashes, weak references, buffers, copies, deletion.
ARRAYS = r"""
hash(jnp.ones(2))
hash(jax.random.key(0))
{jnp.float32(1):2}
isinstance(jnp.ones(2),collections.abc.Hashable)
dataclasses.make_dataclass('D',[('x',object,jnp.ones(2))])
jax.jit(lambda x: hash(x)*0+x)(1.)
(lambda x: weakref.ref(x)() is x)(jnp.ones(2))
(lambda k: weakref.ref(k)() is k)(jax.random.key(0))
len(weakref.WeakValueDictionary({1:jnp.ones(2)}))
jax.jit(lambda x: x*(weakref.ref(x)() is x))(1.)
(lambda x: (x.delete(),x.delete(),x.is_deleted(),x.shape,x.dtype))(jnp.ones(2))
(lambda k: (k.delete(),k.is_deleted()))(jax.random.key(0))
(lambda x: (x.delete(),x+1))(jnp.ones(2))
(lambda x: (x.delete(),np.asarray(x)))(jnp.ones(2))
(lambda x: (x.delete(),x.copy_to_host_async()))(jnp.ones(2))
(lambda x: (x.delete(),x.block_until_ready()))(jnp.ones(2))
(lambda x: (x.delete(),jax.device_put(x,jax.devices()[0])))(jnp.ones(2))
(lambda x: (x.delete(),jax.jit(lambda y:y)(x)))(jnp.ones(2))
(lambda x: (x.delete(),copy.copy(x)))(jnp.ones(2))
(lambda x: (x.delete(),copy.deepcopy(x)))(jnp.ones(2))
(lambda x: (x.delete(),float(x)))(jnp.ones(()))
(lambda x,y: (x.delete(),y))(*(lambda x: (x,copy.copy(x)))(jnp.ones(2)))
copy.copy(jax.random.key(0)).dtype==jax.random.key(0).dtype
jnp.ones(2).copy_to_host_async()
jax.random.key(0).copy_to_host_async()
jax.jit(lambda x: x.delete() or x)(1.)
jax.jit(lambda x: x.is_deleted())(1.)
jax.jit(lambda x: x.addressable_shards)(1.)
jax.jit(lambda x: x.copy_to_host_async())(1.)
""".strip().split("\n")
# Python 3.12 and later ask classes for buffers.
BUFFERS = r"""
memoryview(jnp.arange(6.).reshape(2,3)).shape
memoryview(jnp.arange(3)).readonly
memoryview(jnp.ones((),'int8')).ndim
memoryview(jnp.ones(2,'bool')).format
memoryview(jnp.ones(2,'bfloat16'))
memoryview(jax.random.key(0))
(lambda x: (x.delete(),memoryview(x)))(jnp.ones(2))
jax.jit(lambda x: memoryview(x))(1.)
bytes(jnp.arange(3,dtype='uint8'))
""".strip().split("\n")

# Types of numbers: as classes, as dtypes, and called.
TYPES = [line.replace("T", name) for name in ("float32", "bfloat16", "int8", "complex64", "bool", "bool_", "uint4")
         for line in r"""
jnp.T(1)
jnp.T()
jnp.T([1,0])
jnp.T(True)
jnp.T(1j)
jnp.T.dtype
jnp.T.__name__
jnp.dtype(jnp.T)
np.dtype(jnp.T)
np.zeros(2,jnp.T).dtype
jnp.zeros(2,jnp.T)
jnp.T(jnp.ones(2))
jnp.T==np.dtype('float32')
isinstance(np.float32(1),jnp.T)
jax.jit(lambda x: jnp.T(x))(1)
jnp.issubdtype(jnp.T,np.floating)
repr(jnp.T)
""".strip().split("\n")] + r"""
jnp.float32('1.5')
jnp.int8('12')
jnp.bool_('1')
jnp.complex64('1j')
jnp.float32('a')
jnp.float32(b'1')
jnp.float32(2**40)
jnp.float16(2**40)
jnp.complex64(2**40)
jnp.bool_(2**40)
jax.dtypes.bfloat16(3)
jnp.dtype(jax.dtypes.bfloat16)
""".strip().split("\n")

# Python integers that do not fit: a float, a complex number or a bool that was asked for may be made of them.
INTEGERS = r"""
jnp.array(2**40,dtype='float32')
jnp.array(-2**70,dtype='float32')
jnp.array(2**200,dtype='float32')
jnp.array(2**1100,dtype='float32')
jnp.array([2**40,1],dtype='float32')
jnp.array([2**40,1.])
jnp.array([2**40,1])
jnp.array(np.array([2**40]),dtype='float32')
jnp.asarray(2**40,dtype='complex64')
jnp.array(2**40,dtype='bool')
jnp.array(2**40,dtype='int32')
jnp.array(2**40)
jnp.full((2,),2**40,dtype='float32')
jnp.full((2,),2**40,'bool')
jnp.full_like(jnp.ones(2),2**40)
jax.lax.full((2,),2**40,'float32')
jnp.zeros_like(2**40)
jnp.array(1j,dtype='float32')
jnp.array([1j,2],dtype='float32')
jnp.array(1j,dtype='int32')
jnp.array(1j,dtype='bool')
jnp.array(np.complex64(1j),dtype='float32')
jnp.full((2,),1j,'float32')
jax.jit(lambda x: x)(2**31)
jax.jit(lambda x: x)(-2**31)
jax.jit(lambda x: x)(-2**31-1)
jax.jit(lambda x: x)({'a':[2**40]})
jax.jit(lambda *,x: x)(x=2**40)
jax.jit(lambda: 2**40)()
jax.jit(lambda x: x,static_argnums=0)(2**40)
jax.jit(jax.named_call(lambda x: x))(2**40)
jax.named_call(jax.jit(lambda x: x))(2**40)
jax.named_call(lambda x: x)(2**40)
jax.named_call(lambda x: x+jnp.ones(2))(2**40)
jax.vmap(lambda x,y: x,in_axes=(0,None))(jnp.ones(2),2**40)
jax.vmap(lambda x: 2**40)(jnp.ones(2))
jax.grad(lambda x,y: x*y)(1.,2**40)
jax.jvp(lambda x: x,(2**40,),(1.,))
jax.vjp(lambda x: x*2.,2**40)
jax.linearize(lambda x: x*1.,2**40)
jax.eval_shape(lambda x: x,2**40)
jax.make_jaxpr(lambda x: x)(2**40)
jax.checkpoint(lambda x: x)(2**40)
jax.lax.cond(True,lambda x: x,lambda x: x,2**40)
jax.lax.scan(lambda c,x: (c,x),2**40,jnp.arange(2))
jax.lax.fori_loop(0,2**40,lambda i,x: x,0.)
jax.lax.while_loop(lambda x: x<0,lambda x: x,2**40)
jax.pmap(lambda x,y: x,in_axes=(0,None))(jnp.ones(1),2**40)
jax.typeof(2**40)
jax.device_put(2**40)
jnp.take(jnp.arange(3),2**40)
jnp.sin(2**40)
jnp.add(2**40,1.)
jnp.ones(2)*2**40
""".strip().split("\n")

# `lax.mul` to another dtype, and what `inline` means.
PRODUCTS = r"""
jax.lax.mul(jnp.full(2,100,'int8'),jnp.full(2,100,'int8'),out_dtype=jnp.int16)
jax.lax.mul(jnp.full(1,1j),jnp.full(1,1j),out_dtype='float32')
jax.lax.mul(jnp.full(1,1.5),jnp.full(1,1.5),out_dtype='int32')
jax.lax.mul(jnp.ones(2,'bfloat16'),2.,out_dtype='float32')
jax.lax.mul(jnp.ones(2,'int8'),jnp.ones(2),out_dtype='float32')
jax.lax.mul(2,2.,out_dtype='float32')
jax.lax.mul(2.,3.,out_dtype='float16')
jax.lax.mul(jnp.ones(2),jnp.ones(2),out_dtype='bool')
jax.lax.mul(jnp.ones(2,'bool'),jnp.ones(2,'bool'),out_dtype='float32')
jax.lax.mul(jnp.ones(2),jnp.ones(3),out_dtype='float32')
jax.lax.mul(jnp.ones(2),jnp.ones(2),out_dtype='nonsense')
jax.lax.mul(jnp.ones(2,'bfloat16'),jnp.ones(2))
jax.jvp(lambda x: jax.lax.mul(x,x,out_dtype='float32'),(jnp.full(2,3.,'bfloat16'),),(jnp.ones(2,'bfloat16'),))
jax.grad(lambda x,y: jax.lax.mul(x,y,out_dtype='float32').sum(),(0,1))(jnp.full(2,3.,'bfloat16'),jnp.float32(2))
jax.vmap(lambda x,y: jax.lax.mul(x,y,out_dtype='float32'),(0,None))(jnp.ones((2,3),'bfloat16'),jnp.ones(3))
str(jax.make_jaxpr(lambda x: jax.lax.mul(x,x,out_dtype='float32'))(jnp.ones(2,'bfloat16')))
str(jax.make_jaxpr(lambda x: jax.vjp(lambda y: jax.lax.mul(y,y,out_dtype='float32'),x)[1](1.))(jnp.ones((),'bfloat16')))
str(jax.make_jaxpr(lambda x: jax.lax.mul(x,x,out_dtype=None))(jnp.ones(2)))
""".strip().split("\n")
# Since 0.12 `inline=True` leaves the call in the program; `Inline.JAX_EARLY` writes the equations in its place.
INLINE = r"""
str(jax.make_jaxpr(jax.jit(lambda x: x+1,inline=True))(1.))
str(jax.make_jaxpr(jax.jit(lambda x: jax.jit(lambda x: x+1,inline=True)(x)))(1.))
str(jax.make_jaxpr(jax.grad(jax.jit(lambda x: jnp.sin(x)*x,inline=True)))(1.))
str(jax.make_jaxpr(jax.vmap(jax.jit(lambda x: jnp.sin(x)*x,inline=True)))(jnp.ones(2)))
str(jax.make_jaxpr(jax.jit(lambda x: (x,x+1),inline=True))(1.))
str(jax.make_jaxpr(jax.jit(lambda x: x+1,inline=jax.Inline.JAX_EARLY))(1.))
""".strip().split("\n")

OBJECTS = current([*SPECS, *ARRAYS, *TYPES, *INTEGERS, *PRODUCTS,
                   *[only(line, since="0.12") for line in (*SPECS_SINCE_0_12, *INLINE)],
                   *(BUFFERS if sys.version_info >= (3, 12) else ())])
