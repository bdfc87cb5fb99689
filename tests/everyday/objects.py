"""Lines on the objects themselves: specs, scalar types, arrays as Python objects; for `tests/test_as_jax.py`."""

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

OBJECTS = current([*SPECS, *[only(line, since="0.12") for line in SPECS_SINCE_0_12]])
