import pytest

from coda_jax.sim.bucket import Bucket, smallest


@pytest.mark.parametrize(
    ("objects", "geoms", "expected"),
    [(1, 1, "f2g1"), (2, 2, "f2g3"), (3, 1, "f4g1"), (4, 3, "f4g3"), (5, 4, "f6g6"), (6, 6, "f6g6")],
)
def test_next_larger_bucket(objects, geoms, expected):
    assert smallest(objects, geoms).name == expected


def test_what_no_bucket_takes_is_refused():
    with pytest.raises(ValueError, match=r"8 free objects; at most 6 fit: remove 2"):
        smallest(8, 1)
    with pytest.raises(ValueError, match=r"7 geoms; at most 6 fit a slot"):
        smallest(1, 7)


def test_buckets_sort_by_size():
    assert sorted([Bucket(6, 1), Bucket(2, 3), Bucket(2, 1)])[0] == Bucket(2, 1)
