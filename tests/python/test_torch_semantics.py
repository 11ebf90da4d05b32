"""What torch promises of its tensors holds for the calls, too: bits that change how memory is read, counts of writes,
derivatives that are not dropped."""

import fla_cpp
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from test_torch import random_call
from torch.autograd import forward_ad

LEAF = "a leaf Variable that requires grad is being used in an in-place operation"


def by_op(*call, out=None, final_state=None, **options):
    """The call through torch's dispatcher, with the results that fla_cpp.kda has."""
    if out is None and final_state is None:
        return torch.ops.fla_cpp.kda(*call, **options)
    results = torch.ops.fla_cpp.kda_out(*call, **options, out=out, final_state=final_state)
    return tuple(given if given is not None else made for given, made in zip((out, final_state), results))


def compiled(*call, **options):
    """Traced and functionalised."""
    torch._dynamo.reset()
    return torch.compile(fla_cpp.kda, fullgraph=True, backend="aot_eager")(*call, **options)


every_way = pytest.mark.parametrize("kda", [fla_cpp.kda, by_op, compiled], ids=["direct", "op", "compiled"])


def imaginary(x):
    """x as the imaginary part of a conjugate: its memory holds -x."""
    return torch.complex(torch.zeros_like(x), -x).conj().imag


def negated_twice(x):
    return torch._neg_view(-x)


negatives = pytest.mark.parametrize("negative", [imaginary, negated_twice])


# ---- the negative and the conjugate bit


@every_way
@negatives
def test_the_negative_bit_is_resolved(kda, negative):
    call = random_call()
    expected = fla_cpp.kda(*call, output_final_state=True)
    for n, x in enumerate(call):
        with_bit = [*call[:n], negative(x), *call[n + 1 :]]
        assert with_bit[n].is_neg() and torch.equal(with_bit[n], x)
        for result, wanted in zip(kda(*with_bit, output_final_state=True), expected):
            assert torch.equal(result, wanted)


@every_way
def test_the_negative_bit_is_resolved_where_results_go_into_the_callers_memory(kda):
    q, *rest = random_call()
    out = torch.zeros(1, 20, 2, 16)
    kda(imaginary(q), *rest, out=out)
    assert torch.equal(out, fla_cpp.kda(q, *rest)[0])


def test_the_negative_bit_is_resolved_in_every_argument_at_once():
    call, state = random_call(), torch.randn(1, 2, 16, 16)
    results = fla_cpp.kda(*map(imaginary, call), initial_state=imaginary(state), output_final_state=True)
    for result, wanted in zip(results, fla_cpp.kda(*call, initial_state=state, output_final_state=True)):
        assert torch.equal(result, wanted)


def test_the_negative_bit_of_a_single_number_is_resolved():
    call = random_call(T=1, H=1)
    with_bit = [*call[:4], imaginary(call[4])]
    assert with_bit[4].is_neg() and with_bit[4].numel() == 1
    assert torch.equal(fla_cpp.kda(*with_bit)[0], fla_cpp.kda(*call)[0])


def test_the_negative_bit_is_resolved_in_inference_mode():
    call = random_call()
    with torch.inference_mode():
        assert torch.equal(fla_cpp.kda(*map(imaginary, call))[0], fla_cpp.kda(*call)[0])


@negatives
def test_an_output_with_the_negative_bit_is_refused(negative):
    out = negative(torch.zeros(1, 20, 2, 16))
    with pytest.raises(ValueError, match="out: expected memory that is read as it is, got a tensor with .* negative bit"):
        fla_cpp.kda(*random_call(), out=out)
    assert not out.any()


def test_conjugates_are_complex_and_refused():
    q, *rest = random_call()
    with pytest.raises(ValueError, match="q: expected dtype bf16 or f16 or f32, got complex64"):
        fla_cpp.kda(torch.complex(q, q).conj(), *rest)


# ---- writes into the caller's tensors


@every_way
def test_writes_are_counted(kda):
    out, state = torch.zeros(1, 20, 2, 16), torch.zeros(1, 2, 16, 16)
    before = out._version, state._version
    kda(*random_call(), out=out, final_state=state)
    assert out._version > before[0] and state._version > before[1]


@every_way
def test_a_backward_that_needs_what_was_overwritten_raises(kda):
    weight = torch.ones(1, 2, 16, 16, requires_grad=True)
    state = torch.zeros(1, 2, 16, 16)
    product = (weight * state).sum()
    kda(*random_call(), initial_state=state, final_state=state)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


@every_way
@pytest.mark.parametrize("name", ["out", "final_state"])
def test_a_leaf_that_requires_grad_is_not_overwritten(kda, name):
    shape = {"out": (1, 20, 2, 16), "final_state": (1, 2, 16, 16)}[name]
    leaf = torch.zeros(shape, requires_grad=True)
    with pytest.raises(Exception, match=LEAF):
        kda(*random_call(), **{name: leaf})
    assert not leaf.any() and leaf._version == 0


@every_way
def test_a_leaf_may_be_overwritten_without_gradients(kda):
    call = random_call()
    leaf = torch.zeros(1, 20, 2, 16, requires_grad=True)
    with torch.no_grad():
        kda(*call, out=leaf)
        assert torch.equal(leaf, fla_cpp.kda(*call)[0])
    assert leaf.requires_grad and leaf._version > 0


@pytest.mark.parametrize("kda", [fla_cpp.kda, by_op], ids=["direct", "op"])
def test_a_view_of_a_leaf_is_not_overwritten(kda):
    leaf = torch.zeros(2, 20, 2, 16, requires_grad=True)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"):
        kda(*random_call(), out=leaf[:1])
    assert not leaf.any()


@pytest.mark.parametrize("kda", [fla_cpp.kda, by_op], ids=["direct", "op"])
def test_a_result_with_a_history_is_not_overwritten(kda):
    out = torch.zeros(1, 20, 2, 16, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="kda with gradients: expected no outputs of the caller's"):
        kda(*random_call(), out=out)
    assert not out.any()


# ---- derivatives


@every_way
def test_a_tangent_is_not_dropped(kda):
    q, *rest = random_call()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(q, torch.ones_like(q))
        with pytest.raises(Exception, match="kda has no forward-mode derivative; expected no tangents"):
            kda(dual, *rest)
        with pytest.raises(Exception, match="kda has no forward-mode derivative; expected no tangents"):
            kda(dual, *rest, out=torch.zeros(1, 20, 2, 16))


@pytest.mark.parametrize("kda", [fla_cpp.kda, by_op], ids=["direct", "op"])
def test_a_tangent_of_a_transform_is_not_dropped(kda):
    q, *rest = random_call()
    with pytest.raises(NotImplementedError, match="kda has no forward-mode derivative"):
        torch.func.jvp(lambda q: kda(q, *rest)[0], (q,), (torch.ones_like(q),))


@pytest.mark.parametrize("kda", [fla_cpp.kda, by_op], ids=["direct", "op"])
def test_tensors_without_tangents_are_taken_where_others_have_them(kda):
    call = random_call()
    expected = fla_cpp.kda(*call)[0]
    with forward_ad.dual_level():
        assert torch.equal(kda(*call)[0], expected)


@pytest.mark.parametrize("kda", [fla_cpp.kda, by_op], ids=["direct", "op"])
def test_a_gradient_is_not_dropped(kda):
    q, *rest = random_call()
    kda(q.requires_grad_(), *rest)[0].sum().backward()
    assert q.grad.any()
