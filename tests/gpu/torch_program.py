"""A program that uses a GPU by PyTorch: `hold MIB`, `digest`, `train STEPS`, `fill`. It imports nothing from here.

Its Python may be another one than that of the tests. An argument is the path of the script that caps frameworks.
Without a GPU it computes on the CPU, where all but `fill` can be tried.
"""

import os
import runpy
import sys

if len(sys.argv) > 1:
    runpy.run_path(sys.argv[1])["apply_caps"](os.environ)
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # the same sums in the same order

import torch

torch.use_deterministic_algorithms(True)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BLOCK_MIB = 256
INTEGERS = BLOCK_MIB * 2**20 // 8


class Program:
    """The tensors and the model of the program."""

    def __init__(self):
        self.blocks = []
        self.random = torch.Generator(DEVICE).manual_seed(4711)
        torch.manual_seed(4711)
        layers = torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
        self.model = torch.nn.Sequential(*layers).to(DEVICE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.inputs = torch.randn(1024, 64, device=DEVICE, generator=self.random)
        self.classes = torch.randint(10, (1024,), device=DEVICE, generator=self.random)

    def hold(self, mib):
        """Hold so much memory, filled with random integers."""
        low, high = -(2**63), 2**63 - 1
        for _ in range(int(mib) // BLOCK_MIB):
            self.blocks.append(torch.randint(low, high, (INTEGERS,), device=DEVICE, generator=self.random))
        return "held"

    def digest(self):
        """Return a number that each bit of the memory changes, wherever it is: a weighted sum modulo 2**64."""
        weights = 2 * torch.arange(INTEGERS, device=DEVICE, dtype=torch.int64) + 1
        found = 0
        for block in self.blocks:
            found = (found * 31 + int((block * weights).sum())) % 2**64
        return found

    def train(self, steps):
        """Train so many steps, and return the loss of each, to the last bit."""
        losses = []
        for _ in range(int(steps)):
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(self.inputs), self.classes)
            loss.backward()
            self.optimizer.step()
            losses.append(float(loss).hex())
        return " ".join(losses)

    def fill(self):
        """Take memory until there is none, keep it, and return the MiB."""
        try:
            while True:
                self.blocks.append(torch.empty(2**20, dtype=torch.int64, device=DEVICE))
        except torch.cuda.OutOfMemoryError:
            return torch.cuda.memory_reserved() // 2**20


def main():
    program = Program()
    for line in sys.stdin:
        word, *arguments = line.split()
        print(getattr(program, word)(*arguments), flush=True)


if __name__ == "__main__":
    main()
