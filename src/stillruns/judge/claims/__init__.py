"""Hypotheses after their trials: the language, its evaluation, the verdict and what it rests on."""
