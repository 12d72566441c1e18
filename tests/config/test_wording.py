"""Lists and counts, as a sentence has them."""

import numpy as np

from attnlab.config.wording import count_of, first_few, in_words, percent


def test_lists_read_as_lists():
    assert [in_words(given) for given in ([], ["a"], ["a", "b"], (1, 2, 3), np.array([4, 5]))] == [
        *("none", "a", "a and b", "1, 2 and 3", "4 and 5"),
    ]
    assert first_few(iter("abcde")) == "a, b, c and 2 more" and first_few("abc") == "a, b, c"
    assert first_few([]) == "nothing" and first_few("abcde", 4) == "a, b, c, d and 1 more"
    assert (count_of(1, "seed"), count_of(1200, "text")) == ("1 seed", "1,200 texts")


def test_a_share_says_100_percent_for_all_alone():
    assert [percent(share) for share in (1, 0.9999, 0.987, 0.88, 0.0534, 0.00341, 0)] == [
        *("100%", "99.9%", "98.7%", "88%", "5.3%", "0.34%", "0%"),
    ]
