"""What every model promises, whatever it is made of. Each function raises ContractError, with the case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnlab.model.assemble import build_model
from attnlab.model.contracts.small_models import (
    IDS,
    LAYOUTS,
    LEFT,
    SOURCE,
    VOCABULARY,
    B,
    SmallModel,
    T,
    plainly,
)
from attnlab.model.contracts.zero_gradients import looked_up
from attnlab.model.counts import parameter_terms
from attnlab.model.initial import initialise
from attnlab.model.model import Model
from attnlab.model.pairs import Pairs
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.transformer import Transformer

EQUAL = 1e-9
"""In float64: how far two ways to one number may differ."""
STILL = 1e-12
"""In float64: below it nothing has moved."""


class ContractError(AssertionError):
    """A part does not do what every part of its kind does."""


def require(kept: bool, case: SmallModel, message: str) -> None:
    __tracebackhide__ = True
    if not kept:
        raise ContractError(f"{message} (in the model {case})")


@torch.no_grad()
def equals_its_plain_form(case: SmallModel, model: Model) -> None:
    """The fast forward of every rule is its weights times the values: plain, left-padded and packed."""
    for layout, marks in LAYOUTS.items():
        fast = case.run(model, layout)
        with plainly(model):
            plain = case.run(model, layout)
        require(bool(fast.isfinite().all()), case, f"A hidden state is not a finite number, {layout}.")
        real = marks.get("real", torch.ones(B, T, dtype=torch.bool))  # what is made of padding means nothing
        error = float((fast - plain)[real].abs().max())
        require(
            error < EQUAL,
            case,
            f"forward and weights differ by {error:.1e}, {layout}: forward(q, k, v, pairs) must give what "
            "weights(q, k, pairs) @ v gives.",
        )


@torch.no_grad()
def equals_itself_with_a_cache(case: SmallModel, model: Model) -> None:
    """A prompt of 4 (with all of the source), then two tokens at once, then one: as all of them at once."""
    if case.family == "encoder" or case.masking != "-inf":
        return
    for real in (None, LEFT):
        marks: dict[str, Any] = {} if real is None else {"real": real}
        whole = model.trunk(IDS, case.tokens(**marks), **case.inputs())
        cache, outputs = model.trunk.cache(), list[Tensor]()
        prompt = case.tokens(4, **{name: mark[:, :4] for name, mark in marks.items()})
        outputs.append(model.trunk(IDS[:, :4], prompt, cache=cache, **case.inputs()))
        for start, stop in ((4, 6), (6, 7)):
            step = cache.following(stop - start)
            outputs.append(model.trunk(IDS[:, start:stop], step, cache=cache, **case.inputs()))
        difference = (torch.cat(outputs, 1) - whole).abs()
        error = float(difference.max() if real is None else difference[real].max())
        require(
            error < EQUAL,
            case,
            f"With a cache, token by token, hidden states differ by {error:.1e} from all tokens at once: "
            "what memory(keep) holds and recall(memory, q, k, v, pairs) reads must be all that forward uses.",
        )


def depends_on_visible_tokens_alone(case: SmallModel, model: Model) -> None:
    """By replacing each token, and by the gradient of each output: at every pair of positions."""
    if case.masking == "zero":
        return  # the leak that `zero` has is what it is for
    for layout in LAYOUTS:
        leaks = (moved_by_tokens(case, model, layout) & ~reachable(case, model, layout)).nonzero().tolist()
        require(
            not leaks,
            case,
            f"{layout}: output {leaks[0][1] if leaks else 0} depends on token {leaks[0][2] if leaks else 0}, "
            "which the mask hides; let positions meet in the attention's weights alone.",
        )
    slope = gradients(case, model, "packed")
    stray = float(torch.where(reachable(case, model, "packed"), 0.0, slope).max())
    require(stray <= 1e-13, case, f"A gradient of {stray:.1e} goes to a token that the mask hides.")


def reachable(case: SmallModel, model: Model, layout: str) -> Tensor:
    """(B,T,T): whether output i may depend on input j, through all layers and each token's own residual."""
    tokens = case.tokens(**LAYOUTS[layout])
    if not isinstance(model.trunk, Transformer):
        rows = (tokens.select(torch.tensor([row])) for row in range(tokens.rows))
        return torch.stack([model.trunk.ways(row)[0].reach for row in rows]).expand(B, -1, -1)
    stack = model.trunk.main
    mask = Pairs(tokens, tokens, stack.mask).within(stack.rules()[0].layout).allowed
    step = torch.ones(B, T, T, dtype=torch.bool) if mask is None else mask[:, 0].expand(B, -1, -1)
    step = step | torch.eye(T, dtype=torch.bool)
    for _ in range(len(stack.blocks) - 1):
        step = (step.long() @ step.long()) > 0
    return step


@torch.no_grad()
def moved_by_tokens(case: SmallModel, model: Model, layout: str) -> Tensor:
    """(B,T,T): whether output i moved at all when token j was replaced."""
    tokens, given = case.tokens(**LAYOUTS[layout]), case.inputs(layout=layout)
    before = model.trunk(IDS, tokens, **given)
    moved = []
    for j in range(T):
        ids = IDS.clone()
        ids[:, j] = (ids[:, j] + 5) % VOCABULARY
        moved.append((model.trunk(ids, tokens, **given) - before).abs().amax(-1) > STILL)
    return torch.stack(moved, -1)


def gradients(case: SmallModel, model: Model, layout: str) -> Tensor:
    """(B,T,T): the size of ∂output_i/∂embedding_j."""
    kept = list[Tensor]()
    hook = model.trunk.entrances()[0].register_forward_hook(
        lambda module, inputs, output: kept.append(output.requires_grad_())
    )
    y = model.trunk(IDS, case.tokens(**LAYOUTS[layout]), **case.inputs(layout=layout))
    hook.remove()
    slopes = [
        torch.autograd.grad(y[:, i].sum(), kept[0], retain_graph=True)[0].abs().amax(-1) for i in range(T)
    ]
    return torch.stack(slopes, 1)


def is_the_same_padded_and_in_company(case: SmallModel, model: Model) -> None:
    """A row alone, padded left or right, or beside another: the same outputs, the same gradients."""
    for row in range(B):
        rows = slice(row, row + 1)
        alone = measured(case, model, IDS[rows, :5], case.tokens(5, rows=rows), row)
        for side in ("left", "right"):
            ids, tokens = padded_row(case, row, side)
            padded = measured(case, model, ids, tokens, row)
            for name in alone:
                error = float((alone[name] - padded[name]).abs().max())
                size = max(1.0, float(alone[name].abs().max()))
                what = "an output" if name == "output" else f"the gradient of {name}"
                require(error < EQUAL * size, case, f"Padding on the {side} changes {what} by {error:.1e}.")
    both = weighed(case, model)
    each = torch.cat([weighed(case, model, slice(row, row + 1)) for row in range(B)])
    error = float((both - each).detach().abs().max()) / float(each.detach().abs().max())
    require(error < EQUAL, case, f"A row's outputs differ by {error:.1e} beside another row.")


def padded_row(case: SmallModel, row: int, side: str) -> tuple[Tensor, Tokens]:
    """The first five tokens of a row with two of padding on one side."""
    parts = (torch.full((1, 2), 3), IDS[row : row + 1, :5])
    ids = torch.cat(parts if side == "left" else parts[::-1], 1)
    real = torch.ones(1, T, dtype=torch.bool)
    real[:, :2] = side == "right"
    real[:, 5:] = side == "left"
    marks: dict[str, Any] = {"real": real}
    if case.needs_source:
        marks["source"] = torch.zeros(1, T, dtype=torch.bool)
        marks["source"][real] = SOURCE[row, :5]
    return ids, Tokens.of(T, **marks)


def measured(case: SmallModel, model: Model, ids: Tensor, tokens: Tokens, row: int) -> Mapping[str, Tensor]:
    """Outputs at real tokens, and the gradient of every parameter."""
    model.zero_grad(set_to_none=True)
    hidden = model.trunk(ids, tokens, **case.inputs(slice(row, row + 1)))
    hidden = hidden[tokens.real] if tokens.real is not None else hidden[0]
    hidden.pow(3).sum().backward()
    taught = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"output": hidden.detach(), **taught}


def weighed(case: SmallModel, model: Model, rows: slice = slice(None)) -> Tensor:  # it is constant
    """(B) numbers in which every output of a row takes part, by uneven shares."""
    hidden = model.trunk(IDS[rows], case.tokens(rows=rows), **case.inputs(rows))
    share = torch.linspace(0.5, 1.5, hidden[0].numel(), dtype=hidden.dtype).view(hidden[0].shape)
    return (hidden.square() * share).sum((1, 2)) + (hidden * share.flip(0)).sum((1, 2))


def teaches_every_parameter(
    case: SmallModel,
    model: Model,
    zero: Callable[[str], str | None] = lambda name: None,
    either: Callable[[str], bool] = lambda name: False,
) -> None:
    """A gradient reaches each parameter, but where `zero` gives a proof that none can; `either` may go both
    ways."""
    model.zero_grad(set_to_none=True)
    model.head(model.trunk(IDS, case.tokens(), **case.inputs())).square().sum().backward()
    for name, parameter in model.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        proof, largest = zero(name), float(gradient.abs().max())
        require(bool(gradient.isfinite().all()), case, f"The gradient of {name} is not a finite number.")
        if proof is not None:
            require(largest < EQUAL, case, f"{name} has a gradient of {largest:.1e}, though {proof}.")
        elif not either(name):
            reached = float(looked_up(name, gradient).abs().sum()) > STILL
            require(
                reached, case, f"No gradient reaches {name}. If that is by design, name it in `untaught`."
            )


@torch.no_grad()
def comes_back_from_its_saved_parameters(case: SmallModel, model: Model) -> None:
    """By named_parameters into a model made elsewhere, tied tables and all."""
    other = case.model(seed=1)
    saved, theirs = dict(model.named_parameters()), dict(other.named_parameters())
    require(saved.keys() == theirs.keys(), case, "Two models of one config have parameters of other names.")
    for name, parameter in saved.items():
        theirs[name].copy_(parameter)
    require(
        torch.equal(case.run(model, "plain"), case.run(other, "plain")),
        case,
        "With the same parameters another model gives other outputs: it holds what is in no parameter. Keep "
        "what is learned in nn.Parameter, and compute the rest from the constructor's arguments.",
    )


@torch.no_grad()
def begins_by_its_seed(case: SmallModel) -> None:
    """Every parameter is filled from the generator that it is given, whatever it held before."""
    models = [build_model(case.config(), seed=0) for _ in range(2)]
    for number, model in enumerate(models):
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
        torch.manual_seed(number)
        initialise(model, 0)
    first, second = (dict(model.named_parameters()) for model in models)
    for name, parameter in first.items():
        empty = bool(parameter.isnan().any())
        require(not empty, case, f"initialise leaves {name} unfilled: fill each parameter there.")
        same = torch.equal(parameter, second[name])
        require(same, case, f"initialise fills {name} anew each time: draw from the generator that it gets.")


def is_counted_in_closed_form(case: SmallModel) -> None:
    """The terms of all parts add up to the parameters that the model has."""
    model = build_model(case.config(), device="meta")
    terms = parameter_terms(model)
    counted, real = sum(term.count for term in terms), sum(p.numel() for p in model.parameters())
    require(
        counted == real,
        case,
        f"parameter_terms count {counted:,} parameters, and the model has {real:,}: return a Term for each "
        "parameter of the part's own.",
    )
