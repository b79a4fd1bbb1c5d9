"""Programs for test_emulation.py. `emulation_programs.py [NAME ...]` runs them on the emulated card, and those that draw no random numbers on
the device also on the CPU; it prints their results as one line of JSON.
"""

import json
import sys
import threading
import time

import torch
import torch.nn.functional as F
from emulated import Emulation
from emulation_models import Gpt, Translator, convolutional, digest, train
from torch import nn

EITHER_DEVICE, DEVICE_ONLY = {}, {}


def either_device(program):
    EITHER_DEVICE[program.__name__] = program
    return program


def device_only(program):
    DEVICE_ONLY[program.__name__] = program
    return program


@either_device
def convolutional_sgd(device):
    return train(convolutional(), device, "sgd")


@either_device
def convolutional_sgd_foreach(device):
    return train(convolutional(), device, "sgd_foreach")


@either_device
def convolutional_autocast(device):
    return train(convolutional(), device, "sgd", autocast=True)


@either_device
def gpt_adamw(device):
    return train(Gpt(), device, "adamw")


@either_device
def gpt_adamw_foreach(device):
    return train(Gpt(), device, "adamw_foreach")


@either_device
def gpt_adamw_fused_autocast(device):
    return train(Gpt(), device, "adamw_fused", autocast=True)


@either_device
def gpt_checkpointed(device):
    return train(Gpt(checkpointed=True), device, "adamw_foreach")


@either_device
def gpt_in_bfloat16(device):
    return train(Gpt().bfloat16(), device, "adamw_foreach")


@either_device
def translator_lstm(device):
    with torch.backends.mkldnn.flags(enabled=False):  # oneDNN's LSTM sums in an order of its own
        return train(Translator(), device, "adamw_foreach")


@device_only
def gpt_dropout():
    return train(Gpt(dropout=0.1, checkpointed=True), "cuda", "adamw_foreach")


def fit(model, inputs, labels, optimizer=lambda parameters: torch.optim.AdamW(parameters, 1e-3)):
    stepper = optimizer(model.parameters())
    for _ in range(3):
        stepper.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        stepper.step()
    return digest(loss, *model.state_dict().values())


@device_only
def encoder_with_attention_dropout():
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
    model = nn.Sequential(layers, nn.Flatten(), nn.Linear(32 * 8, 5)).cuda()
    return fit(model, torch.randn(4, 8, 32, device="cuda"), torch.randint(0, 5, (4,), device="cuda"))


@device_only
def encoder_in_evaluation_with_a_padding_mask():
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).cuda().eval()
    words, padding = torch.randn(3, 7, 32), torch.arange(7) >= torch.tensor([[7], [4], [5]])
    with torch.no_grad():
        out = encoder(words.cuda(), src_key_padding_mask=padding.cuda())
        on_cpu = encoder.cpu()(words, src_key_padding_mask=padding)
    keep = ~padding
    assert torch.allclose(out.cpu()[keep], on_cpu[keep], atol=1e-5)
    return digest(out)


@device_only
def synchronized_batch_norm_over_gloo():
    import torch.distributed

    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        torch.manual_seed(3)
        model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.BatchNorm1d(16)).cuda()
        x = torch.randn(8, 16, device="cuda", requires_grad=True)
        model(x).square().sum().backward()
        return digest(x.grad, model.running_mean)
    finally:
        torch.distributed.destroy_process_group()


@device_only
def flash_attention_with_dropout():
    heads = [torch.randn(2, 4, 16, 32, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    y = F.scaled_dot_product_attention(*heads, dropout_p=0.2, is_causal=True)
    y.float().square().sum().backward()
    return digest(y, *(head.grad for head in heads))


@device_only
def gradient_scaler_with_an_overflow():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5)).cuda()
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
    labels = torch.arange(4, device="cuda")
    for step in range(4):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = F.cross_entropy(model(torch.randn(4, 3, 8, 8).cuda()), labels) * (1e30 if step == 1 else 1)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 32768.0  # halved once
    return digest(*model.state_dict().values())


@device_only
def packed_bidirectional_gru():
    model, x = nn.GRU(8, 16, 2, bidirectional=True).cuda(), torch.randn(7, 3, 8, device="cuda", requires_grad=True)
    y, hidden = model(nn.utils.rnn.pack_padded_sequence(x, torch.tensor([7, 5, 2])))
    y, _ = nn.utils.rnn.pad_packed_sequence(y)
    (y.sum() + hidden.square().sum()).backward()
    return digest(y, hidden, x.grad, *(parameter.grad for parameter in model.parameters()))


@device_only
def recurrent_cells():
    lstm, gru = nn.LSTMCell(8, 16).cuda(), nn.GRUCell(8, 16).cuda()
    x, hidden = torch.randn(3, 8, device="cuda"), torch.zeros(3, 16, device="cuda")
    cell, other = hidden.clone(), hidden.clone()
    for _ in range(4):
        hidden, cell = lstm(x, (hidden, cell))
        other = gru(x, other)
    (hidden.sum() + other.square().sum()).backward()
    return digest(hidden, other, *(p.grad for model in (lstm, gru) for p in model.parameters()))


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        return torch.full((2048,), float(i)), i % 5


@device_only
def loader_with_workers_and_pinned_memory():
    model, pinned = nn.Linear(2048, 5).cuda(), 0
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for x, y in torch.utils.data.DataLoader(Rows(), 4, num_workers=1, pin_memory=True):
        pinned += x.is_pinned()
        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert pinned == 4
    return digest(*model.parameters())


@device_only
def two_streams_forward_and_backward():
    first, second = nn.Linear(64, 64).cuda(), nn.Linear(64, 64).cuda()
    side, x = torch.cuda.Stream(), torch.randn(32, 64, device="cuda")
    for _ in range(3):
        h = first(x)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = second(h)
            h.record_stream(side)
        torch.cuda.current_stream().wait_stream(side)
        y.record_stream(torch.cuda.current_stream())
        (y.sum() + h.square().sum()).backward()
    torch.cuda.synchronize()
    return digest(*(p.grad for model in (first, second) for p in model.parameters()))


@device_only
def results_that_depend_on_data():
    x = torch.randn(100, device="cuda")
    assert x.tolist()[0] == x[0].item() and torch.equal(x, x) and bool((x > -100).all())
    return digest((x > 0).nonzero(), x[x > 0], torch.unique((x * 3).int()), x[torch.tensor([3, 5])])


@device_only
def random_numbers():
    state = torch.cuda.get_rng_state()
    drawn = torch.randn(5, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(drawn, torch.randn(5, device="cuda"))
    generator = torch.Generator("cuda").manual_seed(3)
    drawn = torch.rand(4, device="cuda", generator=generator)
    assert torch.equal(drawn, torch.rand(4, device="cuda", generator=generator.manual_seed(3)))
    assert not torch.equal(drawn, torch.rand(4, device="cuda", generator=generator))
    many = torch.multinomial(torch.ones(9, device="cuda"), 4)
    return digest(torch.randperm(50, device="cuda"), many, F.dropout(torch.ones(99, device="cuda")))


@device_only
def rms_norm_and_fused_adamw():
    model = nn.Sequential(nn.Linear(32, 32), nn.RMSNorm(32), nn.SiLU(), nn.Linear(32, 5)).cuda()
    labels = torch.randint(0, 5, (4,), device="cuda")
    return fit(model, torch.randn(4, 32, device="cuda"), labels, lambda p: torch.optim.AdamW(p, 1e-3, fused=True))


@device_only
def ctc():
    x = torch.randn(20, 2, 6, device="cuda", requires_grad=True)
    targets = torch.randint(1, 6, (2, 5), device="cuda")
    loss = F.ctc_loss(x.log_softmax(2), targets, torch.tensor([20, 18]), torch.tensor([5, 4]))
    loss.backward()
    return digest(loss, x.grad)


@device_only
def transforms():
    f = torch.func.vmap(torch.func.grad(lambda x: x.sin().sum()))
    return digest(f(torch.randn(3, 4, device="cuda")))


@device_only
def another_thread():
    results, x = [], torch.randn(4, 8, device="cuda")
    thread = threading.Thread(target=lambda: results.append(fit(nn.Linear(8, 5).cuda(), x, torch.arange(4).cuda())))
    thread.start()
    thread.join()
    return results[0]


@device_only
def number_of_threads_is_the_callers():
    """Sums differ with the number of threads; the card's own thread was started when there were two."""
    x = torch.randn(1 << 20)
    torch.set_num_threads(2)
    (torch.ones(9, device="cuda") + 1).sum().item()
    by_two, on_device = x.sum(), x.cuda()
    torch.set_num_threads(1)
    by_one = x.sum()
    assert by_one != by_two, "the test says nothing"
    assert on_device.sum().cpu() == by_one
    return digest(by_one)


def races_of(emulation, records):
    """A tensor of one stream is used on another and freed; its memory is filled anew. Wrong results, races."""
    side, before, wrong = torch.cuda.Stream(), emulation.report()["races"], 0
    for i in range(20):
        with torch.cuda.stream(side):
            x = torch.full((300, 300), float(i), device="cuda")
        torch.cuda.current_stream().wait_stream(side)
        product = torch.randn(300, 300, device="cuda")
        for _ in range(3):
            product = product @ product * 1e-3
        y = x + 0 * product
        if records:
            x.record_stream(torch.cuda.current_stream())
        del x
        with torch.cuda.stream(side):
            torch.full((300, 300), -1.0, device="cuda")
        wrong += not bool((y == i).all().item())
    torch.cuda.synchronize()
    return wrong, emulation.report()["races"] - before


def copy_that_is_read_early(emulation):
    x, host = torch.randn(512, 512, device="cuda"), torch.zeros(512, 512).pin_memory()
    for _ in range(20):
        x = (x @ x).tanh()
    host.copy_(x, non_blocking=True)
    early = host.clone()
    torch.cuda.synchronize()
    return bool(torch.equal(early, host)), bool(torch.equal(host, x.cpu()))


def error_of(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return "none"


def errors(emulation):
    """What programs do wrong, and when they are told."""
    x, other, integers = (
        torch.ones(3, 4, device="cuda"),
        torch.ones(3, 4),
        torch.ones(3, dtype=torch.int64, device="cuda"),
    )
    found = {
        "add": error_of(lambda: x + other),
        "mm": error_of(lambda: x @ other.t()),
        "shapes": error_of(lambda: x @ x),
        "in place shapes": error_of(lambda: x.masked_fill_(torch.ones(5, device="cuda", dtype=torch.bool), 1.0)),
        "in place type": error_of(lambda: integers.add_(1.5)),
        "not emulated": error_of(lambda: torch.ops.aten._cslt_compress(x)),
    }
    lookup = nn.Embedding(10, 4).cuda()
    found["index, at the call"] = error_of(lambda: lookup(torch.tensor([3, 99], device="cuda")))
    found["index, later"] = error_of(torch.cuda.synchronize)
    emulation.clear_error()
    return found


def two_devices(emulation):
    first = torch.randn(3, 4, device="cuda:0")
    second = first.to("cuda:1")
    model = nn.LSTM(4, 5).to("cuda:1")
    model(second)[0].sum().backward()
    return {
        "copied": bool(torch.equal(first.cpu(), second.cpu())),
        "cast": bool(torch.equal(first.t().to("cuda:1", torch.bfloat16).cpu(), first.t().bfloat16().cpu())),
        "product": str((second @ second.t()).device),
        "random": str(torch.randn(3, device="cuda:1").device),
        "dropout": str(F.dropout(second).device),
        "gradient": str(model.weight_ih_l0.grad.device),
        "list": [str(tensor.device) for tensor in torch._foreach_mul([first, second], 2.0)],
        "add": error_of(lambda: first + second),
        "mm": error_of(lambda: first @ second.t()),
        "current": torch.cuda.current_device(),
    }


def memory(emulation):
    """Bytes that the first matrix product of a stream takes from the allocator beyond its result, and the second:
    at most, and for good."""
    x = torch.ones(128, 128, device="cuda")
    used, most, kept = torch.cuda.memory_allocated(), [], []
    for _ in range(2):
        torch.cuda.reset_peak_memory_stats()
        x @ x
        most.append(torch.cuda.max_memory_allocated() - used - x.nbytes)
        kept.append(torch.cuda.memory_allocated() - used)
    return {"most": most, "kept": kept}


def speed(emulation):
    """Seconds of an op whose shape function is Python code: with sizes that are new each time, and with these again."""
    tensors = [torch.ones(size, device="cuda") for size in range(4, 104)]
    F.layer_norm(torch.ones(3, device="cuda"), (3,))
    seconds = []
    for _ in range(2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for x in tensors:
            F.layer_norm(x, x.shape)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds


def installation(emulation):
    """Ops may have been added since the first time, by what Python code was imported."""
    return {"ops": emulation.ops, "again": [emulation.install(), emulation.install()], "unmapped": emulation.unmapped()}


SPECIAL = {
    program.__name__: program for program in (copy_that_is_read_early, errors, two_devices, memory, speed, installation)
} | {
    "freed_too_early": lambda emulation: races_of(emulation, records=False),
    "recorded": lambda emulation: races_of(emulation, records=True),
}


def result_of(program, *arguments):
    torch.manual_seed(0)
    try:
        return program(*arguments)
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"


def main(names):
    emulation = Emulation()
    torch.set_num_threads(1)
    cpu, device = {}, {}
    for name in names or [*EITHER_DEVICE, *DEVICE_ONLY]:
        if name in EITHER_DEVICE:
            cpu[name] = result_of(EITHER_DEVICE[name], "cpu")
            device[name] = result_of(EITHER_DEVICE[name], "cuda")
        elif name in DEVICE_ONLY:
            device[name] = result_of(DEVICE_ONLY[name])
        else:
            device[name] = result_of(SPECIAL[name], emulation)
    print(
        json.dumps({"cpu": cpu, "device": device, "report": emulation.report(), "synchronous": emulation.synchronous()})
    )


if __name__ == "__main__":
    main(sys.argv[1:])
