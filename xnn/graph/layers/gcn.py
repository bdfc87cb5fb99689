"""Graph convolutions of Kipf and Welling (2017): the layer and the network."""

from collections.abc import Callable, Sequence

import xjax.numpy as jnp
from xjax import nn, random
from xjax.errors import bad
from xjax.nn import initializers
from xnn.checks import check_entries, check_features, check_shape, type_text
from xnn.composites import apply_child, init_child
from xnn.covariance.affine import after_matrix
from xnn.covariance.evaluation import kernel_after
from xnn.covariance.fixed import on_nodes
from xnn.graph.layers.normalize import Norm
from xnn.graph.layers.propagate import adjacency_of, as_features, check_norm, normalized
from xnn.graph.structure.adjacency import EdgeList, as_adjacency, edge_form, is_array
from xnn.graph.structure.edges import Edges
from xnn.graph.structure.graph import Graph
from xnn.layer import Layer, Parts, recorded
from xnn.layers.activations import Relu
from xnn.layers.dropout import Dropout
from xnn.rng import Rng, fold_in
from xnn.sparse import CSR, is_scipy_sparse


@recorded("w_init", "b_init")
def GraphConvolution(n_out: int, *, bias: bool = True, norm: Norm | None = None, self_loops: bool = True,
                     w_init: Callable | None = None, b_init: Callable | None = None) -> Layer:
    """``y = A (x W) + b``.  Shape: x [n, n_in], A [n, n] -> [n, n_out].

    Args:
      n_out: number of output features.
      bias: whether to add b; if False, the params are ``(W, None)``.
      norm: None uses the adjacency unchanged, for one prepared by `normalized_adjacency`. "symmetric" and "row"
        normalise as that function does, but at each call and with gradients to the values of A: for an adjacency that
        is traced or learned.
      self_loops: with `norm`, whether to add the identity first. It has no effect if norm is None.
      w_init, b_init: initializers ``(key, shape) -> array``; Glorot uniform and zeros if None.
    Params: ``(W [n_in, n_out], b [n_out])``.
    Inputs: graph: the adjacency, as `Graph`, dense array, SciPy sparse matrix, `CSR`, ``((rows, cols), values)``, or
      any object with ``graph @ h``. x may be a dense array, a `CSR` or a SciPy sparse matrix; with a dense adjacency
      both may have leading batch axes.
    """
    w_init = w_init or initializers.glorot_uniform()
    b_init = b_init or initializers.zeros
    check_norm("GraphConvolution", norm)

    def init(rng, in_shape):
        in_shape = check_shape("GraphConvolution", in_shape, min_rank=2)
        w_rng, b_rng = random.split(rng)
        w = w_init(w_rng, (in_shape[-1], n_out))
        return (*in_shape[:-1], n_out), (w, b_init(b_rng, (n_out,)) if bias else None)

    def apply(params, x, graph, *, rng=None, train=False):
        w, b = params
        x = as_features(x)
        check_features("GraphConvolution", x, w.shape[0])
        adj = adjacency_of("GraphConvolution", graph, x)
        h = x @ w
        y = normalized(adj, h, norm, self_loops) @ h
        return y if b is None else y + jnp.broadcast_to(b, y.shape)

    def kernel_rule(kernel, graph):
        def propagate(graph, x):
            return normalized(adjacency_of("GraphConvolution", graph, x), x, norm, self_loops) @ x

        return after_matrix("GraphConvolution", on_nodes(kernel, propagate, graph), n_out, w_init,
                            b_init if bias else None)

    return Layer(init, apply, "GraphConvolution", kernel_rule=kernel_rule)


@recorded("n_layers")
def GCN(nhid: int | Sequence[int], nclass: int, dropout: float = 0.5, *, sparse: bool | None = None, bias: bool = True,
        norm: Norm | None = None, n_layers: int | None = None) -> Layer:
    """Graph convolutions with ReLU between them, and log-softmax over the classes.

    Dropout is applied before each convolution. The layer unpacks to a pair of functions, so this program works::

        init_fun, predict_fun = GCN(16, 7, sparse=True)
        _, params = init_fun(key, (-1, n_features))
        log_probs = predict_fun(params, x, adj, rng=rng)

    Only in this layer may `train` be omitted: a call with rng is then a training call, as above. Pass ``train=False``,
    or no rng, to evaluate. `is_training` is another name for `train`. Both are static.

    Args:
      nhid: number of hidden features, or a sequence with a number for each hidden layer.
      nclass: number of classes.
      dropout: probability of dropping a value of a layer's input.
      sparse: True rejects a dense adjacency and False a sparse one, so that an adjacency is not made dense by mistake;
        None accepts both.
      bias, norm: as in `GraphConvolution`.
      n_layers: number of convolutions, 2 if None; for a sequence nhid it must be ``len(nhid) + 1``.
    Params: tuple of ``(W, b)``, one for each convolution.  Kernel: that of the values before the log-softmax.
    Shape: x [n, n_features], adj [n, n] -> log-probabilities [n, nclass].
    """
    convolve = [GraphConvolution(n_out, bias=bias, norm=norm) for n_out in (*_hidden_sizes(nhid, n_layers), nclass)]
    return _network(convolve, Dropout(dropout), sparse)


def _network(convolve: Sequence[Layer], drop: Layer, sparse: bool | None) -> Layer:
    """A chain of convolutions, with dropout before each, ReLU between them and log-softmax at the end."""

    def walk(visit, shape, shapes):
        graph = {"graph": shapes["adj"]} if "adj" in shapes else {}
        for i in range(len(convolve)):
            shape = visit(i, shape, **graph)
        return shape

    def init(rng, in_shape):
        params = []
        for i, layer in enumerate(convolve):
            in_shape, layer_params = init_child(f"GCN[{i}]", layer, fold_in(rng, i), in_shape)
            params.append(layer_params)
        return in_shape, tuple(params)

    def apply(params, x, adj, *, rng=None, train=None, is_training=None):
        train = _resolve_train(rng, train, is_training)
        check_entries("GCN", "params", params, range(len(convolve)))
        _check_kind(adj, sparse)
        x, inputs = as_features(x), {"graph": as_adjacency(adj, "GCN")}
        for i, (layer, layer_params) in enumerate(zip(convolve, params, strict=True)):
            x = nn.relu(x) if i else x
            x = apply_child(f"GCN[{i}]", drop, (), x, {}, rng=fold_in(rng, i), train=train)
            x = apply_child(f"GCN[{i}]", layer, layer_params, x, inputs, rng=None, train=train)
        return nn.log_softmax(x, axis=-1)

    def rebuild(layers):
        return _network(list(layers.values()), drop, sparse)

    def kernel_rule(kernel, adj):
        for i, layer in enumerate(convolve):
            kernel = kernel_after(Relu, kernel, {}) if i else kernel
            kernel = kernel_after(layer, kernel_after(drop, kernel, {}), {"graph": adj})
        return kernel

    return Layer(init, apply, "GCN", ("adj",), parts=Parts(dict(enumerate(convolve)), walk, rebuild),
                 kernel_rule=kernel_rule)


def _hidden_sizes(nhid: int | Sequence[int], n_layers: int | None) -> tuple[int, ...]:
    sizes = tuple(nhid) if isinstance(nhid, Sequence) else (nhid,) * ((n_layers or 2) - 1)
    if n_layers is not None and n_layers != len(sizes) + 1:
        raise bad(
            "GCN",
            "nhid and n_layers disagree",
            {"nhid": repr(nhid), "n_layers": repr(n_layers)},
            fix="leave n_layers out, or pass len(nhid) + 1, at least 1: it includes the last "
            "convolution.",
            exc=ValueError,
        )
    return sizes


def _resolve_train(rng: Rng, train: bool | None, is_training: bool | None) -> bool:
    if train is None:
        train = is_training
    elif is_training is not None and is_training != train:
        values = {"train": repr(train), "is_training": repr(is_training)}
        raise bad("GCN", "train and is_training disagree", values, "pass only train.")
    return rng is not None if train is None else train


def _check_kind(adj: object, sparse: bool | None) -> None:
    is_dense = is_array(adj)
    is_sparse = isinstance(adj, CSR | EdgeList | Edges | Graph) or is_scipy_sparse(adj) or bool(edge_form(adj))
    if (sparse is True and is_dense) or (sparse is False and is_sparse):
        kind, fix = (
            ("dense", "pass xnn.CSR.from_dense(adj), or make the network with sparse=False.")
            if sparse
            else ("sparse", "pass a dense array, or make the network with sparse=True.")
        )
        values = {"adj": type_text(adj)}
        raise bad("GCN", f"the network has sparse={sparse}, but the adjacency is {kind}", values, fix)
