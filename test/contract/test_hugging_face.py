"""transformers saves a model while everything is paged out: tied weights stay tied, and each file is the one of an unpaged program."""

import bits
import pytest
import torch

pytestmark = pytest.mark.forked


@pytest.fixture(scope="module", autouse=True)
def transformers():
    """Imported before the tests fork: it takes seconds."""
    import transformers

    assert transformers.GPT2LMHeadModel and transformers.Trainer  # loaded when they are first asked for


def make_model():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=400, n_positions=64, n_embd=96, n_layer=2, n_head=2))


def trained():
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        batch = torch.randint(400, (4, 32))
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("options", [{}, {"max_shard_size": "200KB"}], ids=["one file", "shards"])
def test_saved_model_has_the_files_of_an_unpaged_program_and_loads_to_the_same_bits(spill, tmp_path, options):
    def piece(evict):
        model = trained()
        evict()
        model.save_pretrained(tmp_path / "model", **options)
        written = files(tmp_path / "model")
        assert len(written) > 3 if options else len(written) in (2, 3)
        evict()
        loaded = type(model).from_pretrained(tmp_path / "model")
        evict()
        assert loaded.lm_head.weight is loaded.transformer.wte.weight
        return written, loaded, model, loaded.eval()(torch.arange(30)[None]).logits

    bits.check(piece, spill, outside_ops=True)  # safetensors reads raw addresses


def test_state_of_a_half_precision_copy_is_saved_whole(spill, tmp_path):
    def piece(evict):
        model = trained().to(torch.bfloat16)
        evict()
        model.save_pretrained(tmp_path / "half")
        evict()
        model.resize_token_embeddings(450)
        model.save_pretrained(tmp_path / "grown")
        return files(tmp_path / "half"), files(tmp_path / "grown")

    bits.check(piece, spill, outside_ops=True)
