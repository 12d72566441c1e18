"""Sources that are written in batches, side by side: each gets its own target, whatever the threads."""

import threading

import pytest
import torch

import attnlab as lab
from attnlab.generation.beam import beam_search, beam_searches
from attnlab.generation.target_writer import ROWS, each_of
from attnlab.model.contracts.small_models import loosen

CPU = torch.device("cpu")


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    assert torch.get_num_threads() == request.param, "the number of threads is as it was"
    torch.set_num_threads(before)


def sources(count):
    return [[1 + (7 * number + place) % 20 for place in range(1 + number % 5)] for number in range(count)]


def test_every_source_has_its_own_target_in_its_place(threads):
    """Of several batches; the texts are those of each source alone."""
    model = lab.encoder_decoder(vocabulary=23, width=16, layers=1, length=16)
    loosen(model, seed=5)
    model.double().eval()
    given = sources(2 * ROWS + 9)

    def write(batch):
        return beam_searches(model, [[0]] * len(batch), width=2, length=4, sources=batch)

    written = each_of(given, write, device=CPU)
    assert len(written) == len(given)
    for number in range(0, len(given), 13):
        alone = beam_search(model, [0], width=2, length=4, source=given[number])
        assert [text.new for text in written[number]] == [text.new for text in alone]


def test_batches_are_written_side_by_side_with_one_thread_each(threads):
    """Each batch waits until as many others are being written as there are threads."""
    together, seen = threading.Barrier(threads, timeout=20), []

    def write(batch):
        if threads > 1:
            together.wait()
        seen.append(torch.get_num_threads())
        return batch

    count = 6 * ROWS
    assert each_of(sources(count), write, device=CPU) == sources(count)
    assert set(seen) == {1}


def test_an_error_of_one_batch_is_told(threads):
    def write(batch):
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        each_of(sources(3 * ROWS), write, device=CPU)


def test_an_accelerator_gets_one_batch_after_the_other(threads):
    seen = []

    def write(batch):
        seen.append((threading.current_thread(), torch.get_num_threads()))
        return batch

    each_of(sources(3 * ROWS), write, device=torch.device("meta"))
    assert set(seen) == {(threading.main_thread(), threads)}
