"""Mistakes with layers, losses and commands of recipes, and habits from PyTorch."""

from tests.gallery.mistake import Mistake

LAYERS = (
    Mistake("The pair of `init` passed as parameters", """\
`init` returns the shape of the output, then the parameters.""", """\
model = xnn.Dense(3)
params = model.init(random.key(0), (-1, 8))
model.apply(params, jnp.ones((4, 8)))
""", """\
model = xnn.Dense(3)
shape, params = model.init(random.key(0), (-1, 8))
print(shape, model.apply(params, jnp.ones((4, 8))).shape)
"""),
    Mistake("Input and parameters in the wrong order", "The parameters come first, as in Flax and Haiku.", """\
model = xnn.Dense(3)
_, params = model.init(random.key(0), (-1, 8))
model.apply(jnp.ones((4, 8)), params)
""", """\
model = xnn.Dense(3)
_, params = model.init(random.key(0), (-1, 8))
print(model.apply(params, jnp.ones((4, 8))).shape)
"""),
    Mistake("A wrong number of features", "The lines `in ...` name the layer.", """\
model = xnn.serial(xnn.Dense(16), xnn.Relu, xnn.Dense(3))
_, params = model.init(random.key(0), (-1, 8))
model.apply(params, jnp.ones((4, 7)))
""", """\
model = xnn.serial(xnn.Dense(16), xnn.Relu, xnn.Dense(3))
_, params = model.init(random.key(0), (-1, 7))
print(model.apply(params, jnp.ones((4, 7))).shape)
"""),
    Mistake("Parameters of another model", "For instance of an earlier version of the model, in a checkpoint.", """\
old = xnn.serial(xnn.Dense(16), xnn.Dense(3))
_, params = old.init(random.key(0), (-1, 8))
model = xnn.serial(xnn.Dense(16), xnn.Relu, xnn.Dense(3))
model.apply(params, jnp.ones((4, 8)))
""", """\
old = xnn.serial(xnn.Dense(16), xnn.Dense(3))
_, (first, last) = old.init(random.key(0), (-1, 8))
model = xnn.serial(xnn.Dense(16), xnn.Relu, xnn.Dense(3))
print(model.apply((first, (), last), jnp.ones((4, 8))).shape)
"""),
    Mistake("An argument that a layer does not have", "The message has the signature of the layer.", """\
xnn.Dense(16, use_bias=False)
""", """\
print(xnn.Dense(16, bias=False))
"""),
    Mistake("A function in place of a layer", "`xjax.nn.relu` is a function of arrays. `xnn.Relu` is the layer.", """\
xnn.serial(xnn.Dense(16), xjax.nn.relu)
""", """\
print(xnn.serial(xnn.Dense(16), xnn.Relu, xnn.elementwise(xjax.nn.relu)))
"""),
    Mistake("Training with dropout, without a key", "Each step needs a key of its own.", """\
model = xnn.serial(xnn.Dense(16), xnn.Dropout(0.1))
_, params = model.init(random.key(0), (-1, 8))
model.apply(params, jnp.ones((4, 8)), train=True)
""", """\
model = xnn.serial(xnn.Dense(16), xnn.Dropout(0.1))
_, params = model.init(random.key(0), (-1, 8))
key, step = random.key(1), 7
print(model.apply(params, jnp.ones((4, 8)), rng=random.fold_in(key, step), train=True).shape)
"""),
    Mistake("Training in evaluation mode", """\
The default is evaluation, as `model.eval()` in PyTorch. Dropout then does nothing, and running statistics never
change. This is not an error, so look at one value of the state after the first step.""", """\
model = xnn.serial(xnn.Dense(4), xnn.BatchNorm())
_, params = model.init(random.key(0), (-1, 8))
state = model.init_state((-1, 8))
x = random.normal(random.key(1), (16, 8))
y, new_state = model.apply_with_state(params, state, x)
print(bool((new_state[1]["mean"] == state[1]["mean"]).all()))
""", """\
model = xnn.serial(xnn.Dense(4), xnn.BatchNorm())
_, params = model.init(random.key(0), (-1, 8))
state = model.init_state((-1, 8))
x = random.normal(random.key(1), (16, 8))
y, new_state = model.apply_with_state(params, state, x, train=True)
print(bool((new_state[1]["mean"] == state[1]["mean"]).all()))
"""),
    Mistake("`train` as a traced argument", "It selects the computation, so it is static.", """\
model = xnn.serial(xnn.Dense(16), xnn.Dropout(0.1))
_, params = model.init(random.key(0), (-1, 8))
apply = xjax.jit(model.apply)
apply(params, jnp.ones((4, 8)), rng=random.key(1), train=True)
""", """\
model = xnn.serial(xnn.Dense(16), xnn.Dropout(0.1))
_, params = model.init(random.key(0), (-1, 8))
apply = xjax.jit(model.apply, static_argnames="train")
print(apply(params, jnp.ones((4, 8)), rng=random.key(1), train=True).shape)
"""),
    Mistake("Running statistics in training", """\
A layer such as `BatchNorm` returns a new state, which the program keeps.""", """\
model = xnn.serial(xnn.Dense(16), xnn.BatchNorm())
_, params = model.init(random.key(0), (-1, 8))
model.apply(params, jnp.ones((4, 8)), train=True)
""", """\
model = xnn.serial(xnn.Dense(16), xnn.BatchNorm())
_, params = model.init(random.key(0), (-1, 8))
state = model.init_state((-1, 8))
y, state = model.apply_with_state(params, state, jnp.ones((4, 8)), train=True)
print(y.shape)
"""),
    Mistake("Evaluation without running statistics", "See [state and sharing](state_and_sharing.md).", """\
model = xnn.serial(xnn.Dense(16), xnn.BatchNorm())
_, params = model.init(random.key(0), (-1, 8))
model.apply(params, jnp.ones((4, 8)))
""", """\
model = xnn.serial(xnn.Dense(16), xnn.BatchNorm())
_, params = model.init(random.key(0), (-1, 8))
state = model.init_state((-1, 8))
print(model.apply(params, jnp.ones((4, 8)), state=state).shape)
"""),
    Mistake("A mask of floats", """\
In some libraries a mask is added to the scores. Here it has bools: True for positions that count.""", """\
layer = xnn.MultiHeadAttention(8, heads=2)
_, params = layer.init(random.key(0), (-1, 5, 8))
layer.apply(params, jnp.ones((2, 5, 8)), mask=jnp.ones((2, 5)))
""", """\
layer = xnn.MultiHeadAttention(8, heads=2)
_, params = layer.init(random.key(0), (-1, 5, 8))
print(layer.apply(params, jnp.ones((2, 5, 8)), mask=jnp.ones((2, 5)) != 0).shape)
"""),
    Mistake("Images with the channels first", """\
The features are the last axis, as in Flax and Keras. PyTorch has them second.""", """\
layer = xnn.Conv(8, (3, 3))
_, params = layer.init(random.key(0), (-1, 28, 28, 3))
layer.apply(params, jnp.ones((4, 3, 28, 28)))
""", """\
layer = xnn.Conv(8, (3, 3))
_, params = layer.init(random.key(0), (-1, 28, 28, 3))
images = jnp.ones((4, 3, 28, 28))
print(layer.apply(params, images.transpose(0, 2, 3, 1)).shape)
"""),
    Mistake("Tokens that are floats", "Rows of a table are chosen by integers.", """\
layer = xnn.Embedding(100, 8)
_, params = layer.init(random.key(0), (-1, 5))
layer.apply(params, jnp.ones((2, 5)))
""", """\
layer = xnn.Embedding(100, 8)
_, params = layer.init(random.key(0), (-1, 5))
print(layer.apply(params, jnp.ones((2, 5), "int32")).shape)
"""),
    Mistake("Class numbers that are floats", "Floats are probabilities, with one for each class.", """\
from xnn.losses import cross_entropy

cross_entropy(jnp.zeros((4, 3)), jnp.array([0.0, 1.0, 2.0, 0.0]))
""", """\
from xnn.losses import cross_entropy

print(cross_entropy(jnp.zeros((4, 3)), jnp.array([0.0, 1.0, 2.0, 0.0]).astype("int32")))
"""),
    Mistake("Predictions and targets of different shapes", """\
A difference of `[4, 1]` and `[4]` would be broadcast to `[4, 4]`, and training would not learn. So the losses
refuse it.""", """\
from xnn.losses import mse

mse(jnp.ones((4, 1)), jnp.ones(4))
""", """\
from xnn.losses import mse

print(mse(jnp.ones((4, 1))[:, 0], jnp.ones(4)))
"""),
)

_HOUSES = (("houses.csv", "size,town,price\n" + "".join(
    f"{50 + i},{'Ulm' if i % 2 else 'Bonn'},{'unknown' if i == 1 else 1000.5 + i}\n" for i in range(12))),)
_TRAIN = "python -m recipes.train --config"

FROM_PYTORCH = (
    Mistake("`loss.backward()`", "A gradient is that of a function. Operations are not recorded.", """\
w = jnp.arange(3.0)
loss = jnp.sum(w ** 2)
loss.backward()
""", """\
w = jnp.arange(3.0)
loss, gradient = xjax.value_and_grad(lambda w: jnp.sum(w ** 2))(w)
print(loss, gradient)
"""),
    Mistake("Methods of tensors", "Many have another name.", """\
jnp.ones((2, 3)).unsqueeze(0)
""", """\
print(jnp.ones((2, 3))[None].shape)
"""),
    Mistake("Functions of networks in `numpy`", "`xjax.nn` has the functions of `torch.nn.functional`.", """\
jnp.relu(jnp.ones(3))
""", """\
print(xjax.nn.relu(jnp.array([-1.0, 1.0])))
"""),
    Mistake("Names of modules", """\
[from_other_libraries.md](../from_other_libraries.md#names) has the equivalent of each name.""", """\
xnn.Linear(3)
""", """\
print(xnn.Dense(3))
"""),
    Mistake("A call without parameters", "A layer has no values, so each call gets them.", """\
model = xnn.Dense(3)
_, params = model.init(random.key(0), (-1, 8))
model(jnp.ones((4, 8)))
""", """\
model = xnn.Dense(3)
_, params = model.init(random.key(0), (-1, 8))
print(model(params, jnp.ones((4, 8))).shape)
"""),
    Mistake("A mode of a model", "`train` is an argument of each call.", """\
model = xnn.serial(xnn.Dense(3), xnn.Dropout(0.1))
model.train()
""", """\
model = xnn.serial(xnn.Dense(3), xnn.Dropout(0.1))
_, params = model.init(random.key(0), (-1, 8))
print(model.apply(params, jnp.ones((4, 8)), rng=random.key(1), train=True).shape)
"""),
    Mistake("A seed for the whole process", "See [random numbers](random_numbers.md).", """\
random.seed(0)
""", """\
key = random.key(0)
print(random.uniform(key, (3,)).shape)
"""),
)

RECIPES = (
    Mistake("An unknown key in a config", "`--list` prints all keys.", f"""\
{_TRAIN} gcn.yaml log_evry=10 --print-config
""", f"""\
{_TRAIN} gcn.yaml log_every=10 --print-config
"""),
    Mistake("A wrong value in a config", "All values are checked before any package is loaded.", f"""\
{_TRAIN} gcn.yaml optim.lr=fast --print-config
""", f"""\
{_TRAIN} gcn.yaml optim.lr=0.01 --print-config
"""),
    Mistake("An option with another name", "The message lists the choices.", f"""\
{_TRAIN} gcn.yaml optim.name=adamm --print-config
""", f"""\
{_TRAIN} gcn.yaml optim.name=adamw --print-config
"""),
    Mistake("A missing file", "Paths are relative to the folder of the command.", f"""\
{_TRAIN} mlp_table.yaml task.file=house.csv task.target=town --preview
""", f"""\
{_TRAIN} mlp_table.yaml task.file=houses.csv task.target=town task.columns='{{price: category}}' --preview
""", _HOUSES),
    Mistake("A column that the table does not have", "Names are compared exactly.", f"""\
{_TRAIN} mlp_table.yaml task.file=houses.csv task.target=Town --preview
""", f"""\
{_TRAIN} mlp_table.yaml task.file=houses.csv task.target=town task.columns='{{price: category}}' --preview
""", _HOUSES),
    Mistake("A regression of a target with texts", """\
One cell of the column is a text. See [your own table](../training.md#your-own-table-csv-parquet) for gaps and kinds of
columns.""", f"""\
{_TRAIN} mlp_table.yaml task.file=houses.csv task.target=price task.kind=regression --preview
""", f"""\
{_TRAIN} mlp_table.yaml task.file=houses.csv task.kind=regression task.target=size task.features='[town]' --preview
""", _HOUSES),
)
