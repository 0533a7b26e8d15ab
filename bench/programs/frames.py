# SPDX-License-Identifier: MIT
# NumPy and pandas: arrays, frames, groups, joins and sorting.
import numpy
import pandas

from rest import rest


def arrays(rng):
    total = 0.0
    for size in (50_000, 200_000, 1_000_000):
        values = rng.standard_normal(size)
        total += float(numpy.sort(values)[size // 2] + (values * 2 + values**2).mean())
    return total + float(numpy.linalg.norm(rng.standard_normal((300, 300)) @ rng.standard_normal((300, 300))))


def frames(rng):
    count = 150_000
    frame = pandas.DataFrame({"key": rng.integers(0, 5000, count), "value": rng.standard_normal(count)})
    frame["name"] = "n" + frame["key"].astype(str)
    groups = frame.groupby("name")["value"].agg(["mean", "std", "count"])
    joined = frame.merge(groups, left_on="name", right_index=True).sort_values(["mean", "value"])
    pivot = joined.pivot_table(index=joined["key"] % 50, columns=joined["key"] % 20, values="value")
    return len(joined), pivot.shape, int(joined["name"].str.len().sum())


def main():
    rng = numpy.random.default_rng(42)
    print(arrays(rng), frames(rng))


main()
rest()
