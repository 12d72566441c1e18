import pytest
import torch

import attnlab as lab
from attnlab.model.cache import Cache, KeyValues
from attnlab.model.tokens import Tokens


def test_positions_skip_padding_and_restart_in_documents():
    left = Tokens.of(5, real=torch.tensor([[0, 0, 1, 1, 1]]).bool())
    assert left.position.tolist() == [[0, 0, 0, 1, 2]]
    packed = Tokens.of(6, document=torch.tensor([[7, 7, 2, 2, 2, 7]]))
    assert packed.position.tolist() == [[0, 1, 0, 1, 2, 0]]
    assert packed.document.tolist() == [[1, 1, 2, 2, 2, 3]], "the same id after another is another document"
    both = Tokens.of(
        6, document=torch.tensor([[1, 1, 1, 2, 2, 0]]), real=torch.tensor([[1, 1, 0, 1, 1, 0]]).bool()
    )
    assert both.position.tolist() == [[0, 1, 1, 0, 1, 0]]


def test_following_tokens_continue_each_row():
    prompt = Tokens.of(4, real=torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]]).bool())
    after = prompt.following(2)
    assert after.position.tolist() == [[2, 3], [4, 5]] and after.index.tolist() == [[4, 5]]
    whole = prompt.join(after)
    assert whole.real.tolist() == [[False, False, True, True, True, True], [True] * 6]
    assert whole.span == range(6)


def test_wrong_shapes_and_impossible_continuations_are_refused():
    with pytest.raises(ValueError, match=r"real has shape \(2, 3\); it must be \(batch, 4\)"):
        Tokens.of(4, real=torch.ones(2, 3, dtype=torch.bool))
    packed = Tokens.of(3, document=torch.tensor([[0, 0, 1]]))
    with pytest.raises(ValueError, match="Packed documents cannot be continued"):
        packed.following(1)
    with pytest.raises(ValueError, match="packed documents"):
        Cache([KeyValues()]).extend(packed)
    with pytest.raises(ValueError, match="pad prompts on the left"):
        Cache([KeyValues()]).extend(Tokens.of(3, real=torch.tensor([[1, 1, 0]]).bool()))
    with pytest.raises(ValueError, match="cache is empty"):
        Cache([KeyValues()]).following(1)


def test_key_values_hold_what_was_kept_however_it_arrived():
    """Against plain concatenation, over many steps of uneven sizes, bounded and not."""
    for keep in (3, 7, float("inf")):
        memory, everything = KeyValues(keep), torch.empty(2, 1, 0, 2)
        held = 0
        for step, new in enumerate([4, 1, 1, 3, 1, 1, 1, 9, 1, 2, 1, 1, 1, 1]):
            k = torch.randn(2, 1, new, 2, generator=torch.Generator().manual_seed(step))
            everything = torch.cat([everything, k], 2)
            got_k, got_v = memory.extend(k, -k)
            assert got_k.shape[2] == held + new
            assert torch.equal(got_k, everything[:, :, -(held + new) :]) and torch.equal(got_v, -got_k)
            held = int(min(keep, held + new))
        memory.select(torch.tensor([1, 1]))
        chosen, _ = memory.extend(k, k)
        assert torch.equal(chosen[0, :, :held], everything[1, :, -held:])


@torch.no_grad()
def test_a_cache_goes_on_where_it_stands_when_nothing_is_said():
    """Also with a source, which is read once."""
    ids, source = torch.randint(0, 11, (2, 6)), torch.randint(0, 11, (2, 4))
    for model, given in (
        (lab.decoder(vocabulary=11, width=16, heads=2, layers=2), {}),
        (lab.encoder_decoder(vocabulary=11, width=16, heads=2, layers=2), {"source": source}),
    ):
        cache = model.trunk.cache()
        steps = [model(ids[:, :1], cache=cache, **given)]
        steps += [model(ids[:, i : i + 1], cache=cache) for i in range(1, 6)]
        assert torch.allclose(torch.cat(steps, 1), model(ids, **given), atol=1e-5)
    with torch.enable_grad(), pytest.raises(ValueError, match="cannot be differentiated"):
        model(ids, cache=model.trunk.cache(), source=source)


def test_positions_given_by_hand_are_checked():
    with pytest.raises(ValueError, match=r"position has shape \(1, 3\)"):
        Tokens.of(4, position=torch.zeros(1, 3, dtype=torch.long))
    far = Tokens.of(4, position=torch.tensor([[0, 5, 6, 40]]))
    for positions in ("learned", "relative"):
        model = lab.decoder(vocabulary=11, width=16, heads=2, layers=1, length=16, positions=positions)
        with pytest.raises(ValueError, match="a token at 40"):
            model(torch.zeros(1, 4, dtype=torch.long), far)
    endless = lab.decoder(vocabulary=11, width=16, heads=2, layers=1, length=16, positions="sinusoidal")
    assert endless(torch.zeros(1, 4, dtype=torch.long), far).isfinite().all()
    with pytest.raises(ValueError, match="at least one"):
        Tokens.of(0)
