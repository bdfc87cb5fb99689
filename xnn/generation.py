"""Generation: tokens drawn one after another from a model with a cache, and the choice of a token from logits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax, nn, random, tree_util
from xjax.errors import bad
from xjax.typing import Array, ArrayLike, PRNGKey, PyTree
from xnn.checks import check_float, type_text
from xnn.layer import Layer, Params
from xnn.precision import at_least_float32
from xnn.rng import Rng, fold_in, row_keys


class Generated(NamedTuple):
    """The result of `generate`.

    Attributes:
      tokens: int32 [batch, steps], without the prompt. A row repeats its stop token to the end.
      lengths: int32 [batch], the number of tokens up to and including the stop token.
    """

    tokens: Any
    lengths: Any


class Sampling(NamedTuple):
    """How a token is chosen from logits; see `filter_logits`. A temperature of 0 takes the most likely token."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None


def generate(model: Layer, params: Params, prompt: ArrayLike, *, steps: int, rng: Rng = None, temperature: float = 1.0,
             top_k: int | None = None, top_p: float | None = None, stop: int | Sequence[int] = (),
             mask: ArrayLike | None = None, state: tuple[Array, ...] = (), length: int | None = None,
             on_token: Callable | None = None, **inputs: Any) -> Generated:
    """`steps` tokens after a prompt, each drawn from the model's distribution given the tokens before it.

    The model is applied to the whole prompt, which fills its cache, and then to one token at a time: in one compiled
    loop, or with `on_token` in calls of one compiled step. The same key draws the same tokens either way.

    Args:
      model: a layer that maps tokens int [batch, time] to logits [batch, time, n], with a cache if it combines
        positions.
      prompt: int [batch, time], at least one token.
      rng: a key, or a `RowKey`. Row i draws with a key of its own number, so it gets the same tokens in any batch. Not
        needed for temperature 0.
      temperature, top_k, top_p: as in `filter_logits`; temperature 0 takes the most likely token.
      stop: a token, or several, after which a row ends. The loop ends when all rows have ended.
      mask: bool [batch, time], False where the prompt is padded, before or after its tokens; an input of the model.
      state: running statistics, for a model with state.
      length: number of positions of the cache, if larger than this call needs. Calls of different sizes with the same
        length share the compiled step.
      on_token: called after each step with its tokens, a NumPy array [batch].
      inputs: inputs of the model by name, for the prompt. In later calls they are None: `xnn.whole` wraps the layers
        of such an input, for example the encoder of a model with an input `source`.
    Raises: ValueError for sizes that do not match, and if logits are NaN: a token is out of range, or the sequence has
      more positions than the model.
    """
    prompt, mask, length = _checked_prompt(prompt, mask, steps, length)
    sampling = Sampling(float(temperature), top_k, top_p)
    _check_sampling("generate", sampling)
    if temperature and rng is None:
        raise bad("generate", "drawing tokens needs random bits, but rng is None", {"temperature": temperature},
                  fix="pass rng=random.key(0), or temperature=0 for the most likely tokens.")
    if not steps:
        return Generated(jnp.zeros((len(prompt), 0), "int32"), jnp.zeros(len(prompt), "int32"))
    call = _Call(model, sampling, tuple(inputs))
    stops = jnp.asarray((stop,) if isinstance(stop, int | np.integer) else tuple(stop), "int32")
    inputs = inputs if mask is None else {**inputs, "mask": mask}
    progress = _read_prompt(call, length, params, state, rng, stops, prompt, inputs)
    if on_token is None:
        tokens = _follow(call, steps, params, state, rng, stops, progress)
    else:
        tokens = _follow_one_by_one(call, steps, params, state, rng, stops, progress, on_token)
    return Generated(_checked_tokens(tokens), _lengths(tokens, stops))


class _Call(NamedTuple):
    """The static arguments of a compiled generation."""

    model: Layer
    sampling: Sampling
    inputs: tuple[str, ...]         # names of the inputs that are None after the prompt


class _Progress(NamedTuple):
    token: Any          # i32[batch], the last token of each row; -1 where the logits were NaN
    ended: Any          # bool[batch]
    step: Any           # i32[], number of tokens drawn
    cache: Any          # holds all positions before the token


@functools.partial(xjax.jit, static_argnums=(0, 1))
def _read_prompt(call: _Call, length: int, params: Params, state: tuple[Array, ...], rng: Rng, stops: Array,
                 prompt: Array, inputs: dict) -> _Progress:
    cache = call.model.init_cache(prompt.shape[0], length)
    logits, cache = call.model.apply_with_cache(params, cache, prompt, state=state, **inputs)
    nothing = jnp.zeros(prompt.shape[0], "int32")
    before = _Progress(nothing, nothing != 0, jnp.int32(0), None)
    return _drawn(call, rng, stops, before, _last(logits, inputs.get("mask")), cache)


def _drawn(call: _Call, rng: Rng, stops: Array, before: _Progress, logits: Array, cache: PyTree) -> _Progress:
    """The progress after one more token in each row; rows that have ended repeat their last token."""
    new = sample(fold_in(rng, before.step), logits, *call.sampling)
    new = jnp.where(jnp.any(jnp.isnan(logits), -1), -1, new)
    token = jnp.where(before.ended, before.token, new)
    ended = jnp.any(token[:, None] == stops[None], 1) | (token < 0)
    return _Progress(token, ended, before.step + 1, cache)


def _advance(call: _Call, params: Params, state: tuple[Array, ...], rng: Rng, stops: Array,
             progress: _Progress) -> _Progress:
    token, nothing = progress.token[:, None], dict.fromkeys(call.inputs)
    try:
        logits, cache = call.model.apply_with_cache(params, progress.cache, token, state=state, **nothing)
    except Exception as err:
        if call.inputs:
            err.add_note(f"in generate after the prompt, where the inputs {', '.join(call.inputs)} are None: wrap a "
                         "layer of such an input in whole(layer), or in whole(layer, keep=True) if its result is read "
                         "in each step")
        raise
    if tree_util.tree_structure(cache) != tree_util.tree_structure(progress.cache):
        raise bad("generate", "the cache of the model changes its structure after the prompt",
                  {"inputs": ", ".join(call.inputs) or "none"},
                  fix="let the model pass None as the context after the prompt: whole(encoder) without keep=True.")
    return _drawn(call, rng, stops, progress, _last(logits, None), cache)


@functools.partial(xjax.jit, static_argnums=(0, 1))
def _follow(call: _Call, steps: int, params: Params, state: tuple[Array, ...], rng: Rng, stops: Array,
            first: _Progress) -> Array:
    """Tokens [batch, steps]."""

    def cond(carry):
        _, progress = carry
        return (progress.step < steps) & ~jnp.all(progress.ended)

    def body(carry):
        tokens, progress = carry
        following = _advance(call, params, state, rng, stops, progress)
        later = jnp.arange(steps)[None] >= progress.step
        # All later columns get the token: the loop may end early, and rows that have ended repeat it.
        return jnp.where(later, following.token[:, None], tokens), following

    tokens = jnp.broadcast_to(first.token[:, None], (first.token.shape[0], steps))
    return lax.while_loop(cond, body, (tokens, first))[0]


_step = xjax.jit(_advance, static_argnums=0, donate_argnums=5)


def _follow_one_by_one(call: _Call, steps: int, params: Params, state: tuple[Array, ...], rng: PRNGKey, stops: Array,
                       progress: _Progress, on_token: Callable) -> Array:
    """As `_follow`, in single steps; `on_token` is called with the tokens of each step."""
    tokens = []
    while True:
        tokens.append(np.asarray(progress.token))
        on_token(_checked_tokens(tokens[-1]))
        if len(tokens) == steps or np.all(progress.ended):
            break
        progress = _step(call, params, state, rng, stops, progress)
    return jnp.stack(tokens + tokens[-1:] * (steps - len(tokens)), 1)


# -- from logits to a token ------------------------------------------------------------------------------------------


def sample(rng: Rng, logits: ArrayLike, temperature: float = 1.0, top_k: int | None = None,
           top_p: float | None = None) -> Array:
    """A token for each row of logits [batch, n]: int32 [batch].

    Args:
      rng: a key or a `RowKey`; the draw of row i depends on its number only. None for temperature 0.
      temperature, top_k, top_p: as in `filter_logits`; temperature 0 takes the most likely token.
    """
    logits = check_float("sample", logits, 2)
    _check_sampling("sample", Sampling(temperature, top_k, top_p))
    if temperature == 0:
        return jnp.argmax(logits, -1).astype("int32")
    keys, logits = row_keys(rng, logits.shape[0]), logits.astype(at_least_float32(logits.dtype))
    # In float16, quotients by a low temperature would be infinite: it ends at 65504.
    return xjax.vmap(random.categorical)(keys, filter_logits(logits, temperature, top_k, top_p)).astype("int32")


def filter_logits(logits: ArrayLike, temperature: float = 1.0, top_k: int | None = None,
                  top_p: float | None = None) -> Array:
    """Logits [..., n] divided by the temperature, and -inf for excluded tokens; their softmax is the distribution.

    Args:
      temperature: above 0; above 1 makes unlikely tokens more likely.
      top_k: keeps the k most likely tokens, and all tokens as likely as the last of them (Fan et al., 2018).
      top_p: keeps the most likely tokens whose probabilities, after top_k, add up to p (Holtzman et al., 2020).

    >>> filter_logits(jnp.array([1.0, 3.0, 2.0]), top_k=2)
    Array([-inf,   3.,   2.], dtype=float32)
    """
    logits = check_float("filter_logits", logits, 1)
    _check_sampling("filter_logits", Sampling(temperature, top_k, top_p), least=1e-30)
    logits = logits / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        least = lax.top_k(logits, top_k)[0][..., -1:]
        logits = jnp.where(logits < least, -np.inf, logits)
    if top_p is not None and top_p < 1:
        order = jnp.sort(logits, -1, descending=True)
        likely = nn.softmax(order, -1)
        # The sum over all more likely tokens: a token is kept if the tokens before it have not reached p.
        before = jnp.cumsum(likely, -1) - likely
        least = jnp.min(jnp.where(before < top_p, order, np.inf), -1, keepdims=True)
        logits = jnp.where(logits < least, -np.inf, logits)
    return logits


# -- checks ----------------------------------------------------------------------------------------------------------


def _checked_prompt(prompt: ArrayLike, mask: ArrayLike | None, steps: int, length: int | None) -> tuple[Any, Any, int]:
    prompt = jnp.asarray(prompt)
    if prompt.ndim != 2 or not jnp.issubdtype(prompt.dtype, np.integer) or prompt.shape[1] < 1:
        raise bad("generate", "the prompt must be tokens [batch, time], at least one", {"prompt": type_text(prompt)},
                  fix="pass integers: prompt[None] is a batch of one row; an empty prompt needs a start token.")
    if mask is not None:
        mask = jnp.asarray(mask)
        if mask.shape != prompt.shape or mask.dtype != bool:
            raise bad("generate", "the mask must have one bool for each token of the prompt",
                      {"prompt": type_text(prompt), "mask": type_text(mask)}, fix="pass prompt != padding.")
        if not isinstance(mask, xjax.core.Tracer) and not np.all(np.any(np.asarray(mask), 1)):
            raise bad("generate", "a row of the prompt has no tokens", {"mask": type_text(mask)},
                      fix="an empty prompt needs a start token.", exc=ValueError)
    needed = prompt.shape[1] + max(steps - 1, 0)
    if steps < 0 or (length is not None and length < needed):
        raise bad("generate", "steps must not be negative" if steps < 0 else "the cache is too short",
                  {"prompt": prompt.shape[1], "steps": steps, "length": length}, f"length={needed}, or fewer steps.",
                  ValueError)
    return prompt, mask, length or needed


def _check_sampling(caller: str, sampling: Sampling, least: float = 0) -> None:
    temperature, top_k, top_p = sampling
    faults = {"temperature": temperature < least, "top_k": top_k is not None and top_k < 1,
              "top_p": top_p is not None and not 0 < top_p <= 1}
    for name in (name for name, wrong in faults.items() if wrong):
        ranges = {"temperature": "above 0" if least else "at least 0", "top_k": "at least 1", "top_p": "in (0, 1]"}
        raise bad(caller, f"`{name}` must be {ranges[name]}", {name: repr(getattr(sampling, name))},
                  fix="generate(temperature=0) takes the most likely token; None leaves top_k or top_p out.",
                  exc=ValueError)
    if not temperature and (top_k is not None or top_p is not None):
        raise bad(caller, "with temperature 0, top_k and top_p have no effect",
                  {"temperature": temperature, "top_k": top_k, "top_p": top_p}, "leave them out.", ValueError)


def _last(logits: Array, mask: Array | None) -> Array:
    """The logits [batch, n] at each row's last position, or at the last position that the mask keeps."""
    if mask is None:
        return logits[:, -1].astype("float32")
    last = mask.shape[1] - 1 - jnp.argmax(mask[:, ::-1], 1)
    return jnp.take_along_axis(logits, last[:, None, None], 1)[:, 0].astype("float32")


def _checked_tokens(tokens: ArrayLike) -> ArrayLike:
    """The tokens themselves. Raises: ValueError if a token is -1, which means that its logits were NaN."""
    if not isinstance(tokens, xjax.core.Tracer) and np.any(np.asarray(tokens) < 0):
        raise bad("generate", "the model's logits are NaN", {"rows": np.unique(np.nonzero(np.asarray(tokens) < 0)[0])},
                  fix="look for tokens outside the range of its embedding, for more positions than it has, and for NaN "
                      "in its parameters.", exc=ValueError)
    return tokens


def _lengths(tokens: Array, stops: Array) -> Array:
    stopped = jnp.any(tokens[:, :, None] == stops[None, None], 2)
    return jnp.where(jnp.any(stopped, 1), jnp.argmax(stopped, 1) + 1, tokens.shape[1]).astype("int32")
