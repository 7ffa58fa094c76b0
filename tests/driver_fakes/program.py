"""A program that holds device memory, on a real GPU or with the fake libcuda: `hold MIB`, `write NUMBER`, `read`.

Its arguments are the indexes of the devices on each of which it holds that much; the first one by default.

`copy MIB` copies so much of what is held to new host memory, as a suspension does at best. `manage MIB` takes managed
memory beside it.
"""

import ctypes
import signal
import sys
from dataclasses import dataclass, field

cuda = ctypes.CDLL("libcuda.so.1")
managed = ctypes.c_uint64()
#: CU_MEM_ATTACH_GLOBAL: all of the device may use the memory.
ATTACH_GLOBAL = 1


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        sys.exit(f"{name} returned {code}")


@dataclass
class Held:
    """The memory that is held on one device."""

    context: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    pointer: ctypes.c_uint64 = field(default_factory=ctypes.c_uint64)

    def hold(self, size):
        call("cuCtxSetCurrent", self.context)
        if self.pointer.value:
            call("cuMemFree_v2", self.pointer)
        call("cuMemAlloc_v2", ctypes.byref(self.pointer), ctypes.c_size_t(size))

    def write(self, number):
        call("cuCtxSetCurrent", self.context)
        number = ctypes.c_uint64(number)
        call("cuMemcpyHtoD_v2", self.pointer, ctypes.byref(number), ctypes.c_size_t(8))

    def read(self):
        call("cuCtxSetCurrent", self.context)
        answer = ctypes.c_uint64()
        call("cuMemcpyDtoH_v2", ctypes.byref(answer), self.pointer, ctypes.c_size_t(8))
        return answer.value


def begin(index):
    device, held = ctypes.c_int(), Held()
    call("cuDeviceGet", ctypes.byref(device), index)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(held.context), device)
    return held


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored if the tests are a background job of a shell
    call("cuInit", 0)
    places = [begin(int(index)) for index in sys.argv[1:] or ["0"]]
    call("cuCtxSetCurrent", places[0].context)
    for line in sys.stdin:
        word, *numbers = line.split()
        answer = 0
        if word == "hold":
            for held in places:
                held.hold(int(numbers[0]) << 20)
        elif word == "write":
            for held in places:
                held.write(int(numbers[0]))
        elif word == "manage":
            call("cuMemAllocManaged", ctypes.byref(managed), ctypes.c_size_t(int(numbers[0]) << 20), ATTACH_GLOBAL)
        elif word == "copy":
            size = int(numbers[0]) << 20
            call("cuMemcpyDtoH_v2", (ctypes.c_char * size)(), places[0].pointer, ctypes.c_size_t(size))
        else:
            answers = {held.read() for held in places}
            answer = answers.pop() if len(answers) == 1 else -1
        print(answer, flush=True)


if __name__ == "__main__":
    main()
