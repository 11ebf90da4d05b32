"""Sequences over four ranks that share a GPU, on gloo: each rank's part of a long call, forward and backward, is held to a call
that is not cut."""

import fla_cpp
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("torch was built without gloo", allow_module_level=True)
if fla_cpp.why_no_cuda_device():
    pytest.skip(f"there is no GPU: {fla_cpp.why_no_cuda_device()}", allow_module_level=True)
if not torch.cuda.is_available():
    pytest.skip("this torch sees no GPU", allow_module_level=True)

from fla_cpp.ops.cp import build_cp_context  # noqa: E402

RANKS, TOKENS, H, K = 4, 8192, 12, 128
# Of calls with bf16 inputs, as the C++ tests have them: two such calls beside each other.
OF_OUTPUTS, OF_GRADIENTS = 1e-2, 2e-2


def inputs(op):
    """Of all ranks, bf16 leaves on the GPU. Gates and betas are so slow that a rank's outputs hang on the tokens of all before."""
    torch.manual_seed(1)
    T = RANKS * TOKENS
    keys = {name: torch.nn.functional.normalize(torch.randn(1, T, H, K, device="cuda"), dim=-1) for name in "qk"}
    call = keys | {"v": torch.randn(1, T, H, K, device="cuda")}
    call["g"] = -2e-5 * torch.rand(1, T, H, *(() if op == "gated_delta_rule" else (K,)), device="cuda")
    if op != "gla":
        call["beta"] = 0.01 * torch.rand(1, T, H, device="cuda")
    leaves = {name: x if name in ("g", "beta") else x.bfloat16() for name, x in call.items()}
    return {name: x.requires_grad_() for name, x in leaves.items()}


def error(found, expected):
    return ((found.double() - expected.double()).norm() / expected.double().norm()).item()


def on_a_rank(rank, store, op):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    try:
        function = getattr(fla_cpp, f"chunk_{op}")
        whole = inputs(op)
        upstream = torch.randn(1, RANKS * TOKENS, H, K, device="cuda").bfloat16()
        o, final = function(**whole, output_final_state=True)
        (o * upstream).sum().backward()

        context = build_cp_context(torch.tensor([0, RANKS * TOKENS]))
        mine = slice(rank * TOKENS, (rank + 1) * TOKENS)
        local = {name: x.detach()[:, mine].clone().requires_grad_() for name, x in whole.items()}
        found, last = function(**local, output_final_state=True, cp_context=context)
        assert error(found, o[:, mine]) < OF_OUTPUTS
        (found * upstream[:, mine]).sum().backward()
        for name, x in whole.items():
            assert error(local[name].grad, x.grad[:, mine]) < OF_GRADIENTS, name
        if rank == RANKS - 1:
            assert error(last, final) < OF_OUTPUTS
        alone, _ = function(**{name: x.detach() for name, x in local.items()})
        assert rank == 0 or error(alone, o[:, mine]) > 10 * OF_OUTPUTS  # the others' tokens matter
        assert context.bytes_sent == 2 * H * K * (K + (1 if op == "gla" else K)) * 4  # a summary each way
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("op", ["kda", "gated_delta_rule", "gla"])
def test_four_ranks_on_one_gpu_agree_with_one(op, tmp_path):
    processes.spawn(on_a_rank, (tmp_path / "store", op), nprocs=RANKS)
