"""Random programs over the public API, run by xjax and by real JAX.

`program` holds the description (plain data) and writes it as Python source; `elementwise` and `arrays` are the tables
of operations, `control` the control flow and custom rules, `transforms` the transforms; `draw` composes them from a
seed, `run` executes the source with both libraries and compares, `minimise` shrinks what fails, `coverage` counts, and
`worker` is a process that does all this for a range of seeds.
"""
