"""The names of functions and methods that tell whether a call changes a value, and the names of what is trained. Pure.

Rules
-----
- A name counts by its first word: `fit_transform` and `fitAll` begin with `fit`. A name with `_` at its end, such as
  `zero_`, changes what it is called with, by the convention of PyTorch.
- Kept results: what is assigned or used is what most calls are for, so only a few words change something as well.
- Kept in vain: methods of lists, sets and dicts change them whatever becomes of the result. Of other objects only those
  methods do whose results can only be tested, or are what a lambda returns, and are None for all that is known.
- Shown and saved: words such as `plot`, `print`, `save` and `evaluate` change nothing.

See docs/decisions/0482-propose-what-a-call-is-made-for.md.
"""

import re
from typing import Final

#: First words of what changes something although its result is kept, such as `history = model.fit(x)`.
_ALSO_KEPT: Final = frozenset(
    {
        *("fit", "train", "finetune", "learn", "optimize", "step", "pop", "popleft", "popitem", "setdefault"),
        *("heappop", "heappushpop", "heapreplace", "next"),
    }
)
#: First words of what changes something if its result is thrown away or shown.
_CHANGING: Final = _ALSO_KEPT | {
    *("append", "appendleft", "extend", "insert", "insort", "add", "update", "push", "put", "enqueue", "heappush"),
    *("heapify", "remove", "discard", "delete", "clear", "sort", "reverse", "shuffle", "set", "setattr", "delattr"),
    *("reset", "init", "initialize", "load", "register", "freeze", "unfreeze", "compile", "build", "adapt", "backward"),
    *("copyto", "place", "putmask", "fill", "rotate", "move", "resize", "apply", "attach", "zero", "observe"),
}
#: Names that change something although their first words do not say so; `functools.partial` changes nothing.
_WHOLE_NAMES: Final = frozenset({"partial_fit", "load_state_dict"})
#: Methods of lists, sets, dicts and the classes of `collections` that change them.
_OF_CONTAINERS: Final = frozenset(
    {
        *(
            "append",
            "appendleft",
            "extend",
            "extendleft",
            "insert",
            "add",
            "update",
            "remove",
            "discard",
            "clear",
            "sort",
        ),
        *("reverse", "rotate", "subtract", "move_to_end", "difference_update", "intersection_update"),
        *("symmetric_difference_update", "__setitem__", "__delitem__"),
    }
)
#: Methods whose result is None, so that nobody tests it for its own sake.
_RETURNING_NONE: Final = _OF_CONTAINERS | {"put", "put_nowait", "push"}
#: Methods that are in place for all that is known, unlike `add` of a tensor and `sort_values` of a table.
_IN_PLACE: Final = frozenset(
    {*("append", "appendleft", "extend", "extendleft", "insert", "remove", "discard", "clear", "put", "put_nowait")}
)
#: Functions and classes that make a list, set or dict, or what has the same methods.
_CONTAINERS: Final = frozenset(
    {"list", "set", "dict", "bytearray", "deque", "defaultdict", "OrderedDict", "Counter", "ChainMap"}
)
#: First words of what only shows, tests, saves or sends a value.
_SHOWING: Final = frozenset(
    {
        *("print", "pprint", "display", "show", "plot", "draw", "render", "visualize", "visualise", "view", "hist"),
        *("scatter", "bar", "boxplot", "imshow", "legend", "summary", "summarize", "describe", "info", "head", "tail"),
        *("sample", "repr", "inspect", "explain", "explore", "report", "compare", "count", "list", "get"),
        *("find", "len"),
        *("save", "savefig", "savetxt", "savez", "dump", "write", "export", "to", "log", "track", "watch", "upload"),
        *("send", "publish", "push_to_hub", "cache", "persist", "eval", "evaluate", "test", "validate", "val", "check"),
        *("verify", "assert", "predict", "infer", "score", "generate", "forward", "benchmark", "profile", "warn"),
        *("debug", "error", "warning", "exception", "critical", "sleep", "wait", "notify", "str", "isinstance", "hash"),
        *("print_trainable_parameters", "seed", "manual", "mkdir", "unlink", "touch", "exists", "read", "open"),
        *("select", "from"),
    }
)
#: Methods of tables and arrays that return new ones, although their first words say otherwise, or nothing.
_COPYING: Final = frozenset(
    {
        *("sort_values", "sort_index", "set_index", "set_axis", "reset_index", "add_prefix", "add_suffix", "dropna"),
        *("drop", "drop_duplicates", "fillna", "ffill", "bfill", "rename", "astype", "assign", "merge", "join"),
        *("query",),
        *("groupby", "filter", "where", "mask", "isin", "pivot", "pivot_table", "melt", "stack", "unstack", "explode"),
        *("mean", "median", "sum", "min", "max", "std", "var", "quantile", "corr", "unique", "nunique", "value_counts"),
        *("isna", "isnull", "duplicated", "transpose", "reshape", "copy", "clone", "detach", "numpy", "item", "tolist"),
        *("apply", "applymap", "map", "agg", "aggregate", "transform", "clip", "round", "abs", "diff", "cumsum"),
    }
)
#: Modules whose functions show, save or run something; all names in them count by the words of `_CHANGING` only.
_MODULES_WITHOUT_CHANGES: Final = frozenset(
    {
        *("matplotlib", "seaborn", "plotly", "altair", "bokeh", "hvplot", "graphviz", "IPython", "rich"),
        *("tqdm", "wandb"),
        *("mlflow", "neptune", "comet_ml", "clearml", "os", "sys", "shutil", "pathlib", "subprocess", "time", "json"),
        *("pickle", "joblib", "dill", "cloudpickle", "yaml", "csv", "logging", "warnings", "gc", "requests"),
        *("builtins",),
        *("asyncio", "threading", "multiprocessing", "signal", "pprint", "shap", "torchsummary", "torchinfo", "pandas"),
    }
)
#: Words in the names of variables that hold what is trained, or what trains it.
_OF_MODEL: Final = frozenset(
    {
        *("model", "models", "net", "nets", "network", "module", "backbone", "encoder", "decoder", "head"),
        *("classifier",),
        *("regressor", "estimator", "generator", "discriminator", "policy", "actor", "critic", "agent"),
        *("learner", "clf"),
        *("optimizer", "optim", "opt", "optimizers", "scheduler", "sched", "trainer", "lit", "unet", "cnn"),
        *("rnn", "gan"),
        *("lstm", "gpt", "bert", "vae", "resnet", "mlp", "autoencoder", "transformer", "teacher", "student", "ema"),
    }
)
#: Names of classes whose instances are trained, train a model, or are fitted to data.
_MODEL_CLASS: Final = re.compile(
    r"(?:Net\w*|\w*Net(?:[Vv]?\d+)?|\w*Model\w*|\w*Module|Sequential|Linear|Conv\dd|LSTM|GRU|\w*[CR]NN|\w*Transformer|\w*GPT\w*|"
    r"\w*Bert\w*|\w*VAE|\w*GAN|\w*MLP|\w*Encoder|\w*Decoder|\w*Classifier|\w*Regressor|\w*Regression|\w*SV[CR]|"
    r"SGD|\w*Adam\w*|RMSprop|Adagrad|LBFGS|\w*Optimizer|\w*LR|\w*Scheduler|\w*Generator|\w*Discriminator|\w*Agent|"
    r"\w*Policy|\w*Scaler|\w*Imputer|PCA)"
)
_NO_MODEL: Final = re.compile(r"\w*(?:Tokenizer|Config|DataModule|GradScaler|Loss|Dataset|Loader)\w*")
_FIRST_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_WORDS: Final = re.compile(r"[a-z]+")


def is_changing(name: str, *, is_kept: bool) -> bool:
    """Return whether a function or method of this name changes a value; `is_kept` says that its result is used."""
    if name.endswith("_") and not name.startswith("_"):
        return True
    if name in _SHOWING or name in _COPYING:
        return False
    return name in _WHOLE_NAMES or _get_first_word(name) in (_ALSO_KEPT if is_kept else _CHANGING)


def changes_container(name: str) -> bool:
    """Return whether a method of this name changes a list, set or dict whatever becomes of its result."""
    return name in _OF_CONTAINERS


def returns_none(name: str, *, for_certain: bool) -> bool:
    """Return whether a method of this name changes an object and returns None.

    `for_certain` leaves out methods such as `add` and `sort`, which return a new object for tensors and tables.
    """
    return name in (_IN_PLACE if for_certain else _RETURNING_NONE)


def makes_container(name: str) -> bool:
    """Return whether a function or class of this name makes a list, set, dict or one of their kind."""
    return name in _CONTAINERS


def is_training(name: str) -> bool:
    """Return whether a function of this name trains a model that it is given, and may return another one."""
    return _get_first_word(name) in {"fit", "train", "finetune", "learn", "optimize"}


def is_showing(name: str) -> bool:
    """Return whether a function or method of this name only shows, tests, copies, saves or sends something."""
    return name in _SHOWING or name in _COPYING or _get_first_word(name) in _SHOWING


def is_without_changes(full_name: str) -> bool:
    """Return whether a function is, by its full name, of a package whose functions show, save or run something."""
    return full_name.partition(".")[0] in _MODULES_WITHOUT_CHANGES


def is_name_of_model(name: str) -> bool:
    """Return whether a variable of this name holds what is trained, such as `net` and `opt_g`, or what trains it."""
    lower = name.lower()
    return lower.endswith(("model", "net")) or not _OF_MODEL.isdisjoint(_WORDS.findall(lower))


def is_class_of_model(name: str) -> bool:
    """Return whether a class of this name is one of models, or of what trains them."""
    return _MODEL_CLASS.fullmatch(name) is not None and _NO_MODEL.fullmatch(name) is None


def _get_first_word(name: str) -> str:
    found = _FIRST_WORD.match(name.lstrip("_"))
    return "" if found is None else found[0].lower()
