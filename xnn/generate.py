"""`generate`: tokens that continue a prompt, one by one, from a model with a cache."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import nn, random
from xjax.errors import bad
from xnn.checks import type_text
from xnn.layer import Layer, Params
from xnn.layers.positions import check_mask


def generate(model: Layer, params: Params, prompt: Any, *, steps: int, rng: Any = None, temperature: float = 1.0,
             top_k: int | None = None, top_p: float | None = None, stop: Sequence[int] = (), pad: int = 0,
             mask: Any = None, on_token: Callable[[np.ndarray], Any] | None = None) -> np.ndarray:
    """int32 [batch, steps]: the tokens that follow each prompt.

    The prompt is one call of the model, each further token another, of one compiled program for all of them.

    Args:
      model: maps integers [batch, time] to logits [batch, time, vocabulary], and has a cache; a mask makes it need
        an input `mask`, as `xnn.models.GPT2` has.
      prompt: integers [batch, time].
      steps: number of tokens.
      rng: None takes the most probable token. A key draws, row b from ``fold_in(rng, b)``; an array of typed keys
        [batch] is one for each row, so that a row draws the same alone and in any batch.
      temperature: divides the logits.
      top_k: only tokens whose logit is among the k largest are drawn.
      top_p: only the most probable tokens are drawn whose probabilities sum to top_p (Holtzman et al., 2020).
      stop: tokens that end a row; `pad` follows them. When all rows have ended, no more steps are computed.
      mask: bool [batch, time], False for padding of the prompt, on either side.
      on_token: is called with the tokens [batch] of each step, when they are known.
    Raises: TypeError for a prompt that is not of integers, a mask of another shape, a model without a cache; ValueError
      for settings out of range, settings of drawing without a key, and logits that are NaN.
    """
    prompt, steps = _checked_prompt(prompt, mask), _checked_steps(steps)
    sampling = _checked(Sampling(rng is not None, temperature, top_k, top_p))
    (batch, time), keys = prompt.shape, None if rng is None else _keys_of_rows(rng, len(prompt))
    first, following = _programs(model, sampling, tuple(int(token) for token in stop), pad)
    inputs = {} if mask is None else {"mask": jnp.asarray(mask)}
    cache, tokens = model.init_cache(batch, time + steps), np.full((batch, steps), pad, np.int32)
    token, done, cache = first(params, cache, prompt, keys, 0, jnp.zeros(batch, bool), **inputs)
    new = [token]
    for i in range(1, steps + 1):
        if on_token is not None:
            on_token(np.asarray(token))
        if i == steps or (stop and np.all(done)):
            break
        token, done, cache = following(params, cache, token, keys, i, done)
        new.append(token)
    tokens[:, :len(new)] = np.stack([np.asarray(token) for token in new], 1)
    if np.any(tokens == _NOT_A_NUMBER):
        step = int(np.argmax(np.any(tokens == _NOT_A_NUMBER, 0)))
        raise bad("generate", f"the logits of step {step} are NaN", {"prompt": type_text(prompt), "steps": steps},
                  "generate fewer steps if the model has no more positions; else look for NaN in its parameters.",
                  ValueError)
    return tokens


_NOT_A_NUMBER = np.iinfo(np.int32).min                   # the token of logits that are NaN


class Sampling(NamedTuple):
    """How a token is chosen: as the arguments of `generate`."""

    draws: bool
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None


@functools.lru_cache(maxsize=16)
def _programs(model: Layer, sampling: Sampling, stop: tuple[int, ...], pad: int) -> tuple[Callable, Callable]:
    """The compiled calls for the prompt and for one token; they are kept, as compiling takes longer than generating."""

    def chosen(logits, keys, i, done):
        logits = logits.astype("float32")
        if sampling.draws:
            keys = xjax.vmap(lambda key: random.fold_in(key, i))(keys)
            token = xjax.vmap(random.categorical)(keys, filtered(logits, sampling)).astype("int32")
        else:
            token = jnp.argmax(logits, -1).astype("int32")
        token = jnp.where(jnp.any(jnp.isnan(logits), -1), _NOT_A_NUMBER, token)
        token = jnp.where(done, pad, token)
        for end in stop:
            done = done | (token == end)
        return token, done

    def first(params, cache, prompt, keys, i, done, mask=None):
        inputs = {} if mask is None else {"mask": mask}
        logits, cache = model.apply_with_cache(params, cache, prompt, **inputs)
        last = jnp.full(len(prompt), prompt.shape[1] - 1) if mask is None else (
            prompt.shape[1] - 1 - jnp.argmax(mask[:, ::-1], 1))
        logits = jnp.take_along_axis(logits, last[:, None, None], 1)[:, 0]
        return *chosen(logits, keys, i, done), cache

    def following(params, cache, token, keys, i, done):
        logits, cache = model.apply_with_cache(params, cache, token[:, None])
        return *chosen(logits[:, 0], keys, i, done), cache

    return xjax.jit(first), xjax.jit(following)


def filtered(logits: Any, sampling: Sampling) -> Any:
    """Logits [..., vocabulary] divided by the temperature, and -inf for tokens that are not drawn.

    Of equal logits at the limit of top_k or top_p all are kept.

    >>> filtered(jnp.log(jnp.asarray([0.5, 0.3, 0.2])), Sampling(True, top_k=2)).tolist()[2]
    -inf
    """
    logits = logits / sampling.temperature
    if sampling.top_k is not None and sampling.top_k < logits.shape[-1]:
        limit = jnp.sort(logits, -1)[..., -sampling.top_k][..., None]
        logits = _at_least(logits, limit)
    if sampling.top_p is not None:
        falling = jnp.flip(jnp.sort(logits, -1), -1)
        weights = nn.softmax(falling, -1)
        before = jnp.cumsum(weights, -1) - weights                    # the probability of all larger ones
        limit = jnp.min(jnp.where(before < sampling.top_p, falling, np.inf), -1, keepdims=True)
        logits = _at_least(logits, limit)
    return logits


def _at_least(logits: Any, limit: Any) -> Any:
    return jnp.where(logits >= jnp.broadcast_to(limit, logits.shape), logits, -np.inf)


def _keys_of_rows(rng: Any, batch: int) -> Any:
    if jnp.issubdtype(rng.dtype, xjax.dtypes.prng_key) and rng.ndim == 1:
        if len(rng) != batch:
            raise bad("generate", "there is not one key for each row", {"rng": type_text(rng), "rows": batch},
                      f"random.split(key, {batch}), or one key.", ValueError)
        return rng
    return xjax.vmap(lambda row: random.fold_in(rng, row))(jnp.arange(batch))


def _checked_prompt(prompt: Any, mask: Any) -> Any:
    prompt = jnp.asarray(prompt)
    if prompt.ndim != 2 or not jnp.issubdtype(prompt.dtype, np.integer) or not prompt.shape[1]:
        raise bad("generate", "the prompt must be integers [batch, time]", {"prompt": type_text(prompt)},
                  "pass token ids, one row for each text; prompt[None] is one text.")
    if mask is not None:
        batch, time = prompt.shape
        if check_mask("generate", mask, (batch, 1, time, time)).ndim != 2:
            raise bad("generate", "the mask of a prompt has two axes", {"mask": type_text(mask)},
                      f"pass bools [{batch}, {time}], False for padding.")
    return prompt.astype("int32")


def _checked_steps(steps: int) -> int:
    if steps < 1:
        raise bad("generate", "steps must be at least 1", {"steps": steps}, "steps=20.", ValueError)
    return steps


def _checked(sampling: Sampling) -> Sampling:
    given = {name: value for name, value in sampling._asdict().items() if name != "draws"}
    if not sampling.draws and sampling != Sampling(False):
        raise bad("generate", "settings of drawing, but no key to draw with",
                  {name: repr(value) for name, value in given.items()},
                  "pass rng=random.key(0), or leave the settings out for the most probable tokens.", ValueError)
    for name, is_valid, limits in (("temperature", sampling.temperature > 0, "above 0"),
                                   ("top_k", sampling.top_k is None or sampling.top_k >= 1, "at least 1"),
                                   ("top_p", sampling.top_p is None or 0 < sampling.top_p <= 1, "in (0, 1]")):
        if not is_valid:
            raise bad("generate", f"{name} must be {limits}", {name: repr(given[name])},
                      "choose another value; without rng the most probable token is taken.", ValueError)
    return sampling
