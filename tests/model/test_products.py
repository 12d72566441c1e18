"""Products by either library: the numbers of float64, gradients of gradients too, and the choice."""

import pytest
import torch
import torch.nn.functional as F

from attnlab.model import products
from attnlab.model.losses import vocabulary_loss
from attnlab.model.products import LinearMap, add_product, linear_map, multiply

ROWS, WIDTH, OUTPUTS = 96, 64, 1024


@pytest.fixture(params=["MKL", "oneDNN"])
def library(request, monkeypatch):
    """Both libraries in turn, on every machine; gives the shapes that oneDNN was asked for."""
    if request.param == "oneDNN" and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(products, "faster_products", lambda: request.param)
    asked, real = [], products._onednn
    monkeypatch.setattr(products, "_onednn", lambda a, b, *rest: asked.append(a.shape) or real(a, b, *rest))
    yield asked
    assert bool(asked) == (request.param == "oneDNN"), "the library of the test was not the one at work"


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), requires_grad=True)


def close(mine, exact):
    assert (mine.double() - exact).abs().max() <= 3e-6 * exact.abs().max()


@pytest.mark.parametrize("shape", [(ROWS, WIDTH), (4, ROWS // 4, WIDTH)])
@pytest.mark.parametrize("biased", [True, False])
def test_a_map_and_its_gradients_are_those_of_float64(library, shape, biased):
    inputs = [drawn(*shape), drawn(OUTPUTS, WIDTH, seed=1), *([drawn(OUTPUTS, seed=2)] if biased else [])]
    doubles = [given.detach().double().requires_grad_() for given in inputs]
    mine, exact = linear_map(*inputs), F.linear(*doubles)
    close(mine, exact)
    towards = drawn(*mine.shape, seed=3).detach()
    gradients = torch.autograd.grad(mine, inputs, towards)
    for gradient, wanted in zip(
        gradients, torch.autograd.grad(exact, doubles, towards.double()), strict=True
    ):
        assert gradient.shape == wanted.shape
        close(gradient, wanted)


def test_gradients_have_gradients(library):
    x, weight = drawn(ROWS, WIDTH), drawn(OUTPUTS, WIDTH, seed=1)

    def second(x, weight, linear):
        (first,) = torch.autograd.grad(linear(x, weight).square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), weight)[0]

    exact = second(*(given.detach().double().requires_grad_() for given in (x, weight)), F.linear)
    close(second(x, weight, linear_map), exact)


def test_the_loss_over_a_vocabulary_is_that_of_float64(library):
    x, table, bias = drawn(ROWS, WIDTH), drawn(OUTPUTS, WIDTH, seed=1), drawn(OUTPUTS, seed=2)
    targets = torch.arange(ROWS) * 7 % OUTPUTS
    doubles = [given.detach().double().requires_grad_() for given in (x, table, bias)]
    mine = vocabulary_loss(x, table, bias, targets).total
    exact = F.cross_entropy(F.linear(*doubles), targets, reduction="sum")
    close(mine, exact)
    mine.backward()
    exact.backward()
    for given, wanted in zip((x, table, bias), doubles, strict=True):
        close(given.grad, wanted.grad)


@torch.no_grad()
def test_products_go_where_they_are_wanted(library):
    a, b, bias = drawn(ROWS, WIDTH), drawn(WIDTH, OUTPUTS, seed=1), drawn(OUTPUTS, seed=2)
    out, total = torch.empty(ROWS, OUTPUTS), torch.ones(ROWS, OUTPUTS)
    assert multiply(a, b, out=out, bias=bias).data_ptr() == out.data_ptr()
    close(out, a.double() @ b.double() + bias.double())
    add_product(total, a, b)
    close(total, a.double() @ b.double() + 1)


def nothing_by_onednn(monkeypatch):
    def refuse(*given):
        raise AssertionError("oneDNN was asked")

    monkeypatch.setattr(products, "faster_products", lambda: "oneDNN")
    monkeypatch.setattr(products, "_onednn", refuse)


@pytest.mark.parametrize("shape", [(8, 16, 16), (31, 4096, 4096)])
def test_small_products_and_few_rows_stay_with_torch(monkeypatch, shape):
    nothing_by_onednn(monkeypatch)
    rows, width, outputs = shape
    x, weight = torch.ones(rows, width), torch.ones(outputs, width)
    assert torch.equal(linear_map(x, weight), F.linear(x, weight))


def test_other_types_and_autocast_stay_with_torch(monkeypatch):
    nothing_by_onednn(monkeypatch)
    layer, x = LinearMap(WIDTH, OUTPUTS), torch.ones(ROWS, WIDTH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    assert layer.double()(x.double()).dtype == torch.float64


@pytest.mark.parametrize(
    ("seconds", "wanted"), [((3.0, 1.0), "oneDNN"), ((1.4, 1.0), "MKL"), ((1, 2), "MKL")]
)
def test_the_faster_library_is_measured(monkeypatch, seconds, wanted):
    times = iter(seconds)
    monkeypatch.setattr(products, "_seconds", lambda work: next(times))
    products.faster_products.cache_clear()
    assert products.faster_products() == wanted
    products.faster_products.cache_clear()


def test_a_library_that_is_wrong_is_not_taken(monkeypatch):
    monkeypatch.setattr(products, "_onednn", lambda a, b, bias=None: a @ b + 1e-3)
    products.faster_products.cache_clear()
    assert products.faster_products() == "MKL"
    products.faster_products.cache_clear()
