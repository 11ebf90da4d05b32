"""The functions as custom ops of torch: torch.ops.fla_cpp.chunk_kda and so on, with fake (shape-only) kernels, so that
torch.compile, torch.export and dispatch modes see them. Imported when torch is there and a call needs it.

Each function has two ops, with the arguments of its table in the table's order: `f` without the outputs that a caller
may give, and `f_out` with them, which writes into those that are given. Both return a tensor a result; one that was
not asked for, or that went into the caller's memory, has no elements."""

import torch

from fla_cpp import _fla_cpp, _signatures

is_compiling = torch.compiler.is_compiling

_library = torch.library.Library("fla_cpp", "DEF")


class _Entry:
    """What the ops of one function are made from."""

    def __init__(self, function):
        self.name, self.table, self.direct = function["name"], function["table"], function["direct"]
        self.results = function["results"]
        self.outputs = [output for output, _, _ in self.results]
        self.inputs = [i for i, row in enumerate(self.table) if i not in self.outputs]
        self.position = {row["name"]: i for i, row in enumerate(self.table)}

    def schema(self, name, with_outputs):
        rows = [self._argument(self.table[i]) for i in self.inputs]
        if with_outputs:
            rows += [f"Tensor({chr(97 + n)}!)? {self.table[i]['name']}=None" for n, i in enumerate(self.outputs)]
        results = ", ".join(["Tensor"] * len(self.results))
        return f"{name}({', '.join(rows)}) -> ({results})"

    def _argument(self, row):
        if row["kind"] == "flag":
            return f"bool {row['name']}=False"
        if row["kind"] == "number":
            return f"float? {row['name']}=None"
        return f"Tensor {row['name']}" if row["required"] else f"Tensor? {row['name']}=None"

    def values(self, inputs, outputs=()):
        """In the table's order."""
        values = [None] * len(self.table)
        for places, given in ((self.inputs, inputs), (self.outputs, outputs)):
            for place, value in zip(places, given):
                values[place] = value
        return values

    def is_asked_for(self, values, n):
        output, flag, _ = self.results[n]
        return values[output] is None and (flag < 0 or bool(values[flag]))

    def run(self, *given):
        values = self.values(given[: len(self.inputs)], given[len(self.inputs) :])
        results = self.direct(*values, None)
        return tuple(
            result if self.is_asked_for(values, n) else given[0].new_empty(0) for n, result in enumerate(results)
        )

    def fake(self, *given):
        values = self.values(given[: len(self.inputs)], given[len(self.inputs) :])
        sizes = self._sizes(values)
        results = []
        for n, (output, _, like) in enumerate(self.results):
            if not self.is_asked_for(values, n):
                results.append(given[0].new_empty(0))
                continue
            source = values[like]
            shape = [sizes[axis] for axis in self._rule(self.table[output], values).split()]
            dtype = source.dtype if source is not None else torch.float32
            results.append(given[0].new_empty(shape, dtype=dtype))
        return tuple(results)

    def _rule(self, row, values):
        """The shape in force: "N HV K V; state_v_first: N HV V K" has another with its flag."""
        first, _, second = row["shape"].partition("; ")
        flag, _, other = second.partition(": ")
        return other if flag and values[self.position[flag]] else first

    def _sizes(self, values):
        """What the axes measure: required tensors say, then the index of packed sequences."""
        sizes = {}
        for row, value in zip(self.table, values):
            if row["required"]:
                sizes.update(zip(self._rule(row, values).split(), value.shape))
        sizes["N"] = sizes.get("B")
        for row, value in zip(self.table, values):
            if row["kind"] == "index" and row["shape"] == "N+1" and value is not None:
                sizes["N"] = value.shape[0] - 1
        sizes["P"] = sizes["N"]
        for row, value in zip(self.table, values):
            if row["kind"] == "tensor" and value is not None:
                for axis, size in zip(self._rule(row, values).split(), value.shape):
                    if axis == "P":
                        sizes["P"] = size
        return sizes

    def define(self):
        message = f"fla_cpp: {self.name} has no backward; call it under torch.no_grad() or torch.inference_mode()"

        def backward(context, *gradients):
            raise NotImplementedError(message)

        for name, with_outputs in ((self.name, False), (f"{self.name}_out", True)):
            _library.define(self.schema(name, with_outputs))
            for device in ("CPU", "CUDA"):
                _library.impl(name, self.run, device)
            torch.library.register_fake(f"fla_cpp::{name}", self.fake, lib=_library)
        torch.library.register_autograd(f"fla_cpp::{self.name}", backward, lib=_library)
        self.op = getattr(torch.ops.fla_cpp, self.name).default
        self.op_out = getattr(torch.ops.fla_cpp, f"{self.name}_out").default


_entries = {function["name"]: _Entry(function) for function in _fla_cpp.functions()}
for _entry in _entries.values():
    _entry.define()


def dispatched(name, values):
    """The call through torch's dispatcher; values in the table's order with the stream behind."""
    entry = _entries[name]
    if values[-1] is not None:
        raise ValueError("stream: expected None for a call that torch compiles or differentiates: it is torch's")
    inputs = [values[i] for i in entry.inputs]
    outputs = [values[i] for i in entry.outputs]
    if all(output is None for output in outputs):
        results = entry.op(*inputs)
    elif torch.is_grad_enabled() and any(getattr(value, "requires_grad", False) for value in inputs):
        raise RuntimeError(f"fla_cpp: {name} has no backward; expected no outputs in a call with gradients")
    else:
        results = entry.op_out(*inputs, *outputs)
    return tuple(
        output if output is not None else (result if entry.is_asked_for(values, n) else None)
        for n, (output, result) in enumerate(zip(outputs, results))
    )


_signatures._tracing = is_compiling  # from now on it costs no look at sys.modules
