"""The functions as custom ops of torch: torch.ops.fla_cpp.chunk_kda and so on, with fake (shape-only) kernels, so that
torch.compile, torch.export and dispatch modes see them. Imported when torch is there and a call needs it.

Each function has two ops, with the arguments of its table, those that must be given first: `f` without the outputs that a caller
may give, and `f_out` with them, which writes into those that are given. Both return a tensor a result; one that was
not asked for, or that went into the caller's memory, has no elements."""

from functools import partial

import torch
from torch.autograd import forward_ad

from fla_cpp import _fla_cpp, _signatures

# True where TorchDynamo reads it; other tracers bring subclasses or modes, which a call meets by itself.
is_compiling = torch.compiler.is_dynamo_compiling

_library = torch.library.Library("fla_cpp", "DEF")
_AUTOCAST = {"q", "k", "v", "a", "b"}


class _WithoutBackward(torch.autograd.Function):
    """Results that say so when somebody asks for their gradients."""

    @staticmethod
    def forward(context, why, run, *given):
        context.why = why
        return run(*given)

    @staticmethod
    def backward(context, *gradients):
        raise NotImplementedError(f"fla_cpp: {context.why}")


class _WithBackward(torch.autograd.Function):
    """Results whose gradients the op's backward function has, from the inputs alone."""

    @staticmethod
    def forward(context, entry, run, *given):
        context.entry = entry
        context.options = [None if isinstance(value, torch.Tensor) else value for value in given]
        context.save_for_backward(*(value if isinstance(value, torch.Tensor) else None for value in given))
        context.set_materialize_grads(False)
        results = run(*given)
        context.mark_non_differentiable(*(result for result in results if result.numel() == 0))
        return results

    @staticmethod
    def backward(context, *gradients):
        given = [
            option if tensor is None else tensor for option, tensor in zip(context.options, context.saved_tensors)
        ]
        wanted = context.needs_input_grad[2:]
        return None, None, *context.entry.gradients(given, wanted, gradients)


def _requires_grad(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def _has_tangent(value):
    return isinstance(value, torch.Tensor) and forward_ad.unpack_dual(value).tangent is not None


def _size(sizes, axis):
    """Of "T" or "W-1"."""
    return sizes[axis[:-2]] - 1 if axis.endswith("-1") else sizes[axis]


class _Entry:
    """What the ops of one function are made from."""

    def __init__(self, function):
        self.name, self.table, self.direct = function["name"], function["table"], function["direct"]
        self.backward = function["backward"]
        self.results = function["results"]
        # Those that are results, in their order, and those that only a caller's memory is for.
        self.outputs = [i for i, row in enumerate(self.table) if row["kind"] == "output"]
        # Those that have to be given come first, as a schema wants it.
        self.inputs = [i for i in range(len(self.table)) if i not in self.outputs]
        self.inputs.sort(key=lambda i: not self.table[i]["required"])
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
        if row["kind"] == "integer":
            return f"int? {row['name']}=None"
        return f"Tensor {row['name']}" if row["required"] else f"Tensor? {row['name']}=None"

    def values(self, inputs, outputs=()):
        """In the table's order."""
        values = [None] * len(self.table)
        for places, given in ((self.inputs, inputs), (self.outputs, outputs)):
            for place, value in zip(places, given):
                values[place] = value
        return values

    def is_asked_for(self, values, n):
        output, flag, _, gradient_of = self.results[n]
        if gradient_of >= 0:
            return values[gradient_of] is not None and all(values[output] is None for output in self.outputs)
        return values[output] is None and (flag < 0 or bool(values[flag]))

    def run(self, *given):
        values = self.values(given[: len(self.inputs)], given[len(self.inputs) :])
        results = self.direct(*values, None)
        return self._returned(
            result if self.is_asked_for(values, n) else given[0].new_empty(0) for n, result in enumerate(results)
        )

    def _returned(self, results):
        """As torch has them: one result is no tuple, and none is None."""
        results = tuple(results)
        return results[0] if len(results) == 1 else results or None

    def fake(self, *given):
        values = self.values(given[: len(self.inputs)], given[len(self.inputs) :])
        sizes = self._sizes(values)
        results = []
        for n, (output, _, like, gradient_of) in enumerate(self.results):
            if not self.is_asked_for(values, n):
                results.append(given[0].new_empty(0))
                continue
            if gradient_of >= 0:
                results.append(torch.empty_like(values[gradient_of], memory_format=torch.contiguous_format))
                continue
            source = values[like] if like >= 0 else None
            shape = [_size(sizes, axis) for axis in self._rule(self.table[output], values).split()]
            dtype = source.dtype if source is not None else torch.float32
            results.append(given[0].new_empty(shape, dtype=dtype))
        return self._returned(results)

    def _rule(self, row, values):
        """The shape in force: "N HV K V; state_v_first: N HV V K" has another with its flag."""
        first, _, second = row["shape"].partition(" | ")[0].partition("; ")
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

    def differentiate(self, op, keys, *given):
        """What stands between a call and its kernel where torch keeps track of derivatives."""
        if forward_ad._current_level >= 0 and any(map(_has_tangent, given)):
            raise NotImplementedError(f"fla_cpp: {self.name} has no forward-mode derivative; expected no tangents")

        def run(*given):
            with torch._C._AutoDispatchBelowAutograd():
                return op.redispatch(keys & torch._C._after_autograd_keyset, *given)

        if not torch.is_grad_enabled() or not any(map(_requires_grad, given)):
            return run(*given)
        outputs = given[len(self.inputs) :]
        for n, output in enumerate(outputs):
            if _requires_grad(output) and (output.is_leaf or output._is_view() and output._base.is_leaf):
                kind = "leaf" if output.is_leaf else "view of a leaf"
                name = self.table[self.outputs[n]]["name"]
                raise RuntimeError(f"{name}: a {kind} Variable that requires grad is being used in an in-place operation.")
        if any(output is not None for output in outputs):
            raise RuntimeError(f"fla_cpp: {self.name} with gradients: expected no outputs of the caller's")
        if not self.backward:
            why = f"{self.name} has no backward; call it under torch.no_grad()"
            if self.name.endswith("_backward"):
                why = f"{self.name.removesuffix('_backward')} has no second derivatives"
            return _WithoutBackward.apply(why, run, *given)
        values = self.values(given)
        if any(row["names_slots"] and value is not None for row, value in zip(self.table, values)):
            why = f"{self.name} has no backward with a pool of states; call it under torch.no_grad()"
            return _WithoutBackward.apply(why, run, *given)
        return _WithBackward.apply(self, run, *given)

    def gradients(self, given, wanted, upstream):
        """Those of the inputs that are wanted, None for the others."""
        backward = _entries[self.backward]
        named = {row["name"]: value for row, value in zip(self.table, self.values(given))}
        o, state = upstream
        v = named["v"]
        named["do"] = v.new_zeros(v.shape) if o is None else o
        named["dht"] = state
        rows = [backward.table[i] for i in backward.inputs]
        inputs = [named[row["name"]] if row["kind"] != "flag" else bool(named[row["name"]]) for row in rows]
        names = [backward.table[output]["name"][1:] for output in backward.outputs]
        is_wanted = {self.table[i]["name"]: each for i, each in zip(self.inputs, wanted)}
        if all(is_wanted.get(name) or named[name] is None for name in names):
            found = backward.op(*inputs)
        else:  # what is given memory is all that is computed
            found = [torch.empty_like(named[name]) if is_wanted.get(name) else None for name in names]
            backward.op_out(*inputs, *found)
        found = dict(zip(names, found))
        return tuple(
            found[self.table[i]["name"]].reshape(value.shape) if each else None
            for i, value, each in zip(self.inputs, given, wanted)
        )

    def autocast(self, op, device, *given):
        """With queries, keys, values and the low-rank pair in autocast's dtype; gates and states as they are."""
        dtype = torch.get_autocast_dtype(device)
        names = [self.table[i]["name"] for i in self.inputs]
        values = [x.to(dtype) if name in _AUTOCAST and x is not None else x for name, x in zip(names, given)]
        with torch.autocast(device, enabled=False):
            return op(*values, *given[len(names) :])

    def count_writes(self, op, keys, *given):
        for output in given[len(self.inputs) :]:
            if output is not None:
                torch.autograd.graph.increment_version(output)
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return op.redispatch(keys & torch._C._after_ADInplaceOrView_keyset, *given)

    def define(self):
        self.op = self._define(self.name, with_outputs=False)
        self.op_out = self._define(f"{self.name}_out", with_outputs=True)
        _library.impl(f"{self.name}_out", partial(self.count_writes, self.op_out), "ADInplaceOrView", with_keyset=True)

    def _define(self, name, with_outputs):
        _library.define(self.schema(name, with_outputs))
        op = getattr(torch.ops.fla_cpp, name).default
        for device in ("CPU", "CUDA"):
            _library.impl(name, self.run, device)
        torch.library.register_fake(f"fla_cpp::{name}", self.fake, lib=_library)
        _library.impl(name, partial(self.differentiate, op), "Autograd", with_keyset=True)
        if self.backward:
            for device in ("CPU", "CUDA"):
                _library.impl(name, partial(self.autocast, op, device.lower()), f"Autocast{device}")
        return op


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
    else:
        results = entry.op_out(*inputs, *outputs)
    if len(entry.results) == 1:
        results = (results,)
    return tuple(
        values[output] if values[output] is not None else (result if entry.is_asked_for(values, n) else None)
        for n, ((output, *_), result) in enumerate(zip(entry.results, results or ()))
    )


_signatures._tracing = is_compiling  # from now on it costs no look at sys.modules
