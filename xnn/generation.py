"""Generation: tokens drawn one after the other from a model with a cache, and the choice of a token from its logits."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax, nn, random
from xjax.errors import bad
from xnn.checks import check_float, type_text
from xnn.layer import Layer, Params
from xnn.rng import fold_in, row_keys


class Generated(NamedTuple):
    """What `generate` returns.

    Attributes:
      tokens: int32 [batch, steps], without the prompt. After its stop token a row repeats it.
      lengths: int32 [batch], the number of tokens up to the stop token, which is counted.
    """

    tokens: Any
    lengths: Any


class Sampling(NamedTuple):
    """How a token is chosen from logits; see `filter_logits`. A temperature of 0 takes the most likely token."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None


def generate(model: Layer, params: Params, prompt: Any, *, steps: int, rng: Any = None, temperature: float = 1.0,
             top_k: int | None = None, top_p: float | None = None, stop: int | Sequence[int] = (), mask: Any = None,
             state: Any = (), length: int | None = None, on_token: Callable | None = None, **inputs: Any) -> Generated:
    """`steps` tokens after a prompt, each drawn from the model's distribution given those before it.

    The prompt goes through the model at once and fills its cache; then each token goes through alone, in one compiled
    loop, or with `on_token` in one compiled step. The same key draws the same tokens either way.

    Args:
      model: tokens int [batch, time] -> logits [batch, time, n], with a cache if it combines positions.
      prompt: int [batch, time], at least one token.
      rng: a key, or a `RowKey`; row i draws by its own number, so that it gets the same tokens in any batch. Not needed
        for temperature 0.
      temperature, top_k, top_p: as in `filter_logits`; temperature 0 takes the most likely token.
      stop: a token, or several, after which a row ends. The loop ends when all rows have.
      mask: bool [batch, time], False where the prompt is padded, before or after; an input of the model.
      state: running statistics, of a model with state.
      length: positions of the cache, if it is to be longer than this call needs: calls of different sizes with the same
        length share the compiled step.
      on_token: called with each step's tokens, a NumPy array [batch], as soon as they are there.
      inputs: of the model, by name, for the prompt; in the calls after it they are None, as a context is cached.
    Raises: ValueError for sizes that do not fit, or if logits are NaN: a token that the model does not have, or more
      positions than it has.
    """
    prompt, mask, length = _checked_prompt(prompt, mask, steps, length)
    how = Sampling(float(temperature), top_k, top_p)
    _check_sampling("generate", how)
    if temperature and rng is None:
        raise bad("generate", "drawing tokens needs random bits, but rng is None", {"temperature": temperature},
                  fix="pass rng=random.key(0), or temperature=0 for the most likely tokens.")
    if not steps:
        return Generated(jnp.zeros((len(prompt), 0), "int32"), jnp.zeros(len(prompt), "int32"))
    call = _Call(model, how, tuple(inputs))
    stops = jnp.asarray((stop,) if isinstance(stop, int | np.integer) else tuple(stop), "int32")
    inputs = inputs if mask is None else {**inputs, "mask": mask}
    progress = _read_prompt(call, length, params, state, rng, stops, prompt, inputs)
    if on_token is None:
        tokens = _follow(call, steps, params, state, rng, stops, progress)
    else:
        tokens = _follow_one_by_one(call, steps, params, state, rng, stops, progress, on_token)
    return Generated(_checked_tokens(tokens), _lengths(tokens, stops))


class _Call(NamedTuple):
    """What is fixed when a generation is compiled."""

    model: Layer
    sampling: Sampling
    inputs: tuple[str, ...]         # those that are None after the prompt


class _Progress(NamedTuple):
    token: Any          # i32[batch], the last ones; -1 where the logits were NaN
    ended: Any          # bool[batch]
    step: Any           # i32[], number of tokens drawn
    cache: Any          # of all positions before the token


@functools.partial(xjax.jit, static_argnums=(0, 1))
def _read_prompt(call: _Call, length: int, params: Params, state: Any, rng: Any, stops: Any, prompt: Any,
                 inputs: dict) -> _Progress:
    cache = call.model.init_cache(prompt.shape[0], length)
    logits, cache = call.model.apply_with_cache(params, cache, prompt, state=state, **inputs)
    nothing = jnp.zeros(prompt.shape[0], "int32")
    before = _Progress(nothing, nothing != 0, jnp.int32(0), None)
    return _drawn(call, rng, stops, before, _last(logits, inputs.get("mask")), cache)


def _drawn(call: _Call, rng: Any, stops: Any, before: _Progress, logits: Any, cache: Any) -> _Progress:
    """A further token for each row; those that have ended repeat theirs."""
    new = sample(fold_in(rng, before.step), logits, *call.sampling)
    new = jnp.where(jnp.any(jnp.isnan(logits), -1), -1, new)
    token = jnp.where(before.ended, before.token, new)
    ended = jnp.any(token[:, None] == stops[None], 1) | (token < 0)
    return _Progress(token, ended, before.step + 1, cache)


def _advance(call: _Call, params: Params, state: Any, rng: Any, stops: Any, progress: _Progress) -> _Progress:
    nothing = dict.fromkeys(call.inputs)
    logits, cache = call.model.apply_with_cache(params, progress.cache, progress.token[:, None], state=state, **nothing)
    return _drawn(call, rng, stops, progress, _last(logits, None), cache)


@functools.partial(xjax.jit, static_argnums=(0, 1))
def _follow(call: _Call, steps: int, params: Params, state: Any, rng: Any, stops: Any, first: _Progress) -> Any:
    """Tokens [batch, steps]."""

    def cond(carry):
        _, progress = carry
        return (progress.step < steps) & ~jnp.all(progress.ended)

    def body(carry):
        tokens, progress = carry
        following = _advance(call, params, state, rng, stops, progress)
        later = jnp.arange(steps)[None] >= progress.step
        return jnp.where(later, following.token[:, None], tokens), following        # to the end: rows may have ended

    tokens = jnp.broadcast_to(first.token[:, None], (first.token.shape[0], steps))
    return lax.while_loop(cond, body, (tokens, first))[0]


_step = xjax.jit(_advance, static_argnums=0, donate_argnums=5)


def _follow_one_by_one(call: _Call, steps: int, params: Params, state: Any, rng: Any, stops: Any, progress: _Progress,
                       on_token: Callable) -> Any:
    """As `_follow`, in steps between which each token is reported."""
    tokens = []
    while True:
        tokens.append(np.asarray(progress.token))
        on_token(_checked_tokens(tokens[-1]))
        if len(tokens) == steps or np.all(progress.ended):
            break
        progress = _step(call, params, state, rng, stops, progress)
    return jnp.stack(tokens + tokens[-1:] * (steps - len(tokens)), 1)


# -- from logits to a token ------------------------------------------------------------------------------------------


def sample(rng: Any, logits: Any, temperature: float = 1.0, top_k: int | None = None,
           top_p: float | None = None) -> Any:
    """A token for each row of logits [batch, n]: int32 [batch].

    Args: rng: a key or a `RowKey`; what row i draws depends on its number only. None for temperature 0.
      temperature, top_k, top_p: as in `filter_logits`; temperature 0 takes the most likely token.
    """
    logits = check_float("sample", logits, 2)
    _check_sampling("sample", Sampling(temperature, top_k, top_p))
    if temperature == 0:
        return jnp.argmax(logits, -1).astype("int32")
    keys = row_keys(rng, logits.shape[0])
    return xjax.vmap(random.categorical)(keys, filter_logits(logits, temperature, top_k, top_p)).astype("int32")


def filter_logits(logits: Any, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None) -> Any:
    """Logits [..., n] divided by the temperature, -inf for tokens that are not to be drawn; softmax gives their odds.

    Args:
      temperature: above 0; above 1 makes unlikely tokens more likely.
      top_k: keeps the k most likely tokens, and those that are as likely as the last of them (Fan et al., 2018).
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
        # The probability of all that are more likely: a token is kept as long as p is not reached before it.
        before = jnp.cumsum(likely, -1) - likely
        least = jnp.min(jnp.where(before < top_p, order, np.inf), -1, keepdims=True)
        logits = jnp.where(logits < least, -np.inf, logits)
    return logits


# -- checks ----------------------------------------------------------------------------------------------------------


def _checked_prompt(prompt: Any, mask: Any, steps: int, length: int | None) -> tuple[Any, Any, int]:
    prompt = jnp.asarray(prompt)
    if prompt.ndim != 2 or not jnp.issubdtype(prompt.dtype, np.integer) or prompt.shape[1] < 1:
        raise bad("generate", "the prompt must be tokens [batch, time], at least one", {"prompt": type_text(prompt)},
                  fix="pass integers: prompt[None] is a batch of one; begin an empty prompt with a start token.")
    if mask is not None:
        mask = jnp.asarray(mask)
        if mask.shape != prompt.shape or mask.dtype != bool:
            raise bad("generate", "the mask must have a bool for each token of the prompt",
                      {"prompt": type_text(prompt), "mask": type_text(mask)}, fix="pass prompt != padding.")
        if not isinstance(mask, xjax.core.Tracer) and not np.all(np.any(np.asarray(mask), 1)):
            raise bad("generate", "a row of the prompt has no tokens", {"mask": type_text(mask)},
                      fix="begin an empty prompt with a start token.", exc=ValueError)
    needed = prompt.shape[1] + max(steps - 1, 0)
    if steps < 0 or (length is not None and length < needed):
        raise bad("generate", "steps must not be negative" if steps < 0 else "the cache is too short",
                  {"prompt": prompt.shape[1], "steps": steps, "length": length}, f"length={needed}, or fewer steps.",
                  ValueError)
    return prompt, mask, length or needed


def _check_sampling(caller: str, how: Sampling, least: float = 0) -> None:
    temperature, top_k, top_p = how
    faults = {"temperature": temperature < least, "top_k": top_k is not None and top_k < 1,
              "top_p": top_p is not None and not 0 < top_p <= 1}
    for name in (name for name, wrong in faults.items() if wrong):
        ranges = {"temperature": "above 0" if least else "at least 0", "top_k": "at least 1", "top_p": "in (0, 1]"}
        raise bad(caller, f"`{name}` must be {ranges[name]}", {name: repr(getattr(how, name))},
                  fix="generate(temperature=0) takes the most likely token; None leaves top_k or top_p out.",
                  exc=ValueError)
    if not temperature and (top_k is not None or top_p is not None):
        raise bad(caller, "the most likely token does not depend on top_k and top_p",
                  {"temperature": temperature, "top_k": top_k, "top_p": top_p}, "leave them out.", ValueError)


def _last(logits: Any, mask: Any) -> Any:
    """The logits [batch, n] at the last position, of those that a mask keeps."""
    if mask is None:
        return logits[:, -1].astype("float32")
    last = mask.shape[1] - 1 - jnp.argmax(mask[:, ::-1], 1)
    return jnp.take_along_axis(logits, last[:, None, None], 1)[:, 0].astype("float32")


def _checked_tokens(tokens: Any) -> Any:
    """The tokens. Raises: ValueError where one is -1: its logits were NaN."""
    if not isinstance(tokens, xjax.core.Tracer) and np.any(np.asarray(tokens) < 0):
        raise bad("generate", "the model's logits are NaN", {"rows": np.unique(np.nonzero(np.asarray(tokens) < 0)[0])},
                  fix="look for tokens that its embedding does not have, for more positions than it has, and for NaN "
                      "among its parameters.", exc=ValueError)
    return tokens


def _lengths(tokens: Any, stops: Any) -> Any:
    stopped = jnp.any(tokens[:, :, None] == stops[None, None], 2)
    return jnp.where(jnp.any(stopped, 1), jnp.argmax(stopped, 1) + 1, tokens.shape[1]).astype("int32")
