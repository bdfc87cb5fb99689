"""Variants of lines whose behaviour once differed from JAX's; for `tests/test_as_jax.py`."""

SHORT = {
    "POLICY.": "jax.checkpoint_policies.",
    "GRAD(": "jax.make_jaxpr(jax.grad(jax.checkpoint(",
    "CUSTOM(": "jax.custom_batching.custom_vmap(",
    "VMAP.": "jax.vmap(lambda p,a: jax.lax.",
    "AXES=": "in_axes=(0,None),out_axes=",
    "RULED(": "(lambda f: (f.def_vmap(lambda n,b,x: ",
    "COUNT(": "(lambda n: (lambda f: (",
}
# Arrays as Python objects, dtypes of every NumPy scalar, names, refused arguments, accepted arguments, counts of calls.
RELATIVES = r"""
hash(jnp.ones(()))
hash(jnp.arange(3))
{jnp.ones(2)}
weakref.ref(jnp.ones(2))() is None
(lambda x: (x.delete(), x.is_deleted())[1])(jnp.ones(2)+1)
(lambda x: (x.delete(), x+1))(jnp.ones(2)+1)
(lambda x: (x.delete(), x.shape)[1])(jnp.ones(2)+1)
(lambda x: (x.delete(), x.delete())[1])(jnp.ones(2)+1)
(lambda x: (x.copy_to_host_async(), np.asarray(x))[1])(jnp.ones(2))
(lambda x: (x.delete(), x.copy_to_host_async()))(jnp.ones(2)+1)
[jnp.dtype(t).name for t in (np.float16,np.float32,np.float64,np.half,np.single,np.double,np.longdouble)]
[jnp.dtype(t).name for t in (np.int8,np.int16,np.int32,np.int64,np.byte,np.short,np.intc,np.intp,np.longlong)]
[jnp.dtype(t).name for t in (np.uint8,np.uint16,np.uint32,np.uint64,np.uintp,np.uintc,np.ulonglong)]
[jnp.dtype(t).name for t in (np.bool_,np.complex64,np.complex128,np.clongdouble)]
[jnp.dtype(t(1)) .name if 0 else np.dtype(t(1)).name for t in (jnp.float32,jnp.int8)]
jnp.dtype(np.str_)
jnp.dtype(np.object_)
jnp.dtype(np.datetime64).name
jnp.dtype('float32') == jnp.float32
jnp.dtype(jnp.bfloat16).name
jnp.dtype(jnp.float32).name
jax.dtypes.canonicalize_dtype(np.longlong).name
jnp.asarray(np.longlong(3))
jnp.asarray(np.longdouble(3))
jnp.asarray(np.uintp(3))
jnp.asarray(np.float16(3))
jnp.asarray(np.str_('a'))
jnp.asarray(np.datetime64('2020'))
[getattr(jnp,n).__name__ for n in 'acos acosh asin asinh atan atan2 atanh concat pow permute_dims abs conj'.split()]
[getattr(jnp,'bitwise_'+n).__name__ for n in 'invert left_shift right_shift'.split()]
jnp.conj.__name__
jnp.arctan2.__name__
jnp.absolute.__name__
jnp.bitwise_not.__name__
jnp.linalg.matmul.__name__
jax.nn.swish.__name__
jax.nn.silu.__name__
jax.lax.mul(jnp.ones(2,'int8'),jnp.ones(2,'int8'),out_dtype='int32')
jax.lax.mul(jnp.ones(2,'bfloat16'),jnp.ones(2,'bfloat16'),out_dtype='float32')
jax.lax.mul(jnp.ones(2),jnp.ones(2),out_dtype='float16')
jax.grad(lambda x: jax.lax.mul(x,x,out_dtype='float32').sum())(jnp.ones(2,'bfloat16'))
jax.vmap(lambda x: jax.lax.mul(x,x,out_dtype='float32'))(jnp.ones(2,'bfloat16'))
jax.vjp(lambda x: x*2,1.)[1].args
sorted(n for n in dir(jax.linear_transpose(lambda x: x*2,1.)) if n[0]!='_')
jax.make_jaxpr(lambda x: x*2)(1.).jaxpr.pretty_print(use_color=False)
jax.make_jaxpr(lambda x: x*2)(1.).pretty_print(use_color=False)
jax.make_jaxpr(lambda x: jnp.sin(x)*2)(1.).jaxpr.pretty_print(use_color=False,print_shapes=False)
jax.make_jaxpr(lambda x: jnp.sin(x)*2)(1.).jaxpr.pretty_print(use_color=False,print_effects=True)
jax.linear_transpose(lambda x: jnp.sin(x),1.)(3.)
jax.linear_transpose(lambda x: x**2,jnp.ones(2))(jnp.ones(2))
jax.linear_transpose(lambda x: jnp.maximum(x,0),1.)(3.)
jax.jit(lambda x: x)(2**40)
jax.jit(lambda x: x)([1,2**33])
jax.named_call(lambda x: x,name='a')(2**40)
jax.vmap(lambda x: x,in_axes=None,axis_size=2)(2**40)
jax.grad(lambda x: x*2.)(2**40)
jax.lax.add(2**40,1)
jax.lax.reduce_and(jnp.ones(2,'bfloat16'),(0,))
jax.lax.reduce_or(jnp.ones(2,'bfloat16'),(0,))
jax.lax.reduce_xor(jnp.ones(2,'bfloat16'),(0,))
jax.lax.argmax(jnp.ones(2,'bfloat16'),0,'bfloat16')
jax.lax.argmin(jnp.ones(2),0,'float32')
jax.lax.reduce_precision(jnp.ones(2,'int32'),5,5)
jax.lax.reduce_sum(jnp.ones(2,'bool'),(0,))
jax.lax.reduce_max(jnp.ones(2,'complex64'),(0,))
jnp.zeros(2,jax.dtypes.float0)
np.zeros(2,jax.dtypes.float0)+jnp.ones(2)
jnp.ones(2)*np.zeros(2,jax.dtypes.float0)
jnp.sin(np.zeros(2,jax.dtypes.float0))
jax.lax.add(np.zeros(2,jax.dtypes.float0),np.zeros(2,jax.dtypes.float0))
jax.grad(lambda x: x*1.,allow_int=True)(3)+1
jax.grad(lambda x: x*1.,allow_int=True)(3)==0
-jax.grad(lambda x: x*1.,allow_int=True)(3)
jnp.arange(3j)
jnp.arange(1j,3)
jnp.arange(0,3,1j)
jnp.arange(3,dtype=complex)
jnp.arange(1+0j,4+0j)
jnp.arange(0,1,0.3,dtype=complex)
jax.lax.fori_loop(0,3.,lambda i,c: c+1,0)
jax.lax.fori_loop(np.float32(1),np.float32(3),lambda i,c: c+1,0)
jax.lax.fori_loop(0.,jnp.float32(3.),lambda i,c: c+i,0.)
jax.jit(lambda n: jax.lax.fori_loop(0.,n,lambda i,c: c+i,0.))(3.)
jax.random.PRNGKey(-2**31)
jax.random.PRNGKey(-2**63)
jax.random.PRNGKey(2**40)
jax.random.PRNGKey(2**63-1)
jax.random.PRNGKey(2**64)
jax.random.PRNGKey(-2**64)
jax.random.key_data(jax.random.key(-2**33))
jax.nn.dot_product_attention(jnp.ones((1,2,3,4)),jnp.ones((1,2,3,4)),jnp.ones((1,2,3,4)),mask=jnp.ones((1,1,2,2),bool))
jax.nn.dot_product_attention(jnp.ones((1,2,3,4)),jnp.ones((1,2,3,4)),jnp.ones((1,2,3,4)),mask=jnp.ones((1,3,2,2),bool))
jax.nn.dot_product_attention(jnp.ones((1,2,3,4)),jnp.ones((1,2,3,4)),jnp.ones((1,2,3,4)),mask=jnp.ones((1,3,1,2),bool))
jax.nn.dot_product_attention(jnp.ones((2,3,4)),jnp.ones((2,3,4)),jnp.ones((2,3,4)),mask=jnp.ones((3,2,2),bool))
jax.nn.dot_product_attention(jnp.ones((2,3,4)),jnp.ones((2,3,4)),jnp.ones((2,3,4)),mask=jnp.ones((1,1,2),bool))
jax.nn.dot_product_attention(jnp.ones((1,2,3,4)),jnp.ones((1,2,3,4)),jnp.ones((1,2,3,4)),mask=jnp.ones((2,2),bool))
jax.nn.dot_product_attention(jnp.ones((1,2,3,4)),jnp.ones((1,2,3,4)),jnp.ones((1,2,3,4)),bias=jnp.ones((1,1,2,2)))
jnp.take_along_axis(jnp.arange(6.).reshape(2,3),jnp.array([[2],[0]]),1,mode='promise_in_bounds')
jnp.take_along_axis(jnp.arange(6.).reshape(2,3),jnp.array([[-1],[0]]),1,mode='clip')
jnp.take_along_axis(jnp.arange(6.).reshape(2,3),jnp.array([[-1],[-9]]),1,mode='fill')
jax.grad(lambda x: jnp.where(x>2,1.,2.),allow_int=True)(3)
jax.grad(lambda x: (x>2)*1.,allow_int=True)(jnp.int32(3))
jax.grad(lambda x,y: jnp.where(x>2,y,0.),argnums=(0,1),allow_int=True)(3,2.)
jax.grad(lambda x: jnp.sum(jnp.where(x==2,1.,0.)),allow_int=True)(jnp.arange(3))
jnp.einsum('abij,abjk->abik',jnp.ones((2,3,4,5)),jnp.ones((2,1,5,6))).shape
jnp.einsum('abcd,abcd->ab',jnp.ones((2,3,4,5)),jnp.ones((2,3,4,5)))
jnp.einsum('...ij,...jk->...ik',jnp.ones((2,1,4,5)),jnp.ones((3,5,6))).shape
jnp.einsum('...ij,...ij',jnp.ones((2,1,4,1)),jnp.ones((3,4,1))).shape
jnp.einsum('abcd,b...->a...',jnp.ones((2,3,4,5)),jnp.ones((3,2))).shape
jax.scipy.sparse.linalg.cg(lambda v: v*2,jnp.ones(2)*1j)[0]
jax.scipy.sparse.linalg.gmres(lambda v: v*2,jnp.ones(2)*1j)[0]
jax.scipy.sparse.linalg.bicgstab(lambda v: v*2,jnp.ones(2)*1j)[0]
jax.scipy.sparse.linalg.cg(jnp.array([[2.,1j],[-1j,2.]]),jnp.ones(2)*1j)[0]
jax.scipy.sparse.linalg.gmres(jnp.array([[2.,1j],[-1j,2.]]),jnp.ones(2)*(1+1j))[0]
jax.scipy.sparse.linalg.bicgstab(jnp.array([[2.,1j],[-1j,2.]]),jnp.ones(2)*(1+1j))[0]
jax.scipy.sparse.linalg.cg(lambda v: {'a':v['a']*2},{'a':jnp.ones(2)*1j})[0]
jax.grad(lambda x: jnp.dot(x,x,preferred_element_type='float32'))(jnp.ones(2,'bfloat16'))
jax.grad(lambda x: jax.lax.dot(x,x,preferred_element_type='float32'))(jnp.ones(2,'float16'))
jax.jvp(lambda x: jax.lax.dot(x,x,preferred_element_type='float32'),(jnp.ones(2,'float16'),),(jnp.ones(2,'float16'),))
jax.vmap(lambda x: jnp.matmul(x,x,preferred_element_type='float32'))(jnp.ones((2,2),'bfloat16'))
jax.hessian(lambda x: jnp.dot(x,x,preferred_element_type='float32'))(jnp.ones(2,'bfloat16'))
jax.scipy.linalg.cholesky(jnp.ones((3,2)))
jax.lax.transpose(jnp.ones((2,3)),(0,))
jax.lax.transpose(jnp.ones((2,3)),(0,2))
jax.grad(lambda x: x,argnums=(0,2))(1.)
jax.jacfwd(lambda x: x,argnums=1)(1.)
jax.jacrev(lambda x: x,argnums=1)(1.)
jax.hessian(lambda x: x,argnums=1)(1.)
jax.value_and_grad(lambda x: x,argnums='a')(1.)
jax.jit(lambda x: x,static_argnums=1)(1.)
jax.vjp(lambda x: (x,x),1.)[1](1.)
jax.vjp(lambda x: (x,x),1.)[1]([1.,1.])
jax.vjp(lambda x: x,jnp.ones(2))[1](jnp.ones(2,'int32'))
jax.vjp(lambda x: x,jnp.ones(2))[1](1.)
VMAP.cond(p,lambda a: (a,1.),lambda a: (a,2.),a),AXES=(None,0))(jnp.arange(2)>0,jnp.ones(3))
VMAP.cond(p,lambda a: a,lambda a: a*2,a),AXES=None)(jnp.arange(2)>0,jnp.ones(3))
VMAP.switch(p,[lambda a: a]*3,a),AXES=None)(jnp.arange(3),jnp.ones(3))
VMAP.switch(p,[lambda a,b: (a,b)]*2,a,p),AXES=(None,0))(jnp.arange(2),jnp.ones(3))
jax.jit(VMAP.cond(p,lambda a: (a,a),lambda a: (a,-a),a),AXES=(None,0)))(jnp.arange(2)>0,jnp.ones(3))
str(GRAD(lambda x: jnp.sin(jnp.sin(x)))))(1.)).count('= sin')
str(GRAD(lambda x: jnp.sin(x)*2)))(1.)).count('= sin')
str(GRAD(lambda x: jnp.exp(x)*x)))(1.)).count('= exp')
str(GRAD(lambda x: jnp.sin(jnp.sin(x)),policy=POLICY.everything_saveable)))(1.)).count('= sin')
str(GRAD(lambda x: jnp.sin(jnp.sin(x)),policy=POLICY.nothing_saveable)))(1.)).count('= sin')
str(GRAD(lambda x: jnp.sum(jnp.sin(x@x)),policy=POLICY.dots_saveable)))(jnp.ones((2,2)))).count('dot_general')
str(GRAD(lambda x: jnp.sum(jnp.sin(x@x)),policy=POLICY.dots_with_no_batch_dims_saveable)))(jnp.eye(2))).count('dot_')
COUNT(f(1.),f(2.),f(1),f(np.float32(1)),f(jnp.float32(1)),len(n))[5])(jax.jit(lambda x: (n.append(1),x)[1])))([])
COUNT(jax.grad(f)(1.),jax.grad(f)(2.),f(1.),len(n))[3])(jax.jit(lambda x: (n.append(1),x*x)[1])))([])
COUNT(jax.vmap(f)(jnp.ones(2)),jax.vmap(f)(jnp.ones(3)),f(jnp.ones(())),len(n))[3])(jax.jit(lambda x: n.append(1))))([])
COUNT(f(1.),f.clear_cache(),f(1.),len(n))[3])(jax.jit(lambda x: (n.append(1),x)[1])))([])
mapped(jax,lambda x: jax.lax.rng_bit_generator(x,(2,))[1])(jnp.zeros(4,'uint32')).shape
mapped(jax,lambda k: jax.random.normal(k,(2,)))(jax.random.key(0))
mapped(jax,lambda k: jax.random.split(k)[0])(jax.random.key(0))
mapped(jax,lambda x: jax.lax.psum(x,'i'))(jnp.ones(2))
jax.shard_map(lambda x: x*2,mesh=jax.make_mesh((1,),('i',)),in_specs=None,out_specs=jax.P())(jnp.ones(2))
jax.shard_map(lambda x: x*2,mesh=jax.make_mesh((1,),('i',)),in_specs=(None,),out_specs=jax.P())(jnp.ones(2))
jax.shard_map(lambda x: x*2,mesh=jax.make_mesh((1,),('i',)),in_specs=jax.P(),out_specs=None)(jnp.ones(2))
jax.shard_map(lambda x: x*2,mesh=jax.make_mesh((1,),('i',)),in_specs=jax.P('j'),out_specs=jax.P())(jnp.ones(2))
CUSTOM(lambda x: x*2)(1.)
RULED((x*3,b[0])),jax.vmap(f)(jnp.ones(2)))[1])(CUSTOM(lambda x: x*2))
RULED((x*3,True)),jax.vmap(f,in_axes=None,axis_size=2)(jnp.ones(2)))[1])(CUSTOM(lambda x: x*2))
RULED((x*3,1)),jax.vmap(f)(jnp.ones(2)))[1])(CUSTOM(lambda x: x*2))
RULED((x*3,[True])),jax.vmap(f)(jnp.ones(2)))[1])(CUSTOM(lambda x: x*2))
RULED(((x,x*3),(True,True))),jax.vmap(f)(jnp.ones(2)))[1])(CUSTOM(lambda x: (x,x*2)))
RULED(((x,x*3),True)),jax.vmap(f)(jnp.ones(2)))[1])(CUSTOM(lambda x: (x,x*2)))
jax.vmap(CUSTOM(lambda x: x*2))(jnp.ones(2))
hasattr(CUSTOM(lambda x: x),'defjvp')
str(jax.vmap(CUSTOM(lambda x: x*2)))[:9]
jnp.einsum('abcd,aecd->abe',jnp.ones((2,3,4,1)),jnp.ones((1,2,4,5)))
jnp.einsum('abcd,cd->ab',jnp.ones((2,3,4,5)),jnp.ones((1,5)))
jnp.einsum('ijkl,ijkm->ijlm',jnp.ones((1,3,4,5)),jnp.ones((2,3,4,2))).shape
jnp.einsum('ii',jnp.ones((2,2)))
jax.numpy_rank_promotion('raise')(lambda: jnp.ones((2,2))+jnp.ones(2))()
jax.numpy_rank_promotion('raise')(lambda: jnp.ones((2,2))+1)()
jax.numpy_rank_promotion('raise')(lambda: jnp.ones((2,2))*jnp.ones(()))()
jax.transfer_guard('disallow')(lambda: jnp.asarray(np.ones(2)))()
jax.transfer_guard('disallow')(lambda: jnp.asarray([1.,2.]))()
jax.transfer_guard('disallow')(lambda: jnp.array(1.))()
jax.transfer_guard('disallow')(lambda: jax.device_put(np.ones(2)))()
jax.transfer_guard('disallow_explicit')(lambda: jax.device_put(np.ones(2)))()
jax.transfer_guard('disallow')(lambda: jnp.ones(2))()
jax.transfer_guard('disallow')(lambda: jnp.ones(2)+np.ones(2))()
jax.transfer_guard('disallow')(lambda: jax.jit(lambda x: x)(np.ones(2)))()
jax.transfer_guard('disallow')(lambda: jnp.sin(1.))()
""".strip().split("\n")
for short, full in SHORT.items():
    RELATIVES = [line.replace(short, full) for line in RELATIVES]
