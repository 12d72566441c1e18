import pytest
import torch

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
