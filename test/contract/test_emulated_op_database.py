"""Torch's own database of ops on the emulated card: the CPU's bits but where the tables say why not, and the same bits in another schedule."""

import pytest
from emulated import run_emulated
from marks import needs_emulated_card

pytestmark = [
    pytest.mark.slow,
    needs_emulated_card,
]
SECONDS = 300

# The device's generator draws other numbers than the CPU's, on a card too.
RANDOM = {
    "bernoulli",
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout.with_train",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention",
    "normal",
    "normal.in_place",
    "normal.number_mean",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "uniform",
}
# Their results are not written.
UNWRITTEN = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
# MKL's and LAPACK's last bits depend on where in memory its buffers lie, which for these ops is not the same in two runs.
NOT_REPEATABLE = {"fft.rfftn", "linalg.eig", "linalg.lstsq", "linalg.lstsq.grad_oriented", "linalg.svdvals"}
# Largest difference from the CPU for other reasons, by type.
DIFFERENT = {
    "float32": {
        # torch's formulas for CUDA: the gradient is computed by another one, or in float32 where the CPU's is in float64.
        "nn.functional.batch_norm": 1e-6,
        "nn.functional.instance_norm": 1e-6,
        "nn.functional.rms_norm": 1e-6,
        "renorm": 1e-6,
        # They draw a random matrix.
        "pca_lowrank": 1e-3,
        "svd_lowrank": 1e-2,
        # MKL and LAPACK, as above.
        "fft.rfftn": 1e-6,
        "linalg.eig": 1e-5,
        "linalg.lstsq": 1e-3,
        "linalg.lstsq.grad_oriented": 1e-3,
        "linalg.svdvals": 1e-6,
    },
    "bfloat16": {
        "nn.functional.rms_norm": 1e-2,  # as for float32
        # CUDA keeps their statistics in float32, the CPU in bfloat16: the types differ.
        "_batch_norm_with_update": float("inf"),
        "native_batch_norm": float("inf"),
        "native_layer_norm": float("inf"),
    },
}
# torch has no kernel of CUDA for them, or wants an argument on the CPU that the test puts on the device.
ERRORS = {
    "float32": {"histogram", "histogramdd", "sparse.mm.reduce", "sparse.sampled_addmm", "tensor_split"},
    "bfloat16": {"sparse.mm.reduce", "tensor_split"},
}


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def database(request):
    """The type, and what was found where kernels run at once."""
    found = run_emulated("emulated_op_database.py", request.param, schedule="now", seconds=SECONDS)
    assert len(found["digests"]) > 500
    return request.param, found


def test_ops_give_the_bits_of_the_cpu(database):
    dtype, found = database
    unexplained = {
        op: difference
        for op, difference in found["differ"].items()
        if op not in RANDOM | UNWRITTEN and difference > DIFFERENT[dtype].get(op, 0)
    }
    assert unexplained == {}


def test_tables_name_no_op_that_is_the_same(database):
    dtype, found = database
    same = found["digests"].keys() - found["differ"].keys()
    may_be_same = UNWRITTEN | NOT_REPEATABLE
    assert (RANDOM | DIFFERENT[dtype].keys()) & same - may_be_same == set()


def test_errors_are_those_of_a_card(database):
    dtype, found = database
    assert found["errors"].keys() == ERRORS[dtype]


def test_no_kernel_is_launched_and_none_races(database):
    report = database[1]["report"]
    assert (report["launches_refused"], report["races"]) == (0, 0)


def test_a_late_schedule_gives_the_same_bits(database):
    dtype, found = database
    late = run_emulated("emulated_op_database.py", dtype, schedule="1", seconds=SECONDS)
    different = {op for op in found["digests"] if found["digests"][op] != late["digests"].get(op)}
    assert different <= UNWRITTEN | NOT_REPEATABLE
    assert (late["report"]["launches_refused"], late["report"]["races"]) == (0, 0)


def test_random_evictions_change_no_bits(database):
    dtype, found = database
    variables = {
        "TENSORPAGER_TRACE_SMALLEST": "1",
        "TENSORPAGER_FUZZ_EVICTIONS": "20",
        "CUBLAS_WORKSPACE_CONFIG": ":16:8",
    }
    paged = run_emulated("emulated_op_database.py", dtype, 1, schedule="1", seconds=2 * SECONDS, **variables)
    different = {op for op in found["digests"] if found["digests"][op] != paged["digests"].get(op)}
    assert different <= UNWRITTEN | NOT_REPEATABLE
    assert paged["errors"].keys() == ERRORS[dtype]
    assert (paged["report"]["launches_refused"], paged["report"]["races"]) == (0, 0)
    assert paged["stats"]["device"] == "cuda" and paged["stats"]["fuzz_page_outs"] > 10_000
