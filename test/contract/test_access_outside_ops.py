"""Python's ways to tensors that are no ops, or more than one: right while everything was paged out just before."""

import copy
import io
import pickle
import tempfile

import pytest
import torch
from training import SHORT, evict, make_model, train

import tensorpager
from tensorpager import _core

pytestmark = pytest.mark.forked

COUNT = 20_000


def ramp():
    return torch.arange(COUNT, dtype=torch.float32)


def square():
    return torch.arange(22_500, dtype=torch.float32).reshape(150, 150).remainder(17)


READS = {
    "tolist": lambda t: t.tolist(),
    "item": lambda t: t[COUNT // 2].item(),
    "float": lambda t: float(t[-1]),
    "iteration": lambda t: [float(x) for x in t[:100]],
    "print": repr,
    "format": lambda t: f"{t[7]:.3f} {t[:3]}",
    "storage_item": lambda t: t.untyped_storage()[4 * 5 + 2],
    "storage_tolist": lambda t: t[:4200].clone().untyped_storage().tolist(),
    "typed_storage": lambda t: t.storage()[9],
    "bytes_of_storage": lambda t: bytes(t[:4200].clone().untyped_storage()),
    "contains": lambda t: (3.0 in t, -3.0 in t),
    "truth": lambda t: bool(t[1]),
    "index": lambda t: list(range(COUNT))[t[5].long()],
    "equal": lambda t: torch.equal(t, t.flip(0)),
    "deepcopy": lambda t: copy.deepcopy(t).tolist(),
    "pickle": lambda t: pickle.loads(pickle.dumps(t)).tolist(),
    "half": lambda t: t.half().double().tolist(),
    "nonzero": lambda t: t.nonzero().tolist(),
    "lazy_clone": lambda t: (torch._lazy_clone(t).tolist(), torch._lazy_clone(t).add_(1).tolist(), t.tolist()),
    "stft": lambda t: torch.stft(t, 64, window=torch.hann_window(64), return_complex=True).abs().sum().item(),
    "as_tensor": lambda t: torch.as_tensor([t[3], t[4]]).tolist(),
    "tensor_index": lambda t: t[torch.arange(0, COUNT, 5)].tolist(),
    "boolean_index": lambda t: t[t > 19_000].tolist(),
    "tensor_split": lambda t: [part.tolist() for part in t.tensor_split(torch.arange(0, COUNT, 5))],
    "repeat_interleave": lambda t: t[:4100].repeat_interleave(torch.arange(4100).remainder(3)).tolist(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_read_of_evicted_tensor_is_right(spill, read):
    expected = read(ramp())
    tensorpager.enable(budget=SHORT, spill=spill)
    tensor = ramp()
    evict()
    result = read(tensor)
    assert result == expected
    assert tensorpager.stats()["page_ins"] > 0


def resized(t):
    t.resize_(2 * COUNT)[COUNT:] = 1
    _core.page_out_all()
    return t.resize_(COUNT + 5)


def set_to_another(t):
    other = ramp() * 2
    _core.page_out_all()
    t.set_(other)
    _core.page_out_all()
    return t.add_(1)


def set_to_a_storage(t):
    other = torch.empty(0)
    return other.set_(t.untyped_storage(), 100, (50, 20), (20, 1)).add_(1)


def data_replaced(t):
    t.data = ramp() * 3
    _core.page_out_all()
    return t


def swapped(t):
    other = ramp() * 4
    _core.page_out_all()
    torch.utils.swap_tensors(t, other)
    return torch.stack([t, other])


def shared(t):
    t.share_memory_()
    _core.page_out_all()
    return t.add_(1)


def storage_resized(t):
    t.untyped_storage().resize_(8 * COUNT)
    _core.page_out_all()
    return torch.empty(0).set_(t.untyped_storage(), 0, (COUNT,), (1,)) + 1


def storage_copied(t):
    t.untyped_storage().copy_((ramp() * 5).untyped_storage())
    return t


def storage_filled(t):
    t.untyped_storage().fill_(0)
    t.untyped_storage()[3] = 66
    return t


def storage_byteswapped(t):
    t.untyped_storage().byteswap(torch.float32)
    _core.page_out_all()
    t.untyped_storage().byteswap(torch.float32)
    t.untyped_storage()[:4].fill_(0)
    return t


def storage_shared(t):
    t.untyped_storage().share_memory_()
    _core.page_out_all()
    return t.mul_(2)


def filled_from_a_file(t):
    with tempfile.NamedTemporaryFile() as file:
        t.untyped_storage()._write_file(file, True, False, 1)
        file.flush()
        _core.page_out_all()
        mapped = torch.from_file(file.name, size=COUNT)
        storage = torch.UntypedStorage.from_file(file.name, False, 4 * COUNT)
        return t + mapped + torch.empty(0).set_(storage, 0, (COUNT,), (1,))


CHANGES = [
    resized,
    set_to_another,
    set_to_a_storage,
    data_replaced,
    swapped,
    shared,
    storage_resized,
    storage_copied,
    storage_filled,
    storage_byteswapped,
    storage_shared,
    filled_from_a_file,
    torch.Tensor.half,
    torch.Tensor.double,
    lambda t: t.untyped_storage().clone() and t.clone(),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_change_of_evicted_tensor_is_right(spill, change):
    expected = change(ramp()).tolist()
    tensorpager.enable(budget=SHORT, spill=spill)
    tensor = ramp()
    evict()
    result = change(tensor)
    _core.page_out_all()
    assert result.tolist() == expected


WORK = {
    "vmap": lambda t: torch.vmap(lambda row: row.cumsum(0))(t),
    "grad": lambda t: torch.func.grad(lambda x: (x * x).sum())(t),
    "vmap_of_grad": lambda t: torch.vmap(torch.func.grad(lambda row: (row.sin() * row).sum()))(t),
    "jacobian": lambda t: torch.func.jacrev(torch.tanh)(t[0]),
    "jvp": lambda t: torch.func.jvp(torch.tanh, (t,), (t,))[1],
    "script": lambda t: torch.jit.script(_scripted)(t),
    "traced": lambda t: torch.jit.trace(_scripted, (torch.ones(2, 2),), check_trace=False)(t),
    "sparse_coo": lambda t: torch.sparse.mm(t.to_sparse(), t),
    "sparse_coo_parts": lambda t: t.to_sparse().coalesce().values() + t.to_sparse().coalesce().indices()[0],
    "sparse_csr": lambda t: t.to_sparse_csr() @ t,
    "sparse_csr_parts": lambda t: t.to_sparse_csr().to_dense().T,
    "complex": lambda t: torch.view_as_real(torch.fft.fft2(t)),
    "nested": lambda t: torch.nested.nested_tensor([t, t[:50]]).to_padded_tensor(0.0),
    "svd": lambda t: torch.linalg.svd(t)[1],
    "eigh": lambda t: torch.linalg.eigh(t + t.T)[0],
    "cholesky": lambda t: torch.linalg.cholesky(t @ t.T + 1e4 * torch.eye(150)),
    "inverse": lambda t: torch.linalg.inv(t + 100 * torch.eye(150)),
    "qr": lambda t: torch.linalg.qr(t)[1],
    "solve": lambda t: torch.linalg.solve(t + 100 * torch.eye(150), t),
    "lstsq": lambda t: torch.linalg.lstsq(t + 100 * torch.eye(150), t).solution,
    "lu": lambda t: torch.linalg.lu_factor(t + 100 * torch.eye(150))[0],
    "eigvals": lambda t: torch.view_as_real(torch.linalg.eigvals(t)).sort(0)[0],
}


def _scripted(x: torch.Tensor):
    for _ in range(3):
        x = x.tanh() * x + 1
    return x


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_work_on_evicted_tensors_has_the_bits_of_a_run_without_it(spill, work):
    tensorpager.enable(budget="1GiB", spill=spill)  # in both runs, because some of LAPACK's bits depend on alignment
    matrix = square()
    expected = work(matrix)
    evict()
    page_ins = tensorpager.stats()["page_ins"]
    result = work(matrix)
    assert torch.equal(result, expected)
    assert tensorpager.stats()["page_ins"] > page_ins


@pytest.mark.parametrize(
    ("zip_format", "mmap"), [(True, False), (True, True), (False, False)], ids=["zip", "mapped", "legacy"]
)
def test_checkpoint_saved_and_loaded_under_eviction_is_whole(spill, tmp_path, zip_format, mmap):
    expected = {name: value.clone() for name, value in make_model().state_dict().items()}
    tensorpager.enable(budget=SHORT, spill=spill)
    model = make_model()
    evict()
    torch.save(model.state_dict(), tmp_path / "model.pt", _use_new_zipfile_serialization=zip_format)
    evict()
    loaded = torch.load(tmp_path / "model.pt", mmap=mmap)
    _core.page_out_all()
    assert all(torch.equal(loaded[name], value) for name, value in expected.items())
    other = make_model(seed=1)
    evict()
    other.load_state_dict(loaded)
    _core.page_out_all()
    assert all(torch.equal(value, expected[name]) for name, value in other.state_dict().items())


def test_checkpoint_is_saved_without_reading_its_bytes_for_a_checksum(spill, tmp_path):
    tensorpager.enable(budget=SHORT, spill=spill)
    tensors = [torch.full((200, 256), float(value)) for value in range(10)]
    torch.serialization.set_crc32_options(False)
    evict()
    torch.save(tensors, tmp_path / "tensors.pt")
    assert [tensor.mean().item() for tensor in torch.load(tmp_path / "tensors.pt")] == [*range(10)]


def test_checkpoint_goes_through_a_buffer_and_a_whole_optimizer(spill):
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer=optimizer)
    expected = train(model, seed=1, optimizer=optimizer)

    tensorpager.enable(budget=SHORT, spill=spill)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer=optimizer)
    buffer = io.BytesIO()
    evict()
    torch.save([model, optimizer.state_dict()], buffer)
    buffer.seek(0)
    del model, optimizer
    model, state = torch.load(buffer, weights_only=False)
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.load_state_dict(state)
    evict()
    assert train(model, seed=1, optimizer=optimizer) == expected


def test_random_state_is_got_and_set_under_eviction(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    generator = torch.Generator().manual_seed(3)
    padding = torch.zeros(COUNT)
    states = [torch.get_rng_state(), generator.get_state()]
    first = [torch.rand(COUNT), torch.rand(COUNT, generator=generator)]
    del padding
    evict()
    torch.set_rng_state(states[0])
    generator.set_state(states[1])
    evict()
    assert torch.equal(torch.rand(COUNT), first[0])
    assert torch.equal(torch.rand(COUNT, generator=generator), first[1])
    evict()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        torch.rand(COUNT)
