"""`Layer`: a pair of pure functions with a description for combinators.

A layer stores no values. `init` makes its parameters from a key and the shape of the input; `apply` maps parameters and
input to the output. A model is a layer made of layers (`xnn.combinators`). A layer with running statistics has a second
pytree, the state, with two functions of its own; a layer that generates step by step has a cache.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

import xjax
from xjax import random
from xjax.errors import api_boundary, bad, did_you_mean, no_attribute
from xjax.typing import ArrayLike, DTypeLike, Params, PRNGKey, PyTree
from xjax.typing import Shape as Shape
from xnn.checks import type_text
from xnn.covariance.evaluation import kernel_on_arrays, kernel_on_kernel
from xnn.covariance.kernel import Kernel, Parameterization, Rule
from xnn.inputs import Input, bind, inputs_of, is_slot, named_inputs, shape_of
from xnn.rng import Rng

if TYPE_CHECKING:
    from typing import Self

_P = ParamSpec("_P")
_L = TypeVar("_L", bound="Layer")


class InitFn(Protocol):
    """``(rng, in_shape, *shapes) -> (out_shape, params)``: see `Layer`. A shape may be a pytree of shapes."""

    def __call__(self, rng: PRNGKey | None, in_shape: PyTree, *shapes: PyTree,
                 **named: PyTree) -> tuple[PyTree, Params]: ...


class ApplyFn(Protocol):
    """``(params, x, *extra, rng=None, train=False) -> y``: see `Layer`."""

    def __call__(self, params: Params, x: PyTree, *extra: object, rng: Rng = None, train: bool = False,
                 **named: object) -> PyTree: ...


class StateFns(NamedTuple):
    """The functions of a layer's state: a pytree separate from the parameters, without gradient.

    Attributes:
      init_state: ``(in_shape, rng=None) -> state``.
      apply_with_state: ``(params, state, x, *extra, rng=None, train=False) -> (y, state)``.
    """

    init_state: Callable[..., PyTree]
    apply_with_state: Callable[..., tuple[PyTree, PyTree]]


class CacheFns(NamedTuple):
    """The functions of a layer's cache: the values of earlier positions during generation, such as keys and values.

    Attributes:
      init_cache: ``(batch, length) -> cache``, for `batch` rows and `length` positions.
      apply_with_cache: ``(params, cache, x, *extra) -> (y, cache)``; x has only the next positions.
    """

    init_cache: Callable[..., PyTree]
    apply_with_cache: Callable[..., tuple[PyTree, PyTree]]


class Parts(NamedTuple):
    """The structure of a composite.

    Attributes:
      children: key -> layer. A wrapper has one child with the key None, and the child's params, state and cache.
      walk: ``(visit, in_shape, shapes) -> out_shape``. It calls ``visit(key, in_shape) -> out_shape`` for each child.
        Shapes of the child's extra inputs that are not in `shapes` are passed to `visit` by name.
      rebuild: ``{key: layer} -> Layer``: the same composite with other children, or with some of them.
      times: how often each child runs in one call.
    """

    children: Mapping[Any, Layer]
    walk: Callable[..., PyTree]
    rebuild: Callable[[Mapping[Any, Layer]], Layer]
    times: int = 1

    def then(self, change: Callable[[Layer], Layer]) -> Parts:
        """The same children, and a `rebuild` whose result `change` is applied to."""
        return self._replace(rebuild=lambda some: change(self.rebuild(some)))


# Attributes of modules of other libraries: a layer has no values and no mode.
_OF_MODULES = {
    "parameters": "the params that init returned", "named_parameters": "xnn.params.paths(params)",
    "state_dict": "the params that init returned, and the state of init_state",
    "load_state_dict": "xnn.params.update(params, leaves)", "train": "apply(params, x, rng=rng, train=True)",
    "eval": "apply(params, x), which evaluates", "forward": "apply(params, x)", "zero_grad": "xjax.grad of a loss",
    "to": "xjax.device_put(params, device), or xnn.with_precision", "cuda": "xjax.device_put(params, device)",
    "half": "xnn.with_precision", "weight": "the params that init returned", "bias": "the params that init returned",
}

_FROM_SIGNATURE: Any = None             # None as the argument; the constructor then sets the field

if TYPE_CHECKING:                       # type checkers unpack only tuples to values of different types
    _Pair: TypeAlias = tuple[InitFn, ApplyFn]
else:
    _Pair = object


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Layer(_Pair):
    """A pure pair; ``init_fun, apply_fun = Dense(10)`` works as in stax.

    Attributes:
      init: ``(rng, in_shape, *shapes) -> (out_shape, params)``. Shapes are tuples, `ShapeDtypeStruct`s or example
        arrays; a size that does not affect the parameters (batch, nodes) may be -1. Shapes of extra inputs may follow,
        by position or name; they are required if parameters depend on them. rng is a key; it may be None for a layer
        without random parameters.
      apply: ``(params, x, *extra, rng=None, train=False) -> y``. `train` is static: under `jit` name it in
        `static_argnames`. rng is a key, an `xnn.RowKey`, or None. A layer with state is constructed with
        ``apply=None``: `apply` is then derived from `state`, only evaluates, and takes the state as ``state=``.
      name: its name in messages and in `xnn.describe`.
      inputs: the inputs after x, names or `xnn.inputs.Input`s; None takes them from the signature of `apply`. A
        combinator declares each name once and passes its value to every child that declares it.
      settings: the arguments of the constructor, for `repr` and `describe`.
      state, cache: the functions of running statistics and of generation; None for a layer without them.
      parts: the children of a composite; None for a layer without children.
      computes_in: dtype of the computation in any precision of the model, such as "float32" for a norm.
      positionwise: whether the output at a position of a sequence depends only on the input at that position. If so, a
        layer without a cache can generate. A composite is positionwise if all of its children are.
      sized_by: names of the inputs whose shapes `init` takes; None takes them from its signature.
      version: version of the parameter format. A layer whose format changes raises it by 1 and converts old parameters
        by `upgrade`, ``(params, version) -> params``: see `xnn.params.upgrade`.
      has_own_precision: whether `with_precision` made the layer.
      kernel_rule: ``(kernel, **extra) -> kernel``: how the kernel of an infinitely wide network passes through the
        layer, see `xnn.covariance`; None for a layer without one. The value of an extra input is a pair, for x1 and x2.
    """

    init: InitFn
    apply: ApplyFn
    name: str = "Layer"
    inputs: tuple[Input, ...] = _FROM_SIGNATURE
    settings: Mapping[str, Any] = field(default_factory=dict)
    state: StateFns | None = None
    cache: CacheFns | None = None
    parts: Parts | None = None
    computes_in: DTypeLike | None = None
    positionwise: bool = False
    sized_by: tuple[str, ...] = _FROM_SIGNATURE
    version: int = 1
    upgrade: Callable[[Params, int], Params] | None = None
    has_own_precision: bool = False
    kernel_rule: Rule | None = None
    _shapes: dict[tuple, tuple[PyTree, Params]] = field(default_factory=dict, init=False)
    _kernels: dict[Any, Any] = field(default_factory=dict, init=False)

    if TYPE_CHECKING:       # the arguments of the constructor, which are of other types than the attributes

        def __new__(cls, *args: Any, **fields: Any) -> Self: ...

        def __init__(self, init: Callable[..., tuple[PyTree, Params]], apply: Callable[..., PyTree] | None,
                     name: str = "Layer", inputs: Sequence[Input | str] | None = None,
                     settings: Mapping[str, Any] = {}, state: StateFns | None = None, cache: CacheFns | None = None,
                     parts: Parts | None = None, computes_in: DTypeLike | None = None, positionwise: bool = False,
                     sized_by: Sequence[str] | None = None, version: int = 1,
                     upgrade: Callable[[Params, int], Params] | None = None,
                     has_own_precision: bool = False, kernel_rule: Rule | None = None) -> None: ...

    def __post_init__(self) -> None:
        apply: Callable[..., PyTree] | None = self.apply
        if apply is None:
            if self.state is None:
                raise bad(self.name, "a layer without state needs `apply`", fix="Layer(init, apply).")
            object.__setattr__(self, "apply", _evaluate(self.name, self.state))
            apply = functools.partial(self.state.apply_with_state, None)     # its inputs start after the state
        if self.inputs is None:
            _check_settings(self.name, apply)
            object.__setattr__(self, "inputs", inputs_of(apply))
        elif not all(isinstance(one, Input) for one in self.inputs):
            object.__setattr__(self, "inputs", named_inputs(apply, self.inputs))
        if self.sized_by is None:
            object.__setattr__(self, "sized_by", tuple(one.name for one in inputs_of(self.init)))
        object.__setattr__(self, "init", _init_of_shapes(self.init, self.name, self.inputs, self.sized_by))

    if TYPE_CHECKING:
        __call__: ClassVar[ApplyFn]
    else:
        def __call__(self, *args: Any, **named: Any) -> PyTree:
            """The same as ``apply(params, x, ...)``."""
            if len(args) < 2 and not named.keys() - {"rng", "train", "state"}:
                raise bad(self.name, "a layer is called with its params and an input",
                          {"given": type_text(args[0]) if args else "nothing"},
                          fix="call model.apply(params, x), with the params from init.")
            return self.apply(*args, **named)

        def __getattr__(self, name: str) -> Any:
            raise no_attribute("'Layer' object", self, name, _OF_MODULES.get(name))

    def __iter__(self) -> Iterator[InitFn | ApplyFn]:
        """Unpacks as the stax pair ``init, apply``."""
        return iter((self.init, self.apply))

    def __getitem__(self, i: int) -> InitFn | ApplyFn:
        """``layer[0]`` is init, ``layer[1]`` is apply, as in a stax pair."""
        return (self.init, self.apply)[i]

    def __repr__(self) -> str:
        """The constructor's call; a composite shows its children, one per line."""
        visible = [one.name for one in self.inputs if not is_slot(one.name)]
        head = call_text(self) + (f" of ({', '.join(('x', *visible))})" if visible else "")
        if self.parts is None:
            return head
        lines = []
        for key, child in self.parts.children.items():
            first, *rest = repr(child).splitlines()
            lines += [f"  {'' if key is None else f'[{key!r}] '}{first}", *(f"  {line}" for line in rest)]
        return "\n".join([head, *lines])

    @property
    def extra_inputs(self) -> tuple[str, ...]:
        """Names of the inputs after x."""
        return tuple(one.name for one in self.inputs)

    @property
    def layers(self) -> Layers:
        """The children by position, slice or path: ``model.layers[2]``, ``model.layers["encoder/0"]``."""
        return Layers(self)

    # -- kernel ---------------------------------------------------------------------------------------------------

    @api_boundary
    def kernel(self, x1: Any, x2: ArrayLike | None = None, *, get: str | Sequence[str] | None = ("nngp", "ntk"),
               parameterization: Parameterization = "standard", train: bool = False, **inputs: Any) -> Any:
        """The kernels of this model in the limit of infinite width: the NNGP kernel and the neural tangent kernel.

        The NNGP kernel is the covariance of an output over random initial parameters (Lee et al., 2018). The NTK is the
        inner product of the gradients of an output in all parameters, with which gradient descent changes the outputs
        of a wide network (Jacot et al., 2018). The variances of the weights are those of the layers' initializers.

        Args:
          x1: inputs [n1, *positions, features], or a `Kernel`, which is mapped by the layer.
          x2: inputs [n2, *positions, features]; None: x1.
          get: "nngp" or "ntk" for one array, a sequence of them for several, None for the whole `Kernel`.
          parameterization: "standard": the weights are trained as they are, so that the NTK is that of this model with
            its numbers of features; "ntk": each weight is a trained number of variance 1 times its standard deviation.
          train: whether random layers such as Dropout are active.
          inputs: extra inputs of the model by name, with x2 as a pair ``(value for x1, value for x2)``.
        Returns: arrays [n1, n2], followed by the positions of x1 and of x2 if the output has positions. `Kernels` has
          the fields nngp and ntk.
        Raises: TypeError for a layer without a kernel, ValueError for layers whose values are not Gaussian where a
          nonlinear layer needs it, or that use one set of weights twice.

        >>> from xnn import Dense, Relu, serial
        >>> model = serial(Dense(512), Relu, Dense(1))
        >>> nngp, ntk = model.kernel(xjax.numpy.eye(3), parameterization="ntk")
        >>> nngp.shape
        (3, 3)
        """
        if isinstance(x1, Kernel):
            return kernel_on_kernel(self, x1, inputs)
        return kernel_on_arrays(self, x1, x2, get, parameterization, train, inputs)

    # -- state ----------------------------------------------------------------------------------------------------

    def init_state(self, in_shape: PyTree, rng: PRNGKey | None = None, **shapes: PyTree) -> PyTree:
        """The state before the first step, for inputs of this shape; ``()`` for a layer without state.

        Args: shapes: shapes of extra inputs by name, for a composite with children that have `sized_by`.
        """
        if self.state is None:
            return ()
        sizes = {name: shape_of(shape) for name, shape in shapes.items()} if self.parts else {}
        return self.state.init_state(shape_of(in_shape), rng, **sizes)

    def apply_with_state(self, params: Params, state: PyTree, x: PyTree, *extra: object, rng: Rng = None,
                         train: bool = False, **named: object) -> tuple[PyTree, PyTree]:
        """``(y, new state)``; the state is updated in training, and unchanged in evaluation."""
        if self.state:
            return self.state.apply_with_state(params, state, x, *extra, rng=rng, train=train, **named)
        return self.apply(params, x, *extra, rng=rng, train=train, **named), state

    # -- cache ----------------------------------------------------------------------------------------------------

    def init_cache(self, batch: int, length: int) -> PyTree:
        """An empty cache for `batch` sequences of at most `length` positions; ``()`` for a layer without a cache."""
        return self.cache.init_cache(batch, length) if self.cache else ()

    def apply_with_cache(self, params: Params, cache: PyTree, x: PyTree, *extra: object, state: PyTree = (),
                         **named: object) -> tuple[PyTree, PyTree]:
        """``(y, new cache)`` in evaluation, for x at the next positions of sequences; the cache has the earlier ones.

        Raises: TypeError for a layer that combines positions and has no cache.
        """
        if self.cache is None and not self.positionwise:
            raise bad(self.name, "the layer has no cache of earlier positions", {"layer": call_text(self)},
                      fix="wrap an encoder, which has its own input: whole(encoder). For a layer of the generated "
                          "sequence, use one with a cache, such as causal attention, or Layer(..., positionwise=True) "
                          "if the output at each position depends only on the input at that position.")
        if self.cache:
            return self.cache.apply_with_cache(params, cache, x, *extra, **({"state": state} if self.state else {}),
                                               **named)
        return self.apply_with_state(params, state, x, *extra, **named)[0], cache


def _check_settings(name: str, apply: Callable[..., PyTree]) -> None:
    parameters = inspect.signature(apply).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    missing = [setting for setting in ("rng", "train") if setting not in parameters]
    if missing:
        raise bad(name, f"apply does not take `{missing[0]}`, which composites pass to every layer",
                  {"apply": f"{getattr(apply, '__name__', 'apply')}({', '.join(parameters)})"},
                  fix="def apply(params, x, *, rng=None, train=False): ...")


def _evaluate(name: str, state_fns: StateFns) -> ApplyFn:
    """The `apply` of a layer with state."""

    def apply(params: Params, x: PyTree, *extra: object, rng: Rng = None, train: bool = False, state: PyTree = None,
              **named: object) -> PyTree:
        if train:
            raise bad(name, "training changes the state, but `apply` returns only the output", {"train": "True"},
                      fix="call y, state = model.apply_with_state(params, state, x, ..., train=True).")
        if state is None:
            raise bad(name, "evaluation needs the running statistics, but no state is given", {"state": "None"},
                      fix="pass apply(..., state=state), with the state from init_state or from training.")
        return state_fns.apply_with_state(params, state, x, *extra, rng=rng, train=False, **named)[0]

    return apply


def _init_of_shapes(init: Callable[..., tuple[PyTree, Params]], name: str, inputs: Sequence[Input],
                    sized_by: Sequence[str]) -> InitFn:
    """`init` called with shapes, types or arrays of x and of any extra inputs; it gets the shapes in `sized_by`."""
    required = [one.name for one in inputs_of(init) if one.is_required]

    @functools.wraps(init)
    @api_boundary
    def init_of_shapes(rng: PRNGKey | None, in_shape: PyTree, *shapes: PyTree,
                       **named: PyTree) -> tuple[PyTree, Params]:
        slots = {key: named.pop(key) for key in list(named) if is_slot(key)}
        unknown = [one._replace(default=None) for one in inputs if not is_slot(one.name)]
        bound = bind(f"{name}.init", unknown, shapes, named)
        needed = {key: shape_of(bound[key]) for key in sized_by if bound.get(key) is not None}
        missing = [key for key in required if key not in needed]
        if missing:
            raise bad(f"{name}.init", f"the weights depend on the shape of `{missing[0]}`, which is not given",
                      fix=f"call init(rng, in_shape, {', '.join(f'{key}=shape' for key in missing)}).")
        result = init(rng, shape_of(in_shape), **needed, **slots)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise bad(f"{name}.init", "init must return (out_shape, params)", {"returned": type_text(result)},
                      fix="a layer that keeps the shape and has no parameters returns in_shape, ().")
        return result

    return init_of_shapes


class Layers(Sequence[Layer]):
    """The children of a composite; those of the wrapped layer for a wrapper such as `residual`; else empty."""

    def __init__(self, layer: Layer) -> None:
        self._wrapper = layer if layer.parts and None in layer.parts.children else None
        while layer.parts and None in layer.parts.children:
            layer = layer.parts.children[None]
        self._layer = layer
        self._children = dict(layer.parts.children) if layer.parts else {}

    def __len__(self) -> int:
        return len(self._children)

    def keys(self) -> tuple[Any, ...]:
        """The children's keys, as in the parameters."""
        return tuple(self._children)

    def __getitem__(self, place: int | str | slice) -> Layer:
        if isinstance(place, slice):
            if not self._children or self._layer.parts is None:
                raise bad(f"{self._layer.name}.layers", "a layer without children has no slice", {"slice": repr(place)},
                          "slice a composite: serial(...).layers[:2].", IndexError)
            if self._wrapper:
                raise bad(f"{self._wrapper.name}.layers", "a slice would compute something else without the wrapper",
                          {"slice": repr(place), "layer": call_text(self._wrapper)},
                          f"take single layers, or slice before {self._wrapper.name}(...) is applied.", IndexError)
            return self._layer.parts.rebuild(dict(list(self._children.items())[place]))
        if isinstance(place, str):
            first, _, rest = place.partition("/")
            child = self._child(int(first) if first.lstrip("-").isdigit() and first not in self._children else first)
            return child.layers[rest] if rest else child
        return self._child(place)

    def _child(self, key: object) -> Layer:
        if key in self._children:
            return self._children[key]
        if isinstance(key, int) and -len(self) <= key < len(self):
            return list(self._children.values())[key]
        hint = did_you_mean(key, [k for k in self._children if isinstance(k, str)]) if isinstance(key, str) else None
        raise bad(f"{self._layer.name}.layers", f"no child {key!r}",
                  {"children": ", ".join(map(repr, self._children)) or "none"}, fix=hint or "pass the key of a child.",
                  exc=IndexError if isinstance(key, int) else LookupError)

    def __repr__(self) -> str:
        return "\n".join(f"[{key!r}] {child!r}" for key, child in self._children.items())


def shape_kept(rng: PRNGKey | None, in_shape: PyTree) -> tuple[PyTree, Params]:
    """The `init` of a layer without parameters that keeps the shape of its input."""
    return in_shape, ()


def recorded(*but: str) -> Callable[[Callable[_P, _L]], Callable[_P, _L]]:
    """Decorator of a layer's constructor: the arguments that differ from their defaults become the layer's `settings`.

    A setting that the constructor passes to `Layer`, such as a converted argument, replaces the argument of that name.

    Args: but: names of parameters that are not settings, such as children.
    """
    def decorate(constructor: Callable[_P, _L]) -> Callable[_P, _L]:
        @functools.wraps(constructor)
        def construct(*args: _P.args, **kwargs: _P.kwargs) -> _L:
            signature = _signature(constructor)
            try:
                arguments = signature.bind(*args, **kwargs).arguments
            except TypeError as err:
                raise _wrong_arguments(constructor.__name__, str(err), signature, kwargs) from None
            layer, settings = constructor(*args, **kwargs), {}
            for name, value in arguments.items():
                kind, default = signature.parameters[name].kind, signature.parameters[name].default
                value = layer.settings.get(name, value)
                if (name in but and name not in layer.settings) or value is default or value == default:
                    continue
                settings |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
            return _with_settings(layer, settings)

        return construct

    return decorate


_signature = functools.cache(inspect.signature)


def _wrong_arguments(name: str, what: str, signature: inspect.Signature, named: Mapping[str, object]) -> Exception:
    """The error of a constructor whose signature does not fit its arguments; `what` is Python's message."""
    unknown = [given for given in named if given not in signature.parameters]
    hints = (did_you_mean(given, signature.parameters) for given in unknown)
    return bad(name, what, {"signature": f"{name}({', '.join(map(_without_type, signature.parameters.values()))})"},
               fix=next(filter(None, hints), None) or "pass the arguments of the signature.")


def _without_type(parameter: inspect.Parameter) -> str:
    return str(parameter.replace(annotation=inspect.Parameter.empty))


def _with_settings(layer: _L, settings: Mapping[str, Any]) -> _L:
    """A newly made layer, changed in place so that it, and any layer rebuilt from it, has these settings."""
    object.__setattr__(layer, "settings", settings)
    if layer.parts:
        parts = layer.parts.then(lambda made: made if made.settings else _with_settings(made, settings))
        object.__setattr__(layer, "parts", parts)
    return layer


def call_text(layer: Layer) -> str:
    """The call that makes a layer, from its `settings`: ``Dense(n_out=10, bias=False)``."""
    if not layer.settings:
        return layer.name
    return f"{layer.name}({', '.join(f'{name}={_setting(value)}' for name, value in layer.settings.items())})"


def _setting(value: object) -> str:
    if isinstance(value, Layer):
        return call_text(value)
    return getattr(value, "__name__", None) or repr(value) if callable(value) else repr(value)


# Combinators accept a layer, or the pair of functions of another library.
LayerLike: TypeAlias = Layer | tuple[Callable[..., tuple[PyTree, Params]], Callable[..., PyTree]]


def as_layer(value: object, caller: str) -> Layer:
    """`value` itself, or a Layer made of a stax-style pair ``(init_fun, apply_fun)``.

    Raises: TypeError for anything else, including a layer constructor that was not called.
    """
    if isinstance(value, Layer):
        return value
    if isinstance(value, tuple) and len(value) == 2 and all(callable(fun) for fun in value):
        return Layer(*value, name=getattr(value[1], "__name__", "pair"), inputs=())
    fix = "pass xnn layers or pairs (init_fun, apply_fun), each as its own argument."
    if callable(value) and hasattr(value, "__name__"):
        fix = f"call it: {value.__name__}(...)."
        if value.__name__[:1].islower() and (getattr(value, "__module__", None) or "").startswith("xjax."):
            fix = f"make a layer of the function: xnn.elementwise({value.__name__})."
    raise bad(caller, "a child is not a layer", {"given": getattr(value, "__qualname__", None) or repr(value)}, fix=fix)


def out_shape(layer: Layer, in_shape: PyTree, **shapes: PyTree) -> PyTree:
    """Shape of the layer's output; the types of its parameters are computed, but not their values."""
    return init_types(layer, in_shape, **shapes)[0]


def init_types(layer: Layer, in_shape: PyTree, **shapes: PyTree) -> tuple[PyTree, Params]:
    """The result of ``layer.init`` with parameters as types (`.shape`, `.dtype`) without values.

    Results are cached for each shape, because composites request the types of equal blocks many times.
    """
    in_shape = shape_of(in_shape)
    key = (str(in_shape), str(sorted(shapes.items())), xjax.config.jax_enable_x64)
    is_cacheable = not any(map(is_slot, shapes))           # `init` must run, because a slot records its uses
    if is_cacheable and key in layer._shapes:
        return layer._shapes[key]
    outcome: list[PyTree] = []

    def traced_init(rng: PRNGKey) -> Params:
        shape, params = layer.init(rng, in_shape, **shapes)
        outcome.append(shape)  # static, so it is returned through the closure
        return params

    params = xjax.eval_shape(traced_init, random.PRNGKey(0))
    if is_cacheable:
        layer._shapes[key] = outcome[-1], params
    return outcome[-1], params


def note_path(err: Exception, path: str, layer: Layer, x: PyTree) -> None:
    """Add a note with the place in the model to an error: "in serial[3] -> Dropout"."""
    err.add_note(f"in {path} -> {layer.name} (input {type_text(x)})")
