"""What the programs of CUDA-only ops compare by, and the list that they register in."""

import torch

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def to_cuda(tensor):
    return tensor.detach().cuda().requires_grad_(tensor.requires_grad)


def close(actual, expected, tolerance=2e-5):
    torch.testing.assert_close(actual.detach().cpu().float(), expected.detach().float(), rtol=tolerance, atol=tolerance)


def gradients(function, inputs, seed=7):
    """Of a weighted sum of what the function returns, by the inputs; and the results."""
    results = function(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    generator = torch.Generator().manual_seed(seed)
    # Weights laid out as the results are, since a sum's order follows the layout.
    weights = [torch.empty_like(r, device="cpu").copy_(torch.randn(r.shape, generator=generator)) for r in results]
    loss = sum((r * w.to(r.device)).sum() for r, w in zip(results, weights, strict=True))
    return results, torch.autograd.grad(loss, [i for i in inputs if i.requires_grad])


def same_on_cuda(function, inputs, tolerance=2e-5, equal=False):
    """The function on `cuda` gives the CPU's results and gradients; returns the former."""
    expected, expected_gradients = gradients(function, inputs)
    results, found = gradients(function, [to_cuda(i) for i in inputs])
    for actual, wanted in zip(results + found, expected + expected_gradients, strict=True):
        assert actual.shape == wanted.shape
        if equal:
            assert torch.equal(actual.cpu(), wanted), (actual.cpu() - wanted).abs().max()
        else:
            close(actual, wanted, tolerance)
    return results + found
