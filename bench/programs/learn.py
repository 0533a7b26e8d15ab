# SPDX-License-Identifier: MIT
# scikit-learn with two threads: a random forest, clusters and a text model.
import numpy
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer

from rest import rest


def main():
    rng = numpy.random.default_rng(42)
    points = rng.standard_normal((3000, 16))
    forest = RandomForestClassifier(40, n_jobs=2, random_state=42).fit(points, points[:, 0] + points[:, 1] > 0)
    clusters = KMeans(8, n_init=2, random_state=42).fit(points)
    texts = [" ".join(f"w{w}" for w in rng.integers(0, 3000, 40)) for _ in range(3000)]
    words = TfidfVectorizer().fit_transform(texts)
    print(forest.score(points, points[:, 0] > 0) > 0.5, clusters.labels_.max(), words.shape)


main()
rest()
