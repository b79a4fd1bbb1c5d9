"""What is saved while everything is paged out is, byte for byte, the file that the program writes without a session."""

import copy
import io
import pickle

import bits
import pytest
import safetensors.torch
import torch
from torch import nn
from training import train

pytestmark = pytest.mark.forked


class Tied(nn.Module):
    """Two names for one weight, a view of another storage, a large buffer, and parameters too small to be paged out."""

    def __init__(self, width=128):
        super().__init__()
        self.embedding = nn.Embedding(width, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.head = nn.Linear(width, width, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("table", torch.randn(4 * width, width))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return self.head(x + self.table[: len(x)])


def trained():
    model = Tied()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train(model, optimizer=optimizer)
    return model, optimizer


def save_safetensors(model, optimizer, path):
    # Tied weights are refused as such, so they are saved once.
    safetensors.torch.save_file({k: v for k, v in model.state_dict().items() if k != "head.weight"}, path)


def save_to_bytes(model, optimizer, path):
    path.write_bytes(safetensors.torch.save({k: v.clone() for k, v in model.state_dict().items()}))


SAVES = {
    "torch": lambda model, optimizer, path: torch.save(model.state_dict(), path),
    "torch, module and optimizer": lambda model, optimizer, path: torch.save([model, optimizer.state_dict()], path),
    "torch, views": lambda model, optimizer, path: torch.save([model.table[3:7], model.table.T, model.table], path),
    "safetensors.save_file": save_safetensors,
    "safetensors.save_model": lambda model, optimizer, path: safetensors.torch.save_model(model, str(path)),
    "safetensors.save": save_to_bytes,
}


ALL_AT_ONCE = [pytest.mark.stable("it takes the addresses of all tensors, so the model must fit")]


@pytest.mark.parametrize(
    "save_name",
    [pytest.param(name, marks=ALL_AT_ONCE if name.startswith("safetensors.save_") else []) for name in SAVES],
)
def test_file_is_the_one_that_an_unpaged_program_writes(spill, tmp_path, save_name):
    def piece(evict):
        model, optimizer = trained()
        path = tmp_path / "model.file"
        evict()
        SAVES[save_name](model, optimizer, path)
        return path.read_bytes()

    bits.check(piece, spill, outside_ops="safetensors" in save_name)


def through_bytes(value, evict, legacy=False):
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=not legacy)
    evict()
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


# Files of these hold addresses of C++ objects, which differ between any two processes, so what is read from them is compared.
COPIES = {
    "legacy": lambda value, evict: through_bytes(value, evict, legacy=True),
    "zip": through_bytes,
    "pickle": lambda value, evict: pickle.loads(pickle.dumps(value)),
    "oldest pickle": lambda value, evict: pickle.loads(pickle.dumps(value, protocol=2)),
    "deepcopy": lambda value, evict: copy.deepcopy(value),
}


@pytest.mark.parametrize("make_copy", COPIES.values(), ids=COPIES)
def test_copy_of_a_module_and_its_optimizer_trains_on_as_the_original_would(spill, make_copy):
    def piece(evict):
        original = trained()
        evict()
        model, optimizer = make_copy(original, evict)
        evict()
        assert model.head.weight is model.embedding.weight
        del original
        return train(model, seed=1, optimizer=optimizer), model, optimizer

    bits.check(piece, spill)


def loads(path):
    yield torch.load(path)
    yield torch.load(path, mmap=True)
    yield torch.load(path, map_location="cpu", weights_only=False)
    with torch.serialization.skip_data():
        yield {name: value.shape for name, value in torch.load(path).items()}


def test_state_is_loaded_in_each_way_under_pressure(spill, tmp_path):
    def piece(evict):
        model, _ = trained()
        evict()
        torch.save(model.state_dict(), tmp_path / "model.pt")
        evict()
        return [evict() or loaded for loaded in loads(tmp_path / "model.pt")]

    bits.check(piece, spill)


@pytest.mark.parametrize("mmap", [False, True], ids=["read", "mapped"])
@pytest.mark.parametrize("assign", [False, True], ids=["copied", "assigned"])
def test_model_with_a_loaded_state_trains_to_the_same_bits(spill, tmp_path, assign, mmap):
    def piece(evict):
        model, optimizer = trained()
        torch.save([model.state_dict(), optimizer.state_dict()], tmp_path / "both.pt")
        other = Tied()
        evict()
        weights, state = torch.load(tmp_path / "both.pt", mmap=mmap)
        evict()
        other.load_state_dict(weights, assign=assign)
        other.head.weight = other.embedding.weight  # assigning has untied them
        optimizer = torch.optim.AdamW(other.parameters(), lr=1e-3)
        optimizer.load_state_dict(state)
        evict()
        losses = train(other, seed=1, optimizer=optimizer)
        evict()
        return losses + train(other, seed=2, optimizer=optimizer), other, optimizer, model

    bits.check(piece, spill)


def test_safetensors_are_loaded_under_pressure(spill, tmp_path):
    def piece(evict):
        model, _ = trained()
        path = str(tmp_path / "model.safetensors")
        safetensors.torch.save_model(model, path)
        whole = safetensors.torch.load_file(path)
        evict()
        other = Tied()
        safetensors.torch.load_model(other, path)
        evict()
        with safetensors.safe_open(path, "pt") as file:
            parts = [file.get_tensor("table"), file.get_slice("table")[5:9]]
        evict()
        return whole, other, parts, safetensors.torch.load(open(path, "rb").read())

    bits.check(piece, spill, outside_ops=True)  # safetensors reads raw addresses
