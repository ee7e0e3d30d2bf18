"""Samples that dense answers better than a method."""


def failing(samples, methods, by_sample):
    """[(sample, methods that fail it)], in the order of both. A sample that either did not answer, or that has no score, is none.

    by_sample: {a sample's digest: {method: record}}
    """
    found = []
    for sample in samples:
        of_method = by_sample[sample.digest]
        worse = [method for method in methods if is_worse(of_method[method], of_method["dense"])]
        if worse:
            found.append((sample, worse))
    return found


def is_worse(record, dense):
    gain = record["score"] - dense["score"]  # NaN where one is: no comparison with it holds.
    return gain > 0 if record["direction"] < 0 else gain < 0
