"""Ops that only CUDA has kernels for: each against the same arithmetic on the CPU, and the same bits in every schedule."""

import pytest
from cuda_only_ops_programs import PROGRAMS
from emulated import run_emulated
from marks import needs_emulated_card, slow

pytestmark = needs_emulated_card
QUICK, SLOW = ["threads", "1"], ["2", "3"]  # schedules
# Ops with a kernel for CUDA and none for the CPU that are refused by name: none of them is part of ordinary training.
REFUSED = (
    "miopen_", "_cslt_", "_sparse_semi_structured_", "_to_sparse_semi_structured", "_triton_", "_scaled_mm_v2",
    "_scaled_grouped_mm", "_convert_weight_to_int4pack", "_weight_int4pack_mm", "_mixed_dtypes_linear",
    "_cudnn_attention_", "_fill_mem_eff_dropout_mask_", "_flash_attention_forward.quantized",
    "_scaled_dot_product_flash_attention.quantized", "_conv_depthwise2d.out", "cudnn_batch_norm.out",
    "cudnn_convolution.out", "_flash_attention_forward_no_dropout_inplace", "_scaled_addmm.out",
)  # fmt: skip


def run(schedule):
    return run_emulated("cuda_only_ops_programs.py", schedule=schedule)


@pytest.fixture(scope="module")
def at_once():
    return run("now")


@pytest.mark.parametrize("program", PROGRAMS)
def test_computes_what_the_cpu_computes(at_once, program):
    assert "failed" not in at_once["programs"][program], at_once["programs"][program]


@pytest.mark.parametrize("schedule", [*QUICK, *map(slow, SLOW)])
def test_has_the_same_bits_in_every_schedule(at_once, schedule):
    late = run(schedule)
    assert late["programs"] == at_once["programs"]
    assert late["report"]["races"] == 0, late["report"]["first_race"]


def test_no_kernel_is_launched_past_the_emulation(at_once):
    assert at_once["report"]["launches_refused"] == 0
    assert at_once["report"]["kernels"] > len(PROGRAMS)


def test_what_is_refused_is_no_part_of_ordinary_training(at_once):
    names = [op.removeprefix("aten::") for op in at_once["unmapped"] if op.startswith("aten::")]
    assert [name for name in names if not name.startswith(REFUSED)] == []
