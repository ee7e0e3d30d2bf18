"""RESULTS.h5: what methods answered, sample by sample, and tables of it. Needs no harness."""
