"""A program that holds device memory, on a real GPU or with the fake libcuda: `hold MIB`, `write NUMBER`, `read`.

`copy MIB` copies so much of what is held to new host memory, as a suspension does at best. `manage MIB` takes managed
memory beside it.
"""

import ctypes
import signal
import sys

cuda = ctypes.CDLL("libcuda.so.1")
pointer, managed = ctypes.c_uint64(), ctypes.c_uint64()
#: CU_MEM_ATTACH_GLOBAL: all of the device may use the memory.
ATTACH_GLOBAL = 1


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        sys.exit(f"{name} returned {code}")


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored if the tests are a background job of a shell
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    for line in sys.stdin:
        word, *numbers = line.split()
        answer = ctypes.c_uint64()
        if word == "hold":
            if pointer.value:
                call("cuMemFree_v2", pointer)
            call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(int(numbers[0]) << 20))
        elif word == "write":
            number = ctypes.c_uint64(int(numbers[0]))
            call("cuMemcpyHtoD_v2", pointer, ctypes.byref(number), ctypes.c_size_t(8))
        elif word == "manage":
            call("cuMemAllocManaged", ctypes.byref(managed), ctypes.c_size_t(int(numbers[0]) << 20), ATTACH_GLOBAL)
        elif word == "copy":
            size = int(numbers[0]) << 20
            call("cuMemcpyDtoH_v2", (ctypes.c_char * size)(), pointer, ctypes.c_size_t(size))
        else:
            call("cuMemcpyDtoH_v2", ctypes.byref(answer), pointer, ctypes.c_size_t(8))
        print(answer.value, flush=True)


if __name__ == "__main__":
    main()
