"""Gymnax: episodes of two environments in scan and vmap."""

import gymnax
import jax

KEY = jax.random.key(0)


def episode(name, key):
    env, params = gymnax.make(name)
    key, start = jax.random.split(key)
    _, state = env.reset(start, params)

    def step(state, key):
        action_key, step_key = jax.random.split(key)
        action = env.action_space(params).sample(action_key)
        observed, state, reward, done, *_ = env.step(step_key, state, action, params)
        return state, (observed.sum(), reward, done)

    return jax.lax.scan(step, state, jax.random.split(key, 20))[1]


def pole():
    for part in jax.jit(lambda key: episode("CartPole-v1", key))(KEY):
        yield from part


def pendulum():
    yield from jax.vmap(lambda key: episode("Pendulum-v1", key)[1])(jax.random.split(KEY, 3)).sum(1)


def catch():
    yield from episode("Catch-bsuite", KEY)[0]


PROGRAMS = [pole, pendulum, catch]
