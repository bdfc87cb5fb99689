"""Programs with typical mistakes of users: each raises in JAX, and here an error of the same built-in class."""

from functools import partial


def branch_on_a_traced_value(jax):
    @jax.jit
    def relu(x):
        return x if x > 0 else 0.
    return relu(1.)


def shape_from_a_traced_value(jax):
    return jax.jit(lambda n: jax.numpy.zeros((n, 2)))(3)


def range_over_a_traced_value(jax):
    return jax.jit(lambda n: sum(i for i in range(n)))(3)


def boolean_mask_under_jit(jax):
    return jax.jit(lambda x: x[x > 0])(jax.numpy.arange(3))


def unique_without_size_under_jit(jax):
    return jax.jit(jax.numpy.unique)(jax.numpy.arange(3))


def numpy_function_of_a_tracer(jax):
    import numpy as np
    return jax.jit(lambda x: np.asarray(x).sum())(jax.numpy.arange(3))


def assignment_to_an_element(jax):
    x = jax.numpy.zeros(3)
    x[0] = 1
    return x


def in_place_addition_to_an_element(jax):
    x = jax.numpy.zeros(3)
    x[1:] += 1
    return x


def shapes_that_do_not_broadcast(jax):
    return jax.numpy.ones((2, 3)) + jax.numpy.ones((2,))


def product_of_wrong_shapes(jax):
    return jax.numpy.ones((2, 3)) @ jax.numpy.ones((2, 3))


def gradient_of_an_array(jax):
    return jax.grad(lambda x: x * 2)(jax.numpy.ones(3))


def gradient_by_integers(jax):
    return jax.grad(lambda x: (x**2).sum())(jax.numpy.arange(3))


def gradient_of_complex_output(jax):
    return jax.grad(lambda x: x * 1j)(1.)


def gradient_of_a_string(jax):
    return jax.grad(lambda s: 1.)("a")


def gradient_without_has_aux(jax):
    return jax.value_and_grad(lambda x: (x**2, {"aux": x}))(2.)


def reverse_derivative_of_a_while_loop(jax):
    return jax.grad(lambda x: jax.lax.while_loop(lambda y: y < 10., lambda y: y * 2, x))(1.)


def reverse_derivative_of_a_traced_fori_loop(jax):
    loop = jax.jit(lambda x, n: jax.lax.fori_loop(0, n, lambda i, y: y * 2, x))
    return jax.grad(loop)(1., 3)


def carry_changes_its_dtype(jax):
    return jax.lax.scan(lambda c, x: (c + x, None), jax.numpy.int32(0), jax.numpy.ones(3))


def carry_changes_its_shape(jax):
    return jax.lax.fori_loop(0, 2, lambda i, x: jax.numpy.append(x, 1.), jax.numpy.zeros(1))


def carry_changes_its_structure(jax):
    return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: [s[0] + 1, s[1]], (0, 1))


def scan_body_returns_one_value(jax):
    return jax.lax.scan(lambda c, x: c + x, 0., jax.numpy.ones(3))


def scan_over_different_lengths(jax):
    return jax.lax.scan(lambda c, x: (c, x), 0., (jax.numpy.ones(3), jax.numpy.ones(4)))


def scan_over_nothing(jax):
    return jax.lax.scan(lambda c, x: (c, x), 0., None)


def branches_of_different_types(jax):
    return jax.lax.cond(True, lambda x: x, lambda x: (x, x), 1.)


def predicate_that_is_an_array(jax):
    return jax.lax.cond(jax.numpy.array([True, False]), lambda: 1, lambda: 2)


def condition_of_a_while_loop_is_a_number(jax):
    return jax.lax.while_loop(lambda x: x, lambda x: x - 1, 3)


def switch_without_branches(jax):
    return jax.lax.switch(0, [], 1.)


def vmap_over_different_sizes(jax):
    return jax.vmap(lambda x, y: x + y)(jax.numpy.ones(3), jax.numpy.ones(4))


def vmap_of_a_scalar(jax):
    return jax.vmap(lambda x: x)(2.)


def vmap_over_an_axis_that_is_not_there(jax):
    return jax.vmap(lambda x: x, in_axes=2)(jax.numpy.ones((2, 3)))


def vmap_with_wrong_number_of_axes(jax):
    return jax.vmap(lambda x, y: x, in_axes=(0,))(jax.numpy.ones(2), jax.numpy.ones(2))


def vmap_of_nothing(jax):
    return jax.vmap(lambda x: x, in_axes=None)(jax.numpy.ones(2))


def name_of_an_axis_that_is_not_bound(jax):
    return jax.jit(lambda x: jax.lax.psum(x, "devices"))(1.)


def static_argument_that_cannot_be_hashed(jax):
    return jax.jit(lambda x, shape: x.reshape(shape), static_argnums=1)(jax.numpy.ones(4), [2, 2])


def static_array(jax):
    return jax.jit(lambda x, y: x, static_argnums=1)(1., jax.numpy.ones(2))


def static_name_passed_by_position_twice(jax):
    return partial(jax.jit, static_argnames="n")(lambda x, n: x * n)(1., 2, n=3)


def string_as_a_traced_argument(jax):
    return jax.jit(lambda x, activation: x)(1., "relu")


def function_as_a_traced_argument(jax):
    return jax.jit(lambda f, x: f(x))(abs, 1.)


def jit_of_something_else(jax):
    return jax.jit(3)


def tracer_that_escaped(jax):
    kept = []

    @jax.jit
    def f(x):
        kept.append(x * 2)
        return x
    f(1.)
    return kept[0] + 1


def donated_buffer_used_again(jax):
    x = jax.numpy.ones(4)
    x.delete()
    return x + 1


def trees_of_different_structure(jax):
    return jax.tree.map(lambda a, b: a + b, {"a": 1, "b": 2}, {"a": 1, "c": 2})


def unflatten_too_few_leaves(jax):
    return jax.tree.unflatten(jax.tree.structure((1, 2, 3)), [1, 2])


def transpose_of_trees_that_do_not_nest(jax):
    return jax.tree.transpose(jax.tree.structure((0, 0)), jax.tree.structure([0]), ([1, 2], 3))


def class_registered_twice(jax):
    class Node:
        pass
    for _ in range(2):
        jax.tree_util.register_pytree_node(Node, lambda n: ((), None), lambda _, c: Node())


def custom_vjp_without_rules(jax):
    return jax.grad(jax.custom_vjp(lambda x: x * 2))(1.)


def custom_vjp_with_too_few_cotangents(jax):
    @jax.custom_vjp
    def f(x, y):
        return x * y
    f.defvjp(lambda x, y: (x * y, (x, y)), lambda res, g: (g,))
    return jax.grad(f)(1., 2.)


def custom_vjp_with_cotangent_of_wrong_shape(jax):
    @jax.custom_vjp
    def f(x):
        return x.sum()
    f.defvjp(lambda x: (x.sum(), None), lambda res, g: (g,))
    return jax.grad(f)(jax.numpy.ones(3))


def custom_jvp_with_wrong_result(jax):
    @jax.custom_jvp
    def f(x):
        return x * 2
    f.defjvp(lambda primals, tangents: primals[0] * 2)
    return jax.jvp(f, (1.,), (1.,))


def forward_derivative_of_a_custom_vjp(jax):
    @jax.custom_vjp
    def f(x):
        return x * 2
    f.defvjp(lambda x: (f(x), None), lambda _, g: (g,))
    return jax.jvp(f, (1.,), (1.,))


def tangents_of_other_shape(jax):
    return jax.jvp(lambda x: x, (jax.numpy.ones(3),), (jax.numpy.ones(2),))


def tangents_that_are_no_tuple(jax):
    return jax.jvp(lambda x: x, jax.numpy.ones(1), jax.numpy.ones(1))


def key_without_split_shape(jax):
    return jax.random.normal(jax.random.PRNGKey(0), (-1,))


def number_as_a_key(jax):
    return jax.random.normal(0, (2,))


def integer_dtype_for_normal(jax):
    return jax.random.normal(jax.random.key(0), (2,), dtype="int32")


def choice_without_replacement_of_too_many(jax):
    return jax.random.choice(jax.random.key(0), 3, (5,), replace=False)


def arithmetic_on_typed_keys(jax):
    return jax.random.key(0) * 2


def reshape_to_another_size(jax):
    return jax.numpy.arange(6).reshape(4, 2)


def reshape_with_two_unknowns(jax):
    return jax.numpy.arange(6).reshape(-1, -1)


def concatenation_of_different_shapes(jax):
    return jax.numpy.concatenate([jax.numpy.ones((2, 2)), jax.numpy.ones((3, 3))])


def concatenation_of_one_array(jax):
    return jax.numpy.concatenate(1.)


def stack_of_nothing(jax):
    return jax.numpy.stack([])


def split_that_does_not_divide(jax):
    return jax.numpy.split(jax.numpy.arange(7), 3)


def axis_out_of_range(jax):
    return jax.numpy.sum(jax.numpy.ones((2, 3)), axis=2)


def repeated_axes(jax):
    return jax.numpy.sum(jax.numpy.ones((2, 3)), axis=(0, 0))


def transposition_of_wrong_axes(jax):
    return jax.numpy.transpose(jax.numpy.ones((2, 3)), (0, 2))


def too_many_indices(jax):
    return jax.numpy.ones((2, 3))[0, 0, 0]


def index_that_is_a_float(jax):
    return jax.numpy.arange(3)[1.0]


def index_that_is_a_string(jax):
    return jax.numpy.arange(3)["a"]


def index_that_is_a_list_of_floats(jax):
    return jax.numpy.arange(3)[jax.numpy.array([0., 1.])]


def mask_of_another_shape(jax):
    return jax.numpy.arange(3)[jax.numpy.array([True, False])]


def truth_of_an_array(jax):
    return bool(jax.numpy.arange(3) > 1)


def number_of_an_array(jax):
    return int(jax.numpy.arange(3))


def iteration_over_a_scalar(jax):
    return list(jax.numpy.float32(1))


def length_of_a_scalar(jax):
    return len(jax.numpy.float32(1))


def array_of_strings(jax):
    return jax.numpy.array(["a", "b"])


def array_of_ragged_lists(jax):
    return jax.numpy.array([[1, 2], [3]])


def array_of_objects(jax):
    return jax.numpy.asarray(object())


def hash_of_an_array(jax):
    return {jax.numpy.ones(2): 1}


def name_that_is_not_there(jax):
    return jax.numpy.consine(1.)


def einsum_of_wrong_rank(jax):
    return jax.numpy.einsum("ijk,jk->i", jax.numpy.ones((2, 3)), jax.numpy.ones((2, 3)))


def einsum_of_wrong_sizes(jax):
    return jax.numpy.einsum("ij,jk", jax.numpy.ones((2, 3)), jax.numpy.ones((2, 3)))


def inverse_of_a_rectangle(jax):
    return jax.numpy.linalg.inv(jax.numpy.ones((2, 3)))


def bit_operation_on_floats(jax):
    return jax.numpy.ones(2) & 1


def shift_by_a_float(jax):
    return jax.numpy.arange(2) << 1.5


def lax_operands_of_different_dtypes(jax):
    return jax.lax.mul(jax.numpy.ones(2), jax.numpy.arange(2))


def lax_operands_of_different_shapes(jax):
    return jax.lax.add(jax.numpy.ones(2), jax.numpy.ones(3))


def unknown_mode_of_pad(jax):
    return jax.numpy.pad(jax.numpy.ones(2), 1, mode="mirror")


def unknown_keyword(jax):
    return jax.numpy.sum(jax.numpy.ones(2), axes=0)


def unknown_dtype(jax):
    return jax.numpy.ones(2, dtype="float33")


def host_callback_of_another_shape(jax):
    import numpy as np
    return jax.pure_callback(lambda x: np.zeros(3, np.float32), jax.ShapeDtypeStruct((2,), "float32"), 1.).sum()


def sharding_over_too_many_devices(jax):
    return jax.make_mesh((64,), ("x",))


def pmap_over_too_many_devices(jax):
    return jax.pmap(lambda x: x)(jax.numpy.ones(64))


def compiled_function_with_another_shape(jax):
    compiled = jax.jit(lambda x: x * 2).lower(jax.numpy.ones(3)).compile()
    return compiled(jax.numpy.ones(4))


def unknown_option(jax):
    return jax.config.update("jax_enable_x65", True)


def nan_with_debugging(jax):
    with jax.debug_nans(True):
        return jax.numpy.log(jax.numpy.float32(-1.)).block_until_ready()


def promotion_that_strictness_forbids(jax):
    with jax.numpy_dtype_promotion("strict"):
        return jax.numpy.ones(2, "float32") + jax.numpy.ones(2, "int32")


def rank_promotion_that_strictness_forbids(jax):
    with jax.numpy_rank_promotion("raise"):
        return jax.numpy.ones((2, 3)) + jax.numpy.ones(3)


def segment_sum_without_number_under_jit(jax):
    return jax.jit(jax.ops.segment_sum)(jax.numpy.ones(3), jax.numpy.array([0, 1, 1]))


def minimize_by_an_unknown_method(jax):
    return jax.scipy.optimize.minimize(lambda x: x @ x, jax.numpy.ones(2), method="simplex")


def mapping_with_too_many_arguments(jax):
    return jax.jit(lambda x: x)(1., 2.)
