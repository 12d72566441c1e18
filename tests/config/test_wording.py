"""Lists and counts, as a sentence has them."""

import numpy as np

from attnlab.config.wording import count_of, first_few, in_words


def test_lists_read_as_lists():
    assert [in_words(given) for given in ([], ["a"], ["a", "b"], (1, 2, 3), np.array([4, 5]))] == [
        *("none", "a", "a and b", "1, 2 and 3", "4 and 5"),
    ]
    assert first_few(iter("abcde")) == "a, b, c and 2 more" and first_few("abc") == "a, b, c"
    assert first_few([]) == "nothing" and first_few("abcde", 4) == "a, b, c, d and 1 more"
    assert (count_of(1, "seed"), count_of(1200, "text")) == ("1 seed", "1,200 texts")
