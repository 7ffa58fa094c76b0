"""A library as the cells import it, whose code no reader of cells sees: it fits models, and calls what it was given."""


class Callback:
    """The base of callbacks, which does nothing."""

    def on_epoch(self, loss):
        """Take in the loss of an epoch."""


class History(Callback):
    """A callback that keeps the losses."""

    def __init__(self):
        self.losses = []

    def on_epoch(self, loss):
        """Keep the loss."""
        self.losses.append(loss)

    def __repr__(self):
        return f"History({self.losses})"


class Model:
    """A model with one weight, and with hooks that see what it returns."""

    def __init__(self):
        self.weight, self.hooks = 0, []

    def register_forward_hook(self, hook):
        """Have a function see each result."""
        self.hooks.append(hook)

    def fit(self, xs, callbacks=()):
        """Change the weight, tell the callbacks and return the weight."""
        for x in xs:
            self.weight += x
            for each in callbacks:
                each.on_epoch(self.weight)
        return self.weight

    def evaluate(self, xs):
        """Return a number, and change nothing."""
        return sum(xs) * self.weight

    def __call__(self, x):
        for hook in self.hooks:
            hook(x)
        return x + self.weight

    def __repr__(self):
        return f"Model({self.weight}, {len(self.hooks)})"


class Trainer:
    """A trainer that keeps its callbacks."""

    def __init__(self, model, callbacks=()):
        self.model, self.callbacks, self.runs = model, list(callbacks), 0

    def add_callback(self, callback):
        """Keep a callback for later."""
        self.callbacks.append(callback)

    def train(self):
        """Fit the model, and tell the callbacks."""
        self.runs += 1
        return self.model.fit([1, 2], self.callbacks)

    def __repr__(self):
        return f"Trainer({self.runs}, {len(self.callbacks)})"


class Study:
    """A search that calls what it is given."""

    def __init__(self):
        self.values = []

    def optimize(self, objective, n_trials):
        """Keep what the function returns."""
        self.values += [objective(trial) for trial in range(n_trials)]

    def __repr__(self):
        return f"Study({self.values})"


class Bus:
    """Events and the functions that want to know of them."""

    def __init__(self):
        self.known = {}

    def subscribe(self, name, called):
        """Keep a function for later."""
        self.known[name] = called

    def emit(self, name, value):
        """Call the function that was kept."""
        self.known[name](value)

    def __repr__(self):
        return f"Bus({sorted(self.known)})"


class Column:
    """A column of numbers, which does not change in place."""

    def __init__(self, values):
        self.values = values

    def add(self, value):
        """Return another column."""
        return Column([each + value for each in self.values])

    def __repr__(self):
        return f"Column({self.values})"


def minimize(loss, start, callback=None):
    """Return the best of three numbers, and tell each of them."""
    tried = [start - step for step in range(3)]
    for each in tried:
        if callback is not None:
            callback(each)
    return min(tried, key=loss)
