"""File systems of fsspec as an object store has them, with the ways in which one fails."""

import threading


class ObjectsInMemory:
    """Objects by path; whoever makes two of them has two stores."""

    def __init__(self):
        self.objects = {}

    def cat_file(self, path):
        if path not in self.objects:
            raise FileNotFoundError(path)
        return self.objects[path]

    def pipe_file(self, path, value):
        self.objects[path] = value

    def rm_file(self, path):
        if path not in self.objects:
            raise FileNotFoundError(path)
        del self.objects[path]

    def ls(self, path, *, detail):
        return [each for each in self.objects if each.startswith(f"{path}/")]

    def mkdir(self, path, *, create_parents):
        """There are no folders."""

    def invalidate_cache(self):
        """Nothing is remembered."""


class RefusesWhileClosed(ObjectsInMemory):
    """Everything is refused while `closed`, with an error that quotes the address and its secret."""

    closed = False

    def _refuse(self):
        if self.closed:
            raise PermissionError("403 for https://key:hidden-word@store/bucket?sig=hidden-word")

    def cat_file(self, path):
        self._refuse()
        return super().cat_file(path)

    def pipe_file(self, path, value):
        self._refuse()
        super().pipe_file(path, value)

    def rm_file(self, path):
        self._refuse()
        super().rm_file(path)

    def ls(self, path, *, detail):
        self._refuse()
        return super().ls(path, detail=detail)


class AnswersNothing(ObjectsInMemory):
    """Reads and writes wait until `answer` is set."""

    def __init__(self):
        super().__init__()
        self.answer, self.asked = threading.Event(), threading.Event()
        self.calls, self._counting = 0, threading.Lock()

    def _wait(self):
        with self._counting:
            self.calls += 1
        self.asked.set()
        self.answer.wait()

    def cat_file(self, path):
        self._wait()
        return super().cat_file(path)

    def pipe_file(self, path, value):
        self._wait()
        super().pipe_file(path, value)


class LosesHalfOfAWrite(ObjectsInMemory):
    """While `broken`, a write ends in the middle with an error, and half of the object is there."""

    broken = False

    def pipe_file(self, path, value):
        if self.broken:
            self.objects[path] = value[: len(value) // 2]
            raise ConnectionResetError("the connection was reset")
        super().pipe_file(path, value)


class AnswersWronglyAtFirst(ObjectsInMemory):
    """The first read of each object gives `answer`; None = the object is not found, as right after a write."""

    def __init__(self, answer):
        super().__init__()
        self.answer, self.read = answer, set()

    def cat_file(self, path):
        if path in self.read:
            return super().cat_file(path)
        self.read.add(path)
        if self.answer is None:
            raise FileNotFoundError(path)
        return self.answer
