"""New arrays on a GPU from the allocator of the library that the caller's arrays come from."""


def _empty_torch(like, shape, dtype):
    import torch

    return like.new_empty(shape, dtype=getattr(torch, dtype))


def _empty_cupy(like, shape, dtype):
    import cupy

    with like.device:
        return cupy.empty(shape, dtype=like.dtype if like.dtype.name == dtype else dtype)


def allocator_of(array):
    """A function (like, shape, name of a dtype) -> array on like's device, or None: the memory is to be fla's own."""
    package = type(array).__module__.partition(".")[0]
    return {"torch": _empty_torch, "cupy": _empty_cupy}.get(package)
